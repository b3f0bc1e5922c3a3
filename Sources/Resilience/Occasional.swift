import Synchronization

/// Permits a fixed number of events in each period: a log line, or a write, that strangers can cause.
package final class Occasional: Sendable {
  private struct State {
    var count = 0
    var begin: ContinuousClock.Instant
  }

  private let state: Mutex<State>
  private let most: Int
  private let period: Duration
  private let clock: @Sendable () -> ContinuousClock.Instant

  package init(most: Int, every period: Duration, clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.most = most
    self.period = period
    self.clock = clock
    state = Mutex(State(begin: clock()))
  }

  /// Whether it may happen now; then it counts.
  package func admit() -> Bool {
    state.withLock { state in
      let now = clock()
      if state.begin.duration(to: now) >= period { state = State(begin: now) }
      guard state.count < most else { return false }
      state.count += 1
      return true
    }
  }
}
