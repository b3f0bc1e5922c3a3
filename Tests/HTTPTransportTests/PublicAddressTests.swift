import Testing

@testable import HTTPTransport

/// Which addresses are of the public Internet, by the registries of IANA.
@Suite struct PublicAddressTests {
  @Test(arguments: [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
    "169.253.1.1", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.1.1", "192.169.0.1", "198.17.0.1",
    "198.20.0.1",
    "223.255.255.255",
  ])
  func `a public IPv4 address is allowed`(_ text: String) throws { #expect(PublicAddress.contains(try Self.v4(text))) }

  @Test(arguments: [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.255",
    "169.254.169.254",
    "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
  ])
  func `a private or special IPv4 address is not public, nor is it mapped or translated`(_ text: String) throws {
    let bytes = try Self.v4(text)
    #expect(!PublicAddress.contains(bytes))
    #expect(!PublicAddress.contains([UInt8](repeating: 0, count: 10) + [0xff, 0xff] + bytes))
    #expect(!PublicAddress.contains([0x00, 0x64, 0xff, 0x9b] + [UInt8](repeating: 0, count: 8) + bytes))
    #expect(!PublicAddress.contains([0x20, 0x02] + bytes + [UInt8](repeating: 0, count: 10)))
    #expect(!PublicAddress.contains([UInt8](repeating: 0, count: 12) + bytes))
  }

  @Test func `IPv6 addresses are public or not`() throws {
    func begins(_ bytes: UInt8...) -> [UInt8] { bytes + [UInt8](repeating: 1, count: 16 - bytes.count) }
    let open = [begins(0x26, 0x06, 0x47, 0x00), begins(0x20, 0x01, 0x48, 0x60), begins(0x2a, 0x00), begins(0x3f, 0xfe)]
    for one in open { #expect(PublicAddress.contains(one)) }
    let closed = [
      [UInt8](repeating: 0, count: 15) + [1], [UInt8](repeating: 0, count: 16), begins(0xfe, 0x80), begins(0xfc, 0x00),
      begins(0xfd, 0x12), begins(0xff, 0x02), begins(0x20, 0x01, 0x0d, 0xb8), begins(0x20, 0x01, 0x00, 0x00),
      begins(0x20, 0x02), begins(0x3f, 0xff, 0x00), begins(0x01, 0x00), begins(0x5f, 0x00), begins(0xfe, 0xc0),
    ]
    for one in closed { #expect(!PublicAddress.contains(one), "\(one)") }
    let translated = [0x00, 0x64, 0xff, 0x9b] + [UInt8](repeating: 0, count: 8)
    #expect(PublicAddress.contains(translated + [8, 8, 8, 8]))
    #expect(!PublicAddress.contains([UInt8]()) && !PublicAddress.contains([1, 2, 3]))
  }

  private static func v4(_ text: String) throws -> [UInt8] {
    let bytes = text.split(separator: ".").compactMap { UInt8($0) }
    try #require(bytes.count == 4)
    return bytes
  }

  /// The address that a name resolves to is the one that counts.
  @Test(arguments: [
    "https://127.0.0.1:9/", "https://[::1]:9/", "https://localhost:9/", "https://2130706433:9/", "https://0x7f.1:9/",
    "https://hooks.example/",
  ])
  func `a transport that may not connects to no private address, however it is written`(url: String) async throws {
    var configuration = CurlTransport.Configuration()
    configuration.refusesPrivateAddresses = true
    configuration.resolve = ["hooks.example:443:169.254.169.254"]
    let transport = try CurlTransport(configuration: configuration)
    defer { transport.shutdown() }
    await #expect(throws: TransportError.privateAddress) {
      try await transport.send(
        TransportRequest(method: .post, url: url, responseBodyLimit: 10), deadline: .now.advanced(by: .seconds(60)))
    }
  }
}
