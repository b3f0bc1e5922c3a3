/// Whether an address is one of the public Internet: neither of this machine, nor of a private network, nor of any other
/// special purpose (https://www.iana.org/assignments/iana-ipv4-special-registry, …-ipv6-special-registry).
///
/// An IPv6 address that stands for an IPv4 address (mapped, RFC 4291, section 2.5.5.2; translated, RFC 6052, section 2.1)
/// counts as that address.
enum PublicAddress {
  /// - Parameter bytes: four, or sixteen, as they are sent.
  static func contains(_ bytes: some Collection<UInt8>) -> Bool {
    switch bytes.count {
    case 4: containsV4(Array(bytes))
    case 16: containsV6(Array(bytes))
    default: false
    }
  }

  private static func containsV4(_ a: [UInt8]) -> Bool {
    switch (a[0], a[1], a[2]) {
    case (0, _, _), (10, _, _), (127, _, _): false
    case (100, 64...127, _): false
    case (169, 254, _): false
    case (172, 16...31, _): false
    case (192, 0, 0), (192, 0, 2), (192, 88, 99), (192, 168, _): false
    case (198, 18...19, _), (198, 51, 100), (203, 0, 113): false
    case (224...255, _, _): false
    default: true
    }
  }

  private static func containsV6(_ a: [UInt8]) -> Bool {
    if a[0..<10].allSatisfy({ $0 == 0 }), a[10] == 0xff, a[11] == 0xff { return containsV4(Array(a[12...])) }
    if a.starts(with: [0x00, 0x64, 0xff, 0x9b]), a[4..<12].allSatisfy({ $0 == 0 }) {
      return containsV4(Array(a[12...]))
    }
    // Global unicast is 2000::/3. Of it 2001::/23 has special purposes, 2002::/16 wraps IPv4 addresses, and 2001:db8::/32 and
    // 3fff::/20 are for documentation.
    guard a[0] & 0xe0 == 0x20 else { return false }
    switch (a[0], a[1], a[2], a[3]) {
    case (0x20, 0x01, 0x00, _), (0x20, 0x01, 0x01, _): return false
    case (0x20, 0x01, 0x0d, 0xb8), (0x20, 0x02, _, _): return false
    case (0x3f, 0xff, 0x00...0x0f, _): return false
    default: return true
    }
  }
}
