package import Entitlements

/// The reads of a user's export (GDPR, articles 15 and 20).
extension Ledger {
  /// Everything but what is long.
  package func record(of user: UserID) async throws(LedgerError) -> UserRecord {
    try await read { tables in try tables.export.record(of: user) }
  }

  /// The keys under which the ledger has a customer's accounts: the user's, and those of the anonymous customers who
  /// turned out to be the user.
  package func accountKeys(of user: UserID) async throws(LedgerError) -> [String] {
    try await read { tables in
      let (key, users) = try tables.erasure.names(of: user)
      return [key] + Set(users.map(\.key)).subtracting([key]).sorted()
    }
  }

  /// A page of the purchases of an account, with their receipts.
  /// - Parameter start: how many come before.
  package func exportedPurchases(
    ofKey key: String, from start: Int, limit: Int
  ) async throws(LedgerError) -> [ExportedPurchase] {
    try await read { tables in try tables.export.purchases(ofKey: key, from: start, limit: limit) }
  }

  /// A page of an account's events, newest first.
  package func timeline(
    ofKey key: String, before: TimelinePosition?, limit: Int
  ) async throws(LedgerError) -> TimelinePage {
    try await read { tables in
      guard let account = try tables.accounts.account(withKey: key) else { return TimelinePage(events: [], next: nil) }
      return try tables.events.timeline(of: account, before: before, limit: limit)
    }
  }

  /// The events about an account among the next thousands of all, in their order.
  /// - Returns: `next`: the place to go on from; `nil` at the end.
  package func changeEvents(
    ofKey key: String, after sequence: Int64
  ) async throws(LedgerError) -> (events: [ChangeEvent], next: Int64?) {
    try await read { tables in
      let end = min(sequence + 5_000, try tables.changeEvents.newest())
      let events = try tables.changeEvents.events(after: sequence, through: end, of: key)
      return (events, try end < tables.changeEvents.newest() ? end : nil)
    }
  }

  /// A page of a user's consumptions.
  /// - Parameter last: the last one of the page before.
  package func exportedConsumptions(
    ofKey key: String, after last: ExportedConsumption?, limit: Int
  ) async throws(LedgerError) -> [ExportedConsumption] {
    try await read { tables in try tables.export.consumptions(ofKey: key, after: last, limit: limit) }
  }
}
