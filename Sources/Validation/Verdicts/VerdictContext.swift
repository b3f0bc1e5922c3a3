package import Entitlements
package import Ledger
import Logging
import Resilience
package import struct FoundationEssentials.Date

/// The parts of every verdict: the rules, our clock, and the app's own row, which follows it.
package struct VerdictContext: Sendable {
  package let rules: EntitlementRules
  /// Our own clock.
  package let now: @Sendable () -> Date
  /// Whether a purchase's `appAccountToken` is the ID of a user, known or not (`policy.app_account_token`).
  let accountTokenIsUserID: Bool
  /// Whether Apple is told the users of purchases that do not name them: with that policy, a key, and owners who keep theirs.
  let tellsAccountTokens: Bool
  /// `nil` without a profile store.
  let writeBack: ProfileWriteBack?

  package init(
    rules: EntitlementRules, now: @escaping @Sendable () -> Date, accountTokenIsUserID: Bool = false,
    tellsAccountTokens: Bool = false, writeBack: ProfileWriteBack? = nil
  ) {
    self.rules = rules
    self.now = now
    self.accountTokenIsUserID = accountTokenIsUserID
    self.tellsAccountTokens = tellsAccountTokens
    self.writeBack = writeBack
  }

  /// The context for verdicts without an answer of Apple's.
  var evaluationContext: EvaluationContext {
    let now = now()
    return EvaluationContext(
      evaluatedAt: now, recordedAt: now, tokensAreUserIDs: accountTokenIsUserID,
      tellsAccountTokens: tellsAccountTokens, rules: rules)
  }

  /// The time until which a new verdict's rows are claimed: `write` may take as long for a loser's row as for the
  /// user's own. With more than one loser, which is rare, the deliverer may come in between.
  var rowsClaim: Date? { writeBack.map { now().advanced(by: $0.deadline * 2) } }

  /// Updates the app's own rows, those of losers first: a unique column may allow only one row to name the purchase.
  func write(
    _ user: UserID, _ state: ProfileWriteState, _ update: WaitingUpdate? = nil, after losers: [UserID] = [],
    logger: Logger
  ) async -> ProfileWrite {
    guard let writeBack else { return .none }
    for loser in losers where loser.mayHaveRow { _ = await writeBack.write(loser, logger: logger) }
    guard user.mayHaveRow else { return .none }
    // Also a missing row is tried: the app may have made it after the purchase.
    guard state != .written else { return .committed }
    switch await writeBack.write(user, recorded: update, logger: logger) {
    case .settled(let state): return ProfileWrite(state)
    case .refused, .failed: return .queued
    }
  }

  /// Whether another task is writing the app's row of a user.
  func isBeingWritten(_ user: UserID) -> Bool { writeBack?.rowLocks.isLocked(user) ?? false }
}

extension EntitlementRules {
  /// The entitlement that a read shows now, without an answer from Apple.
  package func standing(of user: UserID, _ profile: LedgerProfile?, at now: Date) -> Entitlement {
    standing(of: user, profile?.evidence ?? [], given: profile?.given ?? [], recorded: profile?.entitlement, at: now)
  }
}
