import Synchronization

/// A value that many callers look up: a result is reused for a lifetime, and callers at the same time share one look-up.
package final class RecentValue<Value: Sendable>: Sendable {
  private struct State {
    var look: Task<Value, Never>?
    /// The result, and when it came; `nil` while it is looked up.
    var found: (value: Value, at: ContinuousClock.Instant)?
  }

  private let state = Mutex(State())
  private let lifetime: Duration
  private let clock: @Sendable () -> ContinuousClock.Instant
  private let look: @Sendable () async -> Value

  /// - Parameter lifetime: how long a result is reused.
  package init(
    lifetime: Duration, clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    look: @escaping @Sendable () async -> Value
  ) {
    self.lifetime = lifetime
    self.clock = clock
    self.look = look
  }

  /// The result that stands; `nil` where it has to be waited for.
  package var standing: Value? {
    state.withLock { state in
      state.found.flatMap { $0.at.duration(to: clock()) < lifetime ? $0.value : nil }
    }
  }

  package func value() async -> Value {
    let task = state.withLock { state in
      let stands = state.found.map { $0.at.duration(to: clock()) < lifetime } ?? true
      if let look = state.look, stands { return look }
      let task = Task {
        let value = await look()
        self.state.withLock { $0.found = (value, clock()) }
        return value
      }
      state = State(look: task)
      return task
    }
    return await task.value
  }
}
