package import Entitlements
package import struct FoundationEssentials.Date

/// Extensions of renewal dates.
extension Ledger {
  package func extensionRecord(_ id: ExtensionRecord.ID) async throws(LedgerError) -> ExtensionRecord? {
    try await readShort { tables in try tables.extensions.record(id) }
  }

  /// The extensions of a purchase, the newest first.
  package func extensions(of key: SubscriptionKey, limit: Int) async throws(LedgerError) -> [ExtensionRecord] {
    try await readShort { tables in
      try tables.extensions.records(of: tables.purchases.successor(of: key) ?? key, limit: limit)
    }
  }

  /// The newest extensions, of purchases or of products.
  package func extensions(ofProducts isOfProducts: Bool, limit: Int) async throws(LedgerError) -> [ExtensionRecord] {
    try await readShort { tables in try tables.extensions.records(ofProducts: isOfProducts, limit: limit) }
  }

  /// Claims extensions that are due, the longest due first. One that is not settled is due again at `lease`.
  ///
  /// - Parameter environment: that of the claimed ones; `nil`: any.
  package func claimExtensions(
    in environment: StoreEnvironment?, dueAt now: Date, until lease: Date, limit: Int
  ) async throws(LedgerError) -> [ExtensionRecord] {
    guard try await read({ try $0.schedule.hasClaimable(in: "renewal_extension", of: environment, at: now) }) else {
      return []
    }
    return try await engine.submit {
      try $0.extensions.claim(in: environment, dueAt: now, until: lease, limit: limit)
    }
  }

  /// Records the result of a claimed extension. One that is over by now is left unchanged. The purchase of one that succeeded is
  /// due for a check.
  /// - Returns: the note on it, if there is one.
  package func settle(
    _ record: ExtensionRecord, _ result: ExtensionResult, at now: Date
  ) async throws(LedgerError) -> NoteID? {
    try await engine.submit { tables in try tables.extensions.settle(record, result, at: now) }
  }

  /// Ends an extension of a product, as Apple's notification says.
  /// - Returns: what it is then; `nil` where it was over, or is unknown.
  package func complete(_ summary: ExtensionSummary, at now: Date) async throws(LedgerError) -> ExtensionRecord? {
    try await engine.submit { tables in try tables.extensions.complete(summary, at: now) }
  }

  /// Returns claimed extensions that were not settled.
  package func returnExtensions(_ records: [ExtensionRecord], claimedUntil lease: Date) async throws(LedgerError) {
    try await engine.submit { tables in
      for record in records {
        try tables.execute(
          "UPDATE renewal_extension SET claimed_until = NULL WHERE id = ? AND claimed_until = ?", record.id, lease)
      }
    }
  }
}
