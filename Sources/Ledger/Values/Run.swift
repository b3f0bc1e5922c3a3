package import Entitlements
package import struct FoundationEssentials.Date

/// Names a run for ever: a number is not given twice.
package struct RunID: Hashable, Sendable, CustomStringConvertible {
  package var rawValue: Int64

  package init(_ rawValue: Int64) { self.rawValue = rawValue }

  package var description: String { String(rawValue) }
}

/// Which subscriptions a run asks Apple about: those whose state wants it by a moment, the longest waiting first.
///
///     overdue for longer than     overdue              now       expires within
///     Apple tries to charge  ┄┄┄┄┄├──────────────────────┼──────────────────────┤┄┄┄┄┄ later
///                     not taken   taken                                            not taken
package struct RunOrder: Hashable, Sendable {
  /// How far ahead an end may lie.
  package var expiringWithin: Duration
  /// The most subscriptions.
  package var limit: Int

  /// Whatever is overdue for longer Apple has not answered for in all this time, and no longer tries to charge for: to ask
  /// again each night would fail each night. The scheduler goes on asking once a day.
  package static let longestOverdue: Duration = .seconds(60 * 86_400)

  package init(expiringWithin: Duration, limit: Int) {
    self.expiringWithin = expiringWithin
    self.limit = limit
  }
}

/// A run of re-validation: work that survives the process that does it.
package struct Run: Hashable, Sendable {
  package enum State: Hashable, Sendable {
    case running
    /// Everything was done or has failed for good.
    case finished(at: Date)
    /// Ended before that.
    case stopped(RunStop, at: Date)
  }

  package var id: RunID
  package var order: RunOrder
  package var state: State
  package var counts: RunCounts
  package var startedAt: Date

  package var finishedAt: Date? {
    switch state {
    case .running: nil
    case .finished(let at), .stopped(_, let at): at
    }
  }
}

/// Why a run ended early.
package enum RunStop: String, Hashable, Sendable, CaseIterable {
  case downgradeBrake = "downgrade_brake"
}

/// What became of a run's subscriptions: `due = done + failed + heldBack + remaining`.
package struct RunCounts: Hashable, Sendable {
  package var due: Int
  /// Apple's word is recorded, or was by somebody else since the run began.
  package var done = 0
  /// Of these, on how many the run recorded another verdict than before.
  package var changed = 0
  /// Refused, or in trouble too often.
  package var failed = 0
  /// Apple's word would have lowered a tier, and the brake held.
  package var heldBack = 0

  package init(due: Int) { self.due = due }

  package var settled: Int { done + failed + heldBack }
  package var remaining: Int { due - settled }
}

/// What came of a wish for a run.
package enum RunStart: Hashable, Sendable {
  case started(Run)
  /// There is one already: under way, or started by the same wish before.
  case known(Run)
}

/// One subscription of a run, claimed.
package struct RunItem: Hashable, Sendable {
  /// Names the row for ever.
  package var id: Int64
  package var run: RunID
  package var key: SubscriptionKey
  package var owner: UserID
  package var receipt: KeptReceipt
  /// How often Apple had trouble with this one before.
  package var attempts: Int
}

package struct RunClaim: Hashable, Sendable {
  package var items: [RunItem]
  /// Nothing else is due: what is left waits for its time, or is claimed.
  package var isExhausted: Bool
}

/// What became of a subscription of a run, where no verdict was recorded for it.
package enum RunOutcome: Hashable, Sendable {
  /// There was nothing to record that is not recorded.
  case done(changed: Bool)
  case failed
  case heldBack
}
