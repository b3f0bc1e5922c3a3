import Ledger
import Synchronization

import struct FoundationEssentials.Date

/// Whether the ledger takes records, and what waits in it: found out now and then, however many ask.
///
/// Finding it out costs an fsync, and anybody may ask. So what was found stands for a moment, and while it is being found out
/// all who ask wait for the same.
final class LedgerCheck: Sendable {
  struct Finding: Sendable {
    /// `nil`: it takes records.
    var error: LedgerError?
    /// `nil` where it could not be read.
    var backlog: LedgerBacklog?
  }

  private struct State {
    var check: Task<Finding, Never>?
    /// When that check ended; `nil` while it goes on.
    var endedAt: ContinuousClock.Instant?
  }

  /// Guards the last check.
  private let state = Mutex(State())
  private let ledger: Ledger
  private let lifetime: Duration
  private let now: @Sendable () -> Date
  private let clock: @Sendable () -> ContinuousClock.Instant

  /// - Parameter lifetime: how long what was found stands.
  init(
    ledger: Ledger, lifetime: Duration, now: @escaping @Sendable () -> Date,
    clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    self.ledger = ledger
    self.lifetime = lifetime
    self.now = now
    self.clock = clock
  }

  func finding() async -> Finding {
    let check = state.withLock { state in
      let stands = state.endedAt.map { $0.duration(to: clock()) < lifetime } ?? true
      if let check = state.check, stands { return check }
      let check = Task {
        let finding = await look()
        self.state.withLock { $0.endedAt = clock() }
        return finding
      }
      state = State(check: check)
      return check
    }
    return await check.value
  }

  private func look() async -> Finding {
    var finding = Finding()
    do throws(LedgerError) { try await ledger.check() } catch { finding.error = error }
    finding.backlog = try? await ledger.backlog(at: now())
    return finding
  }
}
