import Ledger
import Resilience

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

  private let recent: RecentValue<Finding>

  /// - Parameter lifetime: how long what was found stands.
  init(
    ledger: Ledger, lifetime: Duration, now: @escaping @Sendable () -> Date,
    clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    recent = RecentValue(lifetime: lifetime, clock: clock) { await LedgerCheck.look(at: ledger, now) }
  }

  func finding() async -> Finding { await recent.value() }

  /// The recent finding that still stands; `nil` where it has to be found out.
  var recentFinding: Finding? { recent.standing }

  private static func look(at ledger: Ledger, _ now: @Sendable () -> Date) async -> Finding {
    var finding = Finding()
    do throws(LedgerError) { try await ledger.check() } catch { finding.error = error }
    finding.backlog = try? await ledger.backlog(at: now())
    return finding
  }
}
