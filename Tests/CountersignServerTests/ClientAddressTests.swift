import Testing

@testable import CountersignServer

@Suite struct ClientAddressTests {
  @Test(arguments: [
    ("192.0.2.1", "::ffff:192.0.2.1", true), ("192.0.2.1", "192.0.2.2", false),
    ("2001:db8::1", "2001:DB8:0:0::2", true),
    ("2001:db8::1", "2001:db8:0:0:ffff:ffff:ffff:ffff", true), ("2001:db8::1", "2001:db8:0:1::1", false),
  ])
  func `a client is an IPv4 address or an IPv6 network of 64 bits`(a: String, b: String, isOne: Bool) throws {
    let (a, b) = (try #require(ClientAddress(a)), try #require(ClientAddress(b)))
    #expect((a.client == b.client) == isOne)
  }

  @Test(arguments: [
    ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.0", false), ("10.0.0.0/8", "::ffff:10.1.1.1", true),
    ("10.64.0.0/10", "10.127.255.255", true), ("10.64.0.0/10", "10.128.0.0", false), ("0.0.0.0/0", "8.8.8.8", true),
    ("0.0.0.0/0", "2001:db8::1", false), ("::/0", "8.8.8.8", true), ("192.0.2.1", "192.0.2.1", true),
    ("192.0.2.1/32", "192.0.2.2", false), ("fd00::/8", "fdff::1", true), ("fd00::/8", "fe00::1", false),
    ("::1", "::1", true),
  ])
  func `a network holds its addresses`(range: String, address: String, isInside: Bool) throws {
    #expect(try #require(AddressRange(range)).contains(try #require(ClientAddress(address))) == isInside)
  }

  @Test(arguments: [
    "", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "fd00::/129", "10.0.0", "localhost",
    "10.0.0.0/8/8", "10.0.0.0/99999999999999999999", "*",
  ])
  func `a text that is no network is refused`(text: String) { #expect(AddressRange(text) == nil) }

  /// The peer, the header, and the client that they make, with 10.0.0.0/8 and fd00::/8 as ours.
  @Test(
    arguments: [
      ("203.0.113.9", [], "203.0.113.9"),
      // Not one of ours: it can write what it likes.
      ("203.0.113.9", ["6.6.6.6"], "203.0.113.9"),
      ("10.0.0.1", ["203.0.113.7"], "203.0.113.7"), ("10.0.0.1", ["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
      ("10.0.0.1", ["6.6.6.6, 203.0.113.7, 10.0.0.2"], "203.0.113.7"),
      ("10.0.0.1", ["6.6.6.6", "203.0.113.7 ,\t10.0.0.2"], "203.0.113.7"),
      ("10.0.0.1", ["203.0.113.7:8443"], "203.0.113.7"), ("fd00::1", ["[2001:db8::7]:8443"], "2001:db8::7"),
      ("10.0.0.1", ["2001:db8::7"], "2001:db8::7"), ("::ffff:10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
      // Nobody is named.
      ("10.0.0.1", [], nil), ("10.0.0.1", ["10.0.0.2"], nil), ("10.0.0.1", ["203.0.113.7, unknown"], nil),
      ("10.0.0.1", ["203.0.113.7, "], nil), ("10.0.0.1", ["[2001:db8::7"], nil),
      // This machine itself.
      ("127.0.0.1", ["203.0.113.7"], nil), ("::1", [], nil),
    ] as [(String, [String], String?)])
  func `the client is the rightmost address that is not a proxy of ours`(
    peer: String, forwarded: [String], client: String?
  ) throws {
    let ours = TrustedProxies(ranges: ["10.0.0.0/8", "fd00::/8"].compactMap { AddressRange($0) })
    let found = ours.client(peer: ClientAddress(peer), forwarded: forwarded)
    #expect(found == client.flatMap { ClientAddress($0) })
  }
}
