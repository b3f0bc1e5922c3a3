import NIOCore

/// An IP address, as numbers: one client is one value, however its address is spelled.
struct ClientAddress: Hashable, Sendable {
  /// The address in 16 bytes, most significant first; IPv4 as `::ffff:a.b.c.d` (RFC 4291, section 2.5.5.2).
  let bytes: [UInt8]

  private static let mappedPrefix: [UInt8] = Array(repeating: 0, count: 10) + [0xff, 0xff]

  var isIPv4: Bool { bytes.starts(with: Self.mappedPrefix) }

  /// 127.0.0.0/8 and ::1.
  var isLoopback: Bool { isIPv4 ? bytes[12...].first == 127 : bytes == Array(repeating: 0, count: 15) + [1] }

  /// The unit in which requests are counted: an IPv4 address, or an IPv6 network of 64 bits, which is what one subscriber gets
  /// and within which a client takes any address it likes (RFC 6177).
  var client: String {
    var text = ""
    for byte in isIPv4 ? bytes[...] : bytes.prefix(8) {
      if !text.isEmpty { text += "." }
      text += String(byte, radix: 16)
    }
    return text
  }

  /// - Returns: `nil` for what is not an IP address, such as a socket's path.
  init?(_ address: SocketAddress?) {
    guard let address else { return nil }
    let bytes = address.withSockAddr { start, size in
      let raw = UnsafeRawBufferPointer(start: start, count: size)
      // Behind family and port in `sockaddr_in`, and behind the flow label too in `sockaddr_in6`.
      return switch address {
      case .v4: Self.mappedPrefix + raw.dropFirst(4).prefix(4)
      case .v6: Array(raw.dropFirst(8).prefix(16))
      case .unixDomainSocket: [UInt8]()
      }
    }
    guard bytes.count == 16 else { return nil }
    self.bytes = bytes
  }

  /// Reads an address as it stands in a header or in the configuration: `192.0.2.1`, `2001:db8::1`.
  init?(_ text: some StringProtocol) {
    guard (2...45).contains(text.utf8.count) else { return nil }
    self.init(try? SocketAddress(ipAddress: String(text), port: 0))
  }

  /// Reads an element of `X-Forwarded-For`, where some proxies add a port: `192.0.2.1:8443`, `[2001:db8::1]:8443`.
  init?(forwarded text: Substring) {
    let text = text.trimmingSpaces
    if text.first == "[" {
      guard let end = text.firstIndex(of: "]") else { return nil }
      self.init(text[text.index(after: text.startIndex)..<end])
    } else if text.count(where: { $0 == ":" }) == 1, let colon = text.firstIndex(of: ":") {
      self.init(text[..<colon])
    } else {
      self.init(text)
    }
  }
}

/// A network, or a single address: `10.0.0.0/8`, `fd00::/8`, `192.0.2.1`.
package struct AddressRange: Hashable, Sendable {
  private let first: ClientAddress
  /// The length of the prefix, out of 128 bits.
  private let bits: Int

  package init?(_ text: String) {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let name = parts.first, let address = ClientAddress(name) else { return nil }
    first = address
    guard parts.count == 2, let length = parts.last else {
      bits = 128
      return
    }
    // The family as written: `::ffff:10.0.0.0/104` counts the bits of IPv6.
    let width = name.contains(":") ? 128 : 32
    guard length.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let count = Int(length), (0...width).contains(count)
    else { return nil }
    bits = 128 - width + count
  }

  func contains(_ address: ClientAddress) -> Bool {
    var left = bits
    for (a, b) in zip(first.bytes, address.bytes) where left > 0 {
      let mask: UInt8 = left >= 8 ? 0xff : ~(0xff >> UInt8(left))
      guard a & mask == b & mask else { return false }
      left -= 8
    }
    return true
  }
}

/// The proxies whose `X-Forwarded-For` is believed (`server.trusted_proxies`).
///
/// Each proxy adds, on the right, the address it was called from; what stands further left was said by a caller, who can
/// write anything. So it is read from the right, for as long as proxies of ours are named:
///
///     X-Forwarded-For: 6.6.6.6, 203.0.113.7, 10.0.0.2      from 10.0.0.1, trusted 10.0.0.0/8
///                               └ the client  └ a proxy of ours
///
/// `Forwarded` (RFC 7239) is not read: proxies that write the one pass on the other as a caller sent it.
struct TrustedProxies: Sendable {
  var ranges: [AddressRange]

  func contains(_ address: ClientAddress) -> Bool { ranges.contains { $0.contains(address) } }

  /// The client behind a connection.
  ///
  /// - Parameters:
  ///   - peer: the other end of the connection.
  ///   - forwarded: every `X-Forwarded-For`, in order.
  /// - Returns: `nil` where no client is known: a proxy of ours that names none, or this machine itself.
  func client(peer: ClientAddress?, forwarded: [String]) -> ClientAddress? {
    guard let peer else { return nil }
    guard contains(peer) else { return peer.isLoopback ? nil : peer }
    for element in forwarded.flatMap({ $0.split(separator: ",") }).reversed() {
      guard let address = ClientAddress(forwarded: element) else { return nil }
      if !contains(address) { return address }
    }
    return nil
  }
}

extension Substring {
  fileprivate var trimmingSpaces: Substring {
    var text = drop { $0 == " " || $0 == "\t" }
    while let last = text.last, last == " " || last == "\t" { text.removeLast() }
    return text
  }
}
