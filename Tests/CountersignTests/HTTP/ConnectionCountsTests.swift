import Logging
import NIOCore
import Testing

@testable import CountersignServer

@Suite struct ConnectionCountsTests {
  private static func counts(_ limit: Int = 100, perAddress: Int, log: CapturedLog = CapturedLog()) -> ConnectionCounts
  {
    ConnectionCounts(
      limit: limit, limitPerAddress: perAddress,
      proxies: TrustedProxies(ranges: [AddressRange("10.0.0.0/8")].compactMap(\.self)), logger: log.logger)
  }

  @Test func `one address has so many connections, and others have theirs`() {
    let log = CapturedLog()
    let counts = Self.counts(perAddress: 2, log: log)
    let peer = ClientAddress("203.0.113.7")
    let first = counts.begin(from: peer)
    #expect(first != nil && counts.begin(from: peer) != nil)
    for _ in 0..<10 { #expect(counts.begin(from: peer) == nil) }
    #expect(log.lines.count == 1, "said once a minute")
    #expect(counts.begin(from: ClientAddress("203.0.113.8")) != nil)
    #expect(counts.count == 3, "those that are refused are not held")
    if let first { counts.end(first) }
    #expect(counts.begin(from: peer) != nil)
    // A subscriber has a network of IPv6.
    for host in 1...2 { #expect(counts.begin(from: ClientAddress("2001:db8::\(host)")) != nil) }
    #expect(counts.begin(from: ClientAddress("2001:db8::3")) == nil)
  }

  @Test(arguments: ["10.1.2.3", "127.0.0.1", "::1", ""])
  func `a trusted proxy, this machine and what has no address are not bounded`(peer: String) {
    let counts = Self.counts(perAddress: 1)
    for _ in 0..<50 { #expect(counts.begin(from: ClientAddress(peer)) != nil) }
  }

  @Test func `zero bounds nobody`() {
    let counts = Self.counts(perAddress: 0)
    for _ in 0..<50 { #expect(counts.begin(from: ClientAddress("203.0.113.7")) != nil) }
  }

  @Test func `above three quarters it is nearly full`() {
    let counts = Self.counts(8, perAddress: 0)
    let places = (0..<6).compactMap { _ in counts.begin(from: nil) }
    #expect(places.count == 6 && !counts.isNearlyFull)
    let last = counts.begin(from: nil)
    #expect(counts.isNearlyFull)
    if let last { counts.end(last) }
    #expect(!counts.isNearlyFull)
  }

  /// An address of this machine that is not its loopback, which has no limit.
  static let ownAddress: String? = try? System.enumerateDevices().compactMap(\.address)
    .first { if case .v4 = $0, let address = ClientAddress($0) { !address.isLoopback } else { false } }?.ipAddress

  @Test(.enabled(if: Self.ownAddress != nil, "this machine has the loopback only"))
  func `the service closes connections of an address beyond its limit, and takes new ones when some are gone`()
    async throws
  {
    let host = try #require(Self.ownAddress)
    let settings = Settings(server: ["host": "\"\(host)\"", "max_connections_per_address": "3"])
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      let get = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
      var held: [HeldConnection] = []
      for _ in 0..<3 { held.append(try await HeldConnection(host: host, port: service.port)) }
      // Their answers tell that the service holds them.
      for connection in held {
        try await connection.send(get)
        #expect(await connection.next()?.hasPrefix("HTTP/1.1 200") == true)
      }
      for _ in 0..<5 { #expect(try await HeldConnection(host: host, port: service.port).next() == nil) }
      await held[0].close()
      // The service notices in its own time.
      try await eventually {
        let connection = try await HeldConnection(host: host, port: service.port)
        try? await connection.send(get)
        return await connection.next()?.hasPrefix("HTTP/1.1 200") == true
      }
      for connection in held { await connection.close() }
    }
  }
}
