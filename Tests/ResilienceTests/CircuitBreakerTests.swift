import Synchronization
import Testing

@testable import Resilience

@Suite struct CircuitBreakerTests {
  /// A clock that stands still until told, and what the breaker said.
  private final class Bench: Sendable {
    let start = ContinuousClock.now
    let passed = Mutex(Duration.zero)
    let changes = Mutex<[CircuitBreaker.Change]>([])

    func breaker() -> CircuitBreaker {
      CircuitBreaker(
        now: { self.start + self.passed.withLock { $0 } }, jitter: { $0 },
        onChange: { change in self.changes.withLock { $0.append(change) } })
    }

    func wait(_ duration: Duration) { passed.withLock { $0 += duration } }
  }

  private static func permit(_ breaker: CircuitBreaker) -> CircuitBreaker.Permit? {
    if case .admitted(let permit) = breaker.admit() { permit } else { nil }
  }

  @Test func `every change is told once, with how long it stays open`() throws {
    let bench = Bench()
    let breaker = bench.breaker()
    for _ in 0..<5 { try #require(Self.permit(breaker)).report(.failure()) }
    #expect(breaker.state == .open)
    #expect(Self.permit(breaker) == nil)
    bench.wait(.seconds(1))
    #expect(breaker.state == .halfOpen)
    try #require(Self.permit(breaker)).report(.failure())
    bench.wait(.seconds(2))
    try #require(Self.permit(breaker)).report(.success)
    #expect(breaker.state == .closed)
    #expect(
      bench.changes.withLock { $0 } == [
        .init(to: .open, pause: .seconds(1)),
        .init(to: .halfOpen, pause: nil),
        .init(to: .open, pause: .seconds(2)),
        .init(to: .halfOpen, pause: nil),
        .init(to: .closed, pause: nil),
      ])
    #expect(breaker.counts.opened == 2 && breaker.counts.probes == 2 && breaker.counts.refused == 1)
  }

  @Test func `one of many callers at the same moment is the probe`() async throws {
    let bench = Bench()
    let breaker = bench.breaker()
    for _ in 0..<5 { try #require(Self.permit(breaker)).report(.failure()) }
    bench.wait(.seconds(1))
    let admitted = await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<200 { group.addTask { Self.permit(breaker) != nil } }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(admitted == 1)
    #expect(breaker.counts.refused == 199)
  }

  @Test func `states have the names that operators see`() {
    #expect([CircuitBreaker.State.closed, .open, .halfOpen].map(\.rawValue) == ["closed", "open", "half_open"])
  }
}
