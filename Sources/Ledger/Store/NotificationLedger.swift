package import Entitlements
package import struct FoundationEssentials.Date

/// The ledger's notifications from Apple and unclaimed purchases.
package protocol NotificationLedger: Sendable {
  /// Takes a verified notification once, in one transaction: it is recorded, and its evidence is merged with that of
  /// each purchase.
  ///
  ///     the purchase's owner                  what happens
  ///     a user                                merged, evaluated, a line of the user's history
  ///     unowned, and it names the claimant,   claimed for the claimant, with the unclaimed evidence
  ///       who exists or may be created
  ///     unowned                               stored unclaimed, until a user claims the purchase
  func take(_ entry: NotificationEntry) async throws(LedgerError) -> NotificationOutcome

  /// Stores a notification that failed verification or could not be read. Anybody can post one: each payload is stored
  /// once, and only the newest of each kind.
  func noteRefused(_ refused: RefusedNotification) async throws(LedgerError)

  /// Whether a payload is among the stored refused ones.
  func hasRefused(_ payload: String) async throws(LedgerError) -> Bool

  /// The notifications about a purchase, newest first.
  func notifications(of key: SubscriptionKey, limit: Int) async throws(LedgerError) -> [NotificationLine]

  /// Deletes notifications received before a moment. A deleted one that is redelivered is processed again, which
  /// changes nothing.
  /// - Returns: how many were deleted; `limit` means that there may be more.
  func pruneNotifications(before: Date, limit: Int) async throws(LedgerError) -> Int

  /// Makes purchases due for a check now, after a hint that they changed.
  /// - Returns: how many of them are known.
  func recheckSoon(_ ids: [OriginalTransactionID], at now: Date) async throws(LedgerError) -> Int

  /// Schedules a check for each purchase without one, for instance after the Server API was configured.
  /// - Parameter limit: how many are examined in one transaction; all are, in the end.
  /// - Returns: how many were scheduled.
  func scheduleMissing(_ nextCheck: @escaping NextCheck, at now: Date, limit: Int) async throws(LedgerError) -> Int
}
