import Foundation
import HTTPTransport
import Synchronization
import Testing

@testable import Countersign

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

  @Test func `zero is no limit`() {
    let limiter = RateLimiter(rate: 0)
    for _ in 0..<10_000 { #expect(limiter.admit("a") == nil) }
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
