import Synchronization

/// Spaces out what the service asks Apple by itself (`revalidation.rate`), whoever of its jobs asks.
///
///     rate 10    turn ─100 ms─ turn ─100 ms─ turn
///
/// A turn that was taken late does not put off the next ones, so that the rate is reached even where sleeping takes longer
/// than asked; but what was not used for a while is not made up for.
package final class Pacer: Sendable {
  /// How late a turn may be without putting off the next ones. Sleeping is no more exact than that.
  static let tolerance: Duration = .milliseconds(20)

  private let interval: Duration
  private let clock: @Sendable () -> ContinuousClock.Instant
  private let sleep: @Sendable (ContinuousClock.Instant) async throws -> Void
  /// Guards when the next turn is.
  private let next: Mutex<ContinuousClock.Instant>

  /// - Parameter rate: turns a second.
  package init(
    rate: Int, clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    sleep: @escaping @Sendable (ContinuousClock.Instant) async throws -> Void = {
      try await Task.sleep(until: $0, clock: .continuous)
    }
  ) {
    interval = .seconds(1) / max(1, rate)
    self.clock = clock
    self.sleep = sleep
    next = Mutex(clock())
  }

  /// Waits for a turn; turns come in the order in which they were asked for. A job asks for one when it is ready to use it,
  /// so that jobs that are at work at the same time take turns.
  ///
  /// - Returns: `false` when the task was cancelled; its turn is not given to another.
  func turn() async -> Bool {
    let now = clock()
    let turn = next.withLock { next in
      let turn = max(next, now - Self.tolerance)
      next = turn + interval
      return turn
    }
    guard !Task.isCancelled else { return false }
    guard turn > now else { return true }
    do { try await sleep(turn) } catch { return false }
    return true
  }
}
