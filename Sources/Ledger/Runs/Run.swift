package import Entitlements
package import struct FoundationEssentials.Date

/// A run's ID. Numbers are never reused.
package struct RunID: Hashable, Sendable, CustomStringConvertible {
  package var rawValue: Int64

  package init(_ rawValue: Int64) { self.rawValue = rawValue }

  package var description: String { String(rawValue) }
}

/// Which subscriptions a run asks Apple about: those due for a check by a moment, the longest waiting first.
///
///     overdue for longer than     overdue              now       expires within
///     Apple tries to charge  ┄┄┄┄┄├──────────────────────┼──────────────────────┤┄┄┄┄┄ later
///                     not taken   taken                                            not taken
package struct RunOrder: Hashable, Sendable {
  /// How far ahead an expiry may lie.
  package var expiringWithin: Duration
  /// The most subscriptions to take.
  package var limit: Int

  /// A subscription overdue for longer had no answer from Apple in all this time, and Apple no longer tries to charge
  /// for it: a nightly request would fail each night. The scheduler goes on checking once a day.
  package static let longestOverdue: Duration = .seconds(60 * 86_400)

  package init(expiringWithin: Duration, limit: Int) {
    self.expiringWithin = expiringWithin
    self.limit = limit
  }
}

/// A revalidation run, which survives a restart of its process.
package struct Run: Hashable, Sendable {
  /// How far a run has come.
  package enum State: Hashable, Sendable {
    case running
    /// Every item was done or failed for good.
    case finished(at: Date)
    /// Ended early.
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

/// The counts of a run's subscriptions: `due = done + failed + heldBack + remaining`.
package struct RunCounts: Hashable, Sendable {
  package var due: Int
  /// Apple's answer is recorded, by this run or otherwise since it began.
  package var done = 0
  /// The part of `done` for which the run recorded a different verdict.
  package var changed = 0
  /// Refused, out of attempts, or not to be read in the ledger.
  package var failed = 0
  /// Apple's answer would have lowered a tier, and the downgrade brake held it.
  package var heldBack = 0

  package init(due: Int) { self.due = due }

  package var settled: Int { done + failed + heldBack }
  package var remaining: Int { due - settled }
}

/// The outcome of a request for a run.
package enum RunStart: Hashable, Sendable {
  case started(Run)
  /// A run exists already: an active one, or one started by the same key.
  case known(Run)
  /// The key started a run by another order.
  case mismatch
}

/// One subscription of a run, claimed.
package struct RunItem: Hashable, Sendable {
  /// The row's ID, never reused.
  package var id: Int64
  package var run: RunID
  package var key: SubscriptionKey
  package var owner: UserID
  package var receipt: KeptReceipt
  /// Attempts on this one that failed at Apple.
  package var attempts: Int
}

/// The subscriptions of a run that a worker takes next.
package struct RunClaim: Hashable, Sendable {
  package var items: [RunItem]
  /// The items whose purchases cannot be read. They are settled as failed.
  package var unreadable: [SubscriptionKey] = []
  /// No other item is due: the rest waits for its time, or is claimed.
  package var isExhausted: Bool
}

/// The outcome of a run's subscription without a recorded verdict.
package enum RunOutcome: Hashable, Sendable {
  /// The answer held nothing new.
  case done(changed: Bool)
  case failed
  case heldBack
}
