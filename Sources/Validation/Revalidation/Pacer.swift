import Synchronization

/// The pace of the calls to Apple that the service makes by itself (`revalidation.rate`), for all jobs together.
///
///     rate 10    turn ─100 ms─ turn ─100 ms─ turn
///
/// A late turn does not delay the next ones, so that the rate is reached even if sleeping takes longer than asked.
/// Unused turns are not made up for.
///
/// Where replicas share a ledger, each has its share of the pace, so that the rate holds in all.
final class Pacer: Sendable {
  /// The delay of a turn that does not delay the next ones: the precision of sleeping.
  static let tolerance: Duration = .milliseconds(20)

  private let interval: Duration
  private let clock: @Sendable () -> ContinuousClock.Instant
  private let sleep: @Sendable (ContinuousClock.Instant) async throws -> Void
  private struct State {
    var next: ContinuousClock.Instant
    var replicas = 1
  }

  private let state: Mutex<State>

  /// - Parameter rate: turns a second.
  init(
    rate: Int, clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    sleep: @escaping @Sendable (ContinuousClock.Instant) async throws -> Void = {
      try await Task.sleep(until: $0, clock: .continuous)
    }
  ) {
    interval = .seconds(1) / max(1, rate)
    self.clock = clock
    self.sleep = sleep
    state = Mutex(State(next: clock()))
  }

  /// Divides the pace by the number of processes that live.
  func share(among replicas: Int) { state.withLock { $0.replicas = max(1, replicas) } }

  /// Waits for a turn; turns come in the order of the requests. A job asks when it can use its turn, so that concurrent
  /// jobs alternate.
  ///
  /// - Returns: `false` if the task was cancelled; its turn is lost.
  func turn() async -> Bool {
    let now = clock()
    let turn = state.withLock { state in
      let turn = max(state.next, now - Self.tolerance)
      state.next = turn + interval * state.replicas
      return turn
    }
    guard !Task.isCancelled else { return false }
    guard turn > now else { return true }
    do { try await sleep(turn) } catch { return false }
    return true
  }
}
