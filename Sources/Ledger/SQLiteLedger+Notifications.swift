package import Entitlements
package import struct FoundationEssentials.Date

extension SQLiteLedger {
  package func hasNotification(_ uuid: String) async throws(LedgerError) -> Bool { throw .unavailable("not written") }

  package func take(_ entry: NotificationEntry) async throws(LedgerError) -> NotificationOutcome {
    throw .unavailable("not written")
  }

  package func noteRefused(_ refused: RefusedNotification) async throws(LedgerError) { throw .unavailable("not written") }

  package func notifications(
    of key: SubscriptionKey, limit: Int
  ) async throws(LedgerError) -> [NotificationLine] { throw .unavailable("not written") }

  package func pruneNotifications(before: Date, limit: Int) async throws(LedgerError) -> Int {
    throw .unavailable("not written")
  }

  package func recheckSoon(_ ids: [OriginalTransactionID], at now: Date) async throws(LedgerError) -> Int {
    throw .unavailable("not written")
  }

  package func scheduleMissing(
    _ nextCheck: @escaping NextCheck, at now: Date, limit: Int
  ) async throws(LedgerError) -> Int { throw .unavailable("not written") }
}
