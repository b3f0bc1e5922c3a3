import Synchronization

/// A value that many callers look up: a result is reused for a lifetime, and callers at the same time share one look-up.
package final class RecentValue<Value: Sendable>: Sendable {
  private struct State {
    var look: Task<Value, Never>?
    /// The end of the look-up; `nil` while it goes on.
    var endedAt: ContinuousClock.Instant?
  }

  /// Guards the last look-up.
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

  package func value() async -> Value {
    let task = state.withLock { state in
      let stands = state.endedAt.map { $0.duration(to: clock()) < lifetime } ?? true
      if let look = state.look, stands { return look }
      let task = Task {
        let value = await look()
        self.state.withLock { $0.endedAt = clock() }
        return value
      }
      state = State(look: task)
      return task
    }
    return await task.value
  }
}
