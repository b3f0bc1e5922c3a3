import Foundation
import HTTPTransport
import HTTPTypes
import Prometheus
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Entitlements
@testable import Resilience

@Suite struct RateLimitTests {
  @Test func `a bucket holds one second's worth and fills as time goes by`() {
    let clock = SleepingClock()
    let limiter = RateLimiter(rate: 4) { clock.now }
    for _ in 0..<4 { #expect(limiter.admit("a") == nil) }
    #expect(limiter.admit("a") == 1)
    #expect(limiter.admit("b") == nil, "each caller has a bucket of its own")
    clock.pass(.milliseconds(249))
    #expect(limiter.admit("a") == 1)
    clock.pass(.milliseconds(1))
    #expect(limiter.admit("a") == nil)
    #expect(limiter.admit("a") == 1)
    clock.pass(.seconds(3600))
    for _ in 0..<4 { #expect(limiter.admit("a") == nil) }
    #expect(limiter.admit("a") == 1, "what was not used is not saved up")
  }

  @Test func `a bucket may hold a minute's worth`() {
    let clock = SleepingClock()
    let limiter = RateLimiter(rate: 10, per: .seconds(60)) { clock.now }
    for _ in 0..<10 { #expect(limiter.admit("a") == nil) }
    #expect(limiter.admit("a") == 6)
    clock.pass(.milliseconds(2_500))
    #expect(limiter.admit("a") == 4)
    clock.pass(.milliseconds(4_000))
    #expect(limiter.admit("a") == nil)
    #expect(limiter.admit("a") == 6, "a bucket that is not full is not forgotten")
    clock.pass(.milliseconds(123_500))
    for _ in 0..<10 { #expect(limiter.admit("a") == nil) }
    #expect(limiter.admit("a") == 6)
  }

  @Test func `zero is no limit`() {
    let limiter = RateLimiter(rate: 0)
    for _ in 0..<10_000 { #expect(limiter.admit("a") == nil) }
  }

  @Test func `buckets are forgotten once they are full, and in a flood`() {
    let clock = SleepingClock()
    let limiter = RateLimiter(rate: 2, most: 100) { clock.now }
    for _ in 0..<2 { #expect(limiter.admit("spent") == nil) }
    for second in 1...60 {
      clock.pass(.seconds(1))
      for caller in 0..<20 { #expect(limiter.admit("\(second)-\(caller)") == nil) }
      #expect(limiter.count <= 80)
    }
    for caller in 0..<10_000 { #expect(limiter.admit("flood-\(caller)") == nil) }
    #expect(limiter.count <= 200)
  }

  @Test func `a bucket in use is not forgotten`() {
    let clock = SleepingClock()
    let limiter = RateLimiter(rate: 2) { clock.now }
    var admitted = 0
    for _ in 0..<1_000 {
      if limiter.admit("a") == nil { admitted += 1 }
      clock.pass(.milliseconds(100))
    }
    // One hundred seconds at two a second, and what the bucket held at first.
    #expect((200...202).contains(admitted), "\(admitted)")
  }

  @Test func `a request that does not count is given back, and no more than that`() {
    let start = ContinuousClock.now
    let limiter = RateLimiter(rate: 2) { start }
    for _ in 0..<100 {
      #expect(limiter.admit("a") == nil)
      limiter.giveBack("a")
    }
    limiter.giveBack("a")
    limiter.giveBack("b")
    for _ in 0..<2 { #expect(limiter.admit("a") == nil) }
    #expect(limiter.admit("a") == 1)
  }

  @Test func `a user is counted by address, and writes for a user in all too`() throws {
    let start = ContinuousClock.now
    var settings = ServerSettings()
    settings.userRateLimit = 2
    let registry = PrometheusRegistry()
    let limits = RequestLimits(settings, DiskReserve(share: 0) { nil }, registry) { start }
    func isTaken(_ user: UserID, _ address: String?, writes: Bool = true, byApp: Bool = false) -> Bool {
      var context = ServiceRequestContext.test(writes ? .post : .get)
      context.clientAddress = address.flatMap { ClientAddress($0) }
      do throws(Problem) {
        if byApp { try limits.admit(namedByApp: user, context) } else { try limits.admit(.user(user), context) }
        return true
      } catch {
        return false
      }
    }
    // Ten times two for all addresses, of which each has two, and one that nobody knows too.
    for byApp in [true, false] {
      for number in 0..<10 {
        let address = number == 0 ? nil : "203.0.113.\(number)"
        for _ in 0..<2 { #expect(isTaken("anna", address, byApp: byApp)) }
        #expect(!isTaken("anna", address, byApp: byApp) && !isTaken("anna", address, writes: false, byApp: byApp))
        #expect(isTaken("ben", address, byApp: byApp), "another user at the same address")
      }
      #expect(!isTaken("anna", "198.51.100.1", byApp: byApp))
      #expect(isTaken("anna", "198.51.100.2", writes: false, byApp: byApp), "reads have no limit in all")
    }
    let refused = ExpositionFormat.text(of: registry.collect()).split(separator: "\n")
    #expect(refused.contains(#"countersign_rate_limited_total{limit="user"} 40"#), "\(refused)")
    #expect(refused.contains(#"countersign_rate_limited_total{limit="user_in_all"} 2"#), "\(refused)")
  }

  /// A service that knows a client's address from a header, and takes few requests of each user.
  private static func named(
    _ body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    try await DialectBench.run(
      DialectBench.settings(server: ["user_rate_limit": "1", "trusted_proxies": "[127.0.0.1]"]),
      body: body)
  }

  private static func from(_ address: String) -> [TransportHeader] { [TransportHeader("X-Forwarded-For", address)] }

  private static let victim = "victim"

  private static func read(_ service: RunningService, from address: String) async throws -> Answer {
    try await service.send(
      .get, "/v1/subscribers/\(victim)", key: RunningService.publicKey, headers: from(address))
  }

  private static func write(_ service: RunningService, from address: String) async throws -> Answer {
    try await service.send(
      .post, "/v1/subscribers/\(victim)/attributes", key: RunningService.publicKey, body: #"{"attributes":{}}"#,
      headers: from(address))
  }

  @Test func `an address that names a user takes nothing of the user's own requests`() async throws {
    try await Self.named { service, store in
      #expect(try await refusal { try await Self.read(service, from: "203.0.113.7") } != nil)
      _ = try await refusal { try await Self.write(service, from: "203.0.113.8") }
      #expect(try await Self.read(service, from: "203.0.113.9").status == 200)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let bought = try await service.send(
        .post, "/v1/receipts", key: RunningService.publicKey,
        body: #"{"app_user_id":"\#(Self.victim)","fetch_token":"\#(receipt)"}"#, headers: Self.from("203.0.113.10"))
      #expect(bought.status == 200, "\(bought.text)")
    }
  }

  private static func verify(_ service: RunningService, _ jws: String) async throws -> Answer {
    try await service.send(
      .post, OpenIAPController.path, key: RunningService.publicKey, body: try DialectBench.openIAP(jws),
      headers: from("203.0.113.7"))
  }

  @Test func `an unsigned transaction counts for no user`() async throws {
    try await Self.named { service, store in
      let named = try #require(UUID(uuidString: "00000000-0000-4000-8000-000000000002"))
      let signed = try store.simulator.issueTransaction(.renewing, appAccountToken: named).signedTransaction
      // Known from now on, as only a known user can be named.
      #expect(try await service.validate(signed, user: named.uuidString).status == 200)
      let forged = String(signed.dropLast(4)) + "AAAA"
      for _ in 0..<5 {
        #expect(try await Self.verify(service, forged).openIAPState == "false INAUTHENTIC -")
      }
      let read = try await service.send(
        .get, "/v1/subscribers/\(named.uuidString)", key: RunningService.publicKey, headers: Self.from("203.0.113.7"))
      #expect(read.status == 200 || read.status == 201, "\(read.text)")
      var answer = try await Self.verify(service, signed)
      for _ in 0..<300 where answer.status == 200 { answer = try await Self.verify(service, signed) }
      #expect(answer.status == 503 && answer.openIAPErrors == ["rate_limited"], "what Apple signed counts")
    }
  }

  private static func preflight(_ service: RunningService, from address: String) async throws -> String {
    try await service.exchange(
      "OPTIONS /v1/profiles/me HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example.com\r\nConnection: close\r\n"
        + "Access-Control-Request-Method: GET\r\nX-Forwarded-For: \(address)\r\n\r\n"
    ).lowercased()
  }

  @Test func `preflights count for their address`() async throws {
    let settings = Settings(
      server: [
        "address_rate_limit": "2", "trusted_proxies": "[127.0.0.1]", "page_origins": #"["https://app.example.com"]"#,
      ])
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      var answer = ""
      for _ in 0..<300 where !answer.hasPrefix("http/1.1 429 ") {
        answer = try await Self.preflight(service, from: "203.0.113.7")
      }
      #expect(answer.hasPrefix("http/1.1 429 "), "\(answer)")
      #expect(answer.contains("access-control-allow-origin: https://app.example.com\r\n"), "\(answer)")
      let other = try await Self.preflight(service, from: "203.0.113.8")
      #expect(other.hasPrefix("http/1.1 204 ") && other.contains("access-control-max-age: 86400"), "\(other)")
    }
  }

  /// The first answer that is a 429, of at most 300 requests; no machine is so slow that two a second keep up with this.
  private func refusal(_ request: () async throws -> Answer) async throws -> Answer? {
    for _ in 0..<300 {
      let answer = try await request()
      if answer.status == 429 { return answer }
    }
    return nil
  }

  @Test func `over the rate a user is told to wait, and no other user is`() async throws {
    let settings = Settings(server: ["user_rate_limit": "2"], jwt: ["secret": TokenMint.secret])
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      let clock = Date(timeIntervalSince1970: 1_718_452_800)
      let (alice, bob) = (try TokenMint.user("alice", at: clock), try TokenMint.user("bob", at: clock))
      let refused = try #require(try await refusal { try await service.profile("me", key: alice) })
      #expect(refused["code"] == "rate_limited")
      #expect(refused.header("Retry-After") == "1")
      #expect(try await service.profile("me", key: bob).status == 200)
      for _ in 0..<50 { #expect(try await service.profile().status == 200, "a key has a limit of its own") }
    }
  }

  @Test func `an address that tries credentials is told to wait, whatever it tries, and no other address is`()
    async throws
  {
    let settings = Settings(
      server: ["address_rate_limit": "2", "trusted_proxies": "[127.0.0.1]"], jwt: ["secret": TokenMint.secret])
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      func from(_ address: String) -> [TransportHeader] { [TransportHeader("X-Forwarded-For", "6.6.6.6, \(address)")] }
      let guesser = from("203.0.113.7")
      let refused = try #require(
        try await refusal { try await service.profile(key: "guess", headers: guesser) })
      #expect(refused["code"] == "rate_limited")
      #expect(refused.header("Retry-After") == "1")
      #expect(try await service.profile(key: "guess", headers: from("203.0.113.8")).status == 401)
      // One network of IPv6 is one client.
      #expect(
        try await refusal {
          try await service.profile(key: "guess", headers: from("2001:db8::\(Int.random(in: 1...9999))"))
        } != nil)
      #expect(try await service.profile(key: "guess", headers: from("2001:db8:0:1::1")).status == 401)
      // All users of a server come from one address.
      for _ in 0..<50 { #expect(try await service.profile(headers: from("198.51.100.1")).status == 200) }
      // A path that is open, and one that does not exist, have the same limit.
      for (number, path) in ["/readyz", "/metrics", "/openapi.yaml", "/support", "/nothing"].enumerated() {
        let caller = from("203.0.113.\(100 + number)")
        #expect(try await refusal { try await service.send(.get, path, key: nil, headers: caller) } != nil, "\(path)")
      }
      // Liveness is for whoever watches the service.
      #expect(try await service.send(.get, "/livez", key: nil, headers: guesser).status == 200)
    }
  }

  @Test(arguments: [("X-Forwarded-For", "203.0.113.7"), ("Forwarded", "for=203.0.113.7")])
  func `requests by way of a proxy that is not named are told of, once`(name: String, value: String) async throws {
    let words = "add it to server.trusted_proxies"
    func lines(_ settings: Settings) async throws -> Int {
      try await RunningService.run(apple: .unreachable, settings: settings) { service in
        #expect(try await service.profile().status == 200)
        #expect(!service.log.text.contains(words))
        for _ in 0..<3 { _ = try await service.profile(headers: [TransportHeader(name, value)]) }
        return service.log.lines.count { $0.contains(words) }
      }
    }
    #expect(try await lines(Settings()) == 1)
    #expect(try await lines(Settings(server: ["trusted_proxies": "[127.0.0.1]"])) == 0)
  }

  @Test func `without named proxies nobody's header counts, and this machine has no limit`() async throws {
    try await RunningService.run(apple: .unreachable, settings: Settings(server: ["address_rate_limit": "1"])) {
      service in
      for _ in 0..<50 {
        let answer = try await service.profile(
          key: "guess", headers: [TransportHeader("X-Forwarded-For", "203.0.113.7")])
        #expect(answer.status == 401)
      }
    }
  }

  @Test func `over the rate a caller is told to wait; others and open routes are not`() async throws {
    try await RunningService.run(apple: .unreachable, settings: Settings(server: ["rate_limit": "2"])) { service in
      var answers: [Answer] = []
      // Two a second cannot keep up with this, however slow the machine.
      for _ in 0..<200 where answers.last?.status != 429 { answers.append(try await service.profile()) }
      let refused = try #require(answers.last)
      #expect(refused.status == 429)
      #expect(refused["code"] == "rate_limited")
      #expect(refused["retryable"] == "true")
      #expect(refused.header("Retry-After") == "1")
      #expect(answers.dropLast().allSatisfy { $0.status == 200 })
      #expect(try await service.profile(key: RunningService.supportKey).status == 200)
      #expect(try await service.send(.get, "/livez", key: nil).status == 200)
    }
  }
}
