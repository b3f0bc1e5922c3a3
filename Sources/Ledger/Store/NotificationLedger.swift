package import Entitlements
package import struct FoundationEssentials.Date

/// What the ledger keeps of Apple's notifications, and of purchases that nobody has claimed yet.
package protocol NotificationLedger: Sendable {
  /// Takes a notification whose signatures were verified, once, in one transaction: it is noted, and its evidence is
  /// merged with what is known of each purchase.
  ///
  ///     the purchase's owner                  what happens
  ///     somebody                              merged, judged, a line of their history
  ///     nobody, and it is the claimant's,     claimed for them, with what was kept unclaimed
  ///       who is known or may be made
  ///     nobody                                kept unclaimed, until somebody claims the purchase
  func take(_ entry: NotificationEntry) async throws(LedgerError) -> NotificationOutcome

  /// Keeps a notification that was not believed or could not be read. Anybody can post one: each payload is kept once, and
  /// of each kind only the newest.
  func noteRefused(_ refused: RefusedNotification) async throws(LedgerError)

  /// Whether a payload is among those that are kept as refused.
  func hasRefused(_ payload: String) async throws(LedgerError) -> Bool

  /// The notifications about a purchase, newest first.
  func notifications(of key: SubscriptionKey, limit: Int) async throws(LedgerError) -> [NotificationLine]

  /// Forgets notifications that were received before a moment. One that comes again after that is taken again, which
  /// changes nothing.
  /// - Returns: how many went; as many as `limit` means that there may be more.
  func pruneNotifications(before: Date, limit: Int) async throws(LedgerError) -> Int

  /// Has Apple asked about purchases now, as somebody hinted that there is news.
  /// - Returns: how many of them are known.
  func recheckSoon(_ ids: [OriginalTransactionID], at now: Date) async throws(LedgerError) -> Int

  /// Writes down when to ask Apple about each purchase of which that is not written down, after a way to ask was
  /// configured for instance.
  /// - Parameter limit: how many are looked at in one transaction; all are, in the end.
  /// - Returns: how many were written down.
  func scheduleMissing(_ nextCheck: @escaping NextCheck, at now: Date, limit: Int) async throws(LedgerError) -> Int
}
