import Synchronization

/// A clock that goes on only when somebody sleeps, so that a pace can be read off it.
package final class SleepingClock: Sendable {
  private let state = Mutex((now: ContinuousClock.now, begin: ContinuousClock.now))
  /// How much later than asked a sleeper wakes.
  private let lateness: Duration

  package init(lateness: Duration = .zero) {
    self.lateness = lateness
    state.withLock { $0.begin = $0.now }
  }

  package var now: ContinuousClock.Instant { state.withLock { $0.now } }
  package var elapsed: Duration { state.withLock { $0.begin.duration(to: $0.now) } }

  package func pass(_ duration: Duration) { state.withLock { $0.now += duration } }

  package func sleep(until instant: ContinuousClock.Instant) async throws {
    try Task.checkCancellation()
    await Task.yield()
    state.withLock { $0.now = max($0.now, instant + lateness) }
  }
}
