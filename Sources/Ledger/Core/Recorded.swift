package import Entitlements

/// The changes by an answer from Apple, as they were recorded.
package struct Recorded: Sendable {
  /// The verdict on the user after this answer.
  package var entitlement: Entitlement
  /// Whether the verdict differs from the previous one, evidence time and explanation apart.
  package var changed: Bool
  /// Users who lost a purchase to this one, or a provisional grant on it: each reevaluated and recorded.
  package var losers: [UserID]
  /// The purchases of the answer that stay with another user.
  package var ownedByOthers: Set<SubscriptionKey> = []
  /// The write state of the user's row in the app's table.
  package var write: ProfileWriteState
  /// The update of the user's row, if this answer brought one.
  package var update: WaitingUpdate?
}
