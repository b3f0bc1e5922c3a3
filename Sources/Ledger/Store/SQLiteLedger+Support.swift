package import Entitlements
internal import GRDB

extension SQLiteLedger: SupportLedger {
  package func keepNote(_ note: Note, about user: UserID) async throws(LedgerError) -> NoteID {
    try await queue.submit { tables in
      var account: Account? = try tables.account(of: user) ?? Account(of: tables.name(of: user))
      let id = try tables.append(note, to: &account)
      if let account { try tables.save(account, at: StoredForm.milliseconds(note.recordedAt)) }
      return id
    }
  }

  package func receipts(of user: UserID, limit: Int) async throws(LedgerError) -> [OwnedReceipt] {
    try await read { tables in try tables.receipts(of: user, limit: limit) }
  }

  package func timeline(
    of user: UserID, before: TimelinePosition?, limit: Int
  ) async throws(LedgerError) -> TimelinePage {
    try await read { tables in try tables.timeline(of: user, before: before, limit: limit) }
  }

  package func ownedPurchases(_ id: OriginalTransactionID) async throws(LedgerError) -> [OwnedPurchase] {
    try await read { tables in try tables.ownedPurchases(id) }
  }

  package func unclaimedPurchases(
    _ id: OriginalTransactionID
  ) async throws(LedgerError) -> [SubscriptionEvidence] {
    try await read { tables in
      try StoreEnvironment.allCases.compactMap { environment in
        try tables.unclaimed(SubscriptionKey(environment: environment, originalTransactionID: id))?.evidence
      }
    }
  }

  package func isKnown(_ user: UserID) async throws(LedgerError) -> Bool {
    try await read { tables in try tables.isKnown(user) }
  }

  package func purchases(
    with id: TransactionID, until deadline: ContinuousClock.Instant
  ) async throws(LedgerError) -> TransactionSearch {
    try await purchases(with: id, until: deadline, page: Self.searchPage)
  }

  /// Rows per page: some megabytes of evidence, read in some milliseconds.
  private static let searchPage = 2_000

  /// Reads all stored evidence, the newest first, since no index contains the transactions. An index would be one more
  /// B-tree for every receipt to update, while support searches now and then. Each page is a separate read on a
  /// connection of the pool: checkpoints of the log are not blocked, and callers do not wait, as their reads have a
  /// dedicated connection.
  func purchases(
    with id: TransactionID, until deadline: ContinuousClock.Instant, page: Int
  ) async throws(LedgerError) -> TransactionSearch {
    // The ID is inserted into JSON unescaped, and a quotation mark in it would end the text.
    guard !id.rawValue.isEmpty, id.rawValue.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      return TransactionSearch()
    }
    for table in LedgerTables.EvidenceTable.allCases {
      var place = Int64.max
      repeat {
        guard ContinuousClock.now < deadline, !Task.isCancelled else { return TransactionSearch(isComplete: false) }
        let start = place
        let found = try await read { tables in
          try tables.purchases(with: id, in: table, below: start, limit: page)
        }
        guard found.keys.isEmpty else { return TransactionSearch(keys: found.keys) }
        place = found.end
      } while place > 0
    }
    return TransactionSearch()
  }

  package func transfer(_ transfer: Transfer) async throws(LedgerError) -> TransferOutcome {
    try await queue.submit { tables in try TransferOperation(transfer: transfer, tables: tables).run() }
  }
}
