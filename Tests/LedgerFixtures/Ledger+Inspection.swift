package import Entitlements
import Testing

@testable package import Ledger

/// Look-ups in a ledger that tests make, and the service does not.
extension Ledger {
  /// Fails where a page, an index, a constraint or a foreign key is damaged. PostgreSQL checks each page that it reads.
  package func verifyIntegrity() async throws {
    let isSound = try await read { tables in
      try tables.connection.isShared
        || tables.all("PRAGMA integrity_check(1)") == ["ok"] && !tables.exists("PRAGMA foreign_key_check")
    }
    #expect(isSound, "the ledger's file is damaged")
  }

  /// The place of the newest event; zero without one.
  package func newestChangeEvent() async throws -> Int64 {
    try await readShort { tables in try tables.changeEvents.newest() }
  }

  /// The attributes that an app has set for a customer; none for an unknown one.
  package func attributes(of id: UserID) async throws -> [String: CustomerAttribute] {
    try await read { tables in try tables.customers.attributes(of: tables.accounts.name(of: id)) }
  }

  /// The notifications about a purchase, newest first.
  package func notifications(of key: SubscriptionKey, limit: Int) async throws -> [NotificationLine] {
    try await read { tables in try tables.notifications.notifications(of: key, limit: limit) }
  }

  package func keys(of user: UserID) async throws -> Set<SubscriptionKey> {
    Set(try await profile(of: user)?.evidence.map(\.key) ?? [])
  }

  /// A user's verdicts, newest first.
  package func wholeHistory(of user: UserID) async throws -> [HistoryEntry] {
    try await timeline(of: user, before: nil, limit: .max).events.compactMap { event in
      if case .verdict(let entry, _, _) = event { entry } else { nil }
    }
  }
}
