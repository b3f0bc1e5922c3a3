package import Ledger
import Synchronization

/// The progress of a run that only this process knows: its rate, and what it waits for.
package final class RunProgress: Sendable {
  package enum Obstacle: String, Hashable, Sendable {
    /// Apple or the ledger is unavailable.
    case appStore = "app_store"
  }

  /// The time over which the rate is measured.
  static let window: Duration = .seconds(10)

  private struct State {
    var run: RunID?
    var begin: ContinuousClock.Instant
    /// The settled subscriptions by the second since `begin`, for the last `window`.
    var settled: [(second: Int64, count: Int)] = []
    var obstacle: Obstacle?

    mutating func take(_ run: RunID, at now: ContinuousClock.Instant) {
      guard self.run != run else { return }
      self = Self(run: run, begin: now)
    }

    func second(at now: ContinuousClock.Instant) -> Int64 { begin.duration(to: now).components.seconds }
  }

  private let clock: @Sendable () -> ContinuousClock.Instant
  private let state: Mutex<State>

  package init(clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.clock = clock
    state = Mutex(State(begin: clock()))
  }

  func settled(of run: RunID) {
    let now = clock()
    state.withLock { state in
      state.take(run, at: now)
      state.obstacle = nil
      let second = state.second(at: now)
      if state.settled.last?.second == second {
        state.settled[state.settled.count - 1].count += 1
      } else {
        state.settled.append((second, 1))
        state.settled.removeAll { $0.second <= second - Int64(Self.window / .seconds(1)) }
      }
    }
  }

  func set(_ obstacle: Obstacle?, of run: RunID) {
    let now = clock()
    state.withLock { state in
      state.take(run, at: now)
      state.obstacle = obstacle
    }
  }

  /// The recent rate in subscriptions a second; `nil` for a run that this process has not worked on.
  package func rate(of run: RunID) -> Double? {
    let now = clock()
    return state.withLock { state -> Double? in
      guard state.run == run else { return nil }
      let second = state.second(at: now)
      let window = Int64(Self.window / .seconds(1))
      let count = state.settled.filter { $0.second > second - window }.reduce(0) { $0 + $1.count }
      // The present second counts for the part of it that has passed.
      let elapsed = min(state.begin.duration(to: now) / .seconds(1), Double(window))
      return Double(count) / max(1, elapsed)
    }
  }

  package func obstacle(of run: RunID) -> Obstacle? { state.withLock { $0.run == run ? $0.obstacle : nil } }
}
