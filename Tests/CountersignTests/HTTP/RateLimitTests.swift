import Foundation
import HTTPTransport
import Synchronization
import Testing

@testable import Countersign
@testable import Resilience

@Suite struct RateLimitTests {
  @Test func `a bucket holds one second's worth and fills as time goes by`() {
    let start = ContinuousClock.now
    let now = Mutex(start)
    let limiter = RateLimiter(rate: 4) { now.withLock { $0 } }
    for _ in 0..<4 { #expect(limiter.admit("a") == nil) }
    #expect(limiter.admit("a") == 1)
    #expect(limiter.admit("b") == nil, "each caller has a bucket of its own")
    now.withLock { $0 = start.advanced(by: .milliseconds(249)) }
    #expect(limiter.admit("a") == 1)
    now.withLock { $0 = start.advanced(by: .milliseconds(250)) }
    #expect(limiter.admit("a") == nil)
    #expect(limiter.admit("a") == 1)
    now.withLock { $0 = start.advanced(by: .seconds(3600)) }
    for _ in 0..<4 { #expect(limiter.admit("a") == nil) }
    #expect(limiter.admit("a") == 1, "what was not used is not saved up")
  }

  @Test func `looking at a bucket takes nothing`() {
    let start = ContinuousClock.now
    let now = Mutex(start)
    let limiter = RateLimiter(rate: 1) { now.withLock { $0 } }
    for _ in 0..<3 { #expect(!limiter.isSpent("a")) }
    #expect(limiter.count == 0)
    #expect(limiter.admit("a") == nil)
    #expect(limiter.isSpent("a") && !limiter.isSpent("b"))
    now.withLock { $0 = start.advanced(by: .milliseconds(999)) }
    #expect(limiter.isSpent("a"))
    now.withLock { $0 = start.advanced(by: .seconds(1)) }
    for _ in 0..<3 { #expect(!limiter.isSpent("a")) }
    #expect(limiter.admit("a") == nil)
    #expect(limiter.isSpent("a"))
    // Two periods later it is in the old generation.
    now.withLock { $0 = start.advanced(by: .milliseconds(1_100)) }
    for caller in ["b", "c"] { #expect(limiter.admit(caller) == nil) }
    #expect(limiter.isSpent("a"))
    #expect(!RateLimiter(rate: 0).isSpent("a"))
  }

  @Test func `a bucket may hold a minute's worth`() {
    let start = ContinuousClock.now
    let now = Mutex(start)
    let limiter = RateLimiter(rate: 10, per: .seconds(60)) { now.withLock { $0 } }
    for _ in 0..<10 { #expect(limiter.admit("a") == nil) }
    #expect(limiter.admit("a") == 6)
    now.withLock { $0 = start.advanced(by: .milliseconds(2_500)) }
    #expect(limiter.admit("a") == 4)
    now.withLock { $0 = start.advanced(by: .milliseconds(6_500)) }
    #expect(limiter.admit("a") == nil)
    #expect(limiter.admit("a") == 6, "a bucket that is not full is not forgotten")
    now.withLock { $0 = start.advanced(by: .seconds(130)) }
    for _ in 0..<10 { #expect(limiter.admit("a") == nil) }
    #expect(limiter.admit("a") == 6)
  }

  @Test func `zero is no limit`() {
    let limiter = RateLimiter(rate: 0)
    for _ in 0..<10_000 { #expect(limiter.admit("a") == nil) }
  }

  @Test func `buckets are forgotten once they are full, and in a flood`() {
    let start = ContinuousClock.now
    let now = Mutex(start)
    let limiter = RateLimiter(rate: 2, most: 100) { now.withLock { $0 } }
    for _ in 0..<2 { #expect(limiter.admit("spent") == nil) }
    for second in 1...60 {
      now.withLock { $0 = start.advanced(by: .seconds(second)) }
      for caller in 0..<20 { #expect(limiter.admit("\(second)-\(caller)") == nil) }
      #expect(limiter.count <= 80)
    }
    for caller in 0..<10_000 { #expect(limiter.admit("flood-\(caller)") == nil) }
    #expect(limiter.count <= 200)
  }

  @Test func `a bucket in use is not forgotten`() {
    let start = ContinuousClock.now
    let now = Mutex(start)
    let limiter = RateLimiter(rate: 2) { now.withLock { $0 } }
    var admitted = 0
    for step in 0..<1_000 {
      now.withLock { $0 = start.advanced(by: .milliseconds(100 * step)) }
      if limiter.admit("a") == nil { admitted += 1 }
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
      // What is open, and what does not exist, has the same limit.
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
