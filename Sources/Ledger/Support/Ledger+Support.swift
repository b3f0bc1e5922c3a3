package import Entitlements

/// Support staff's operations: the history of a user or purchase, and the two decisions that a person may make.
extension Ledger {
  /// Stores the reason for a support inquiry about a user, before Apple is asked. The user need not be known.
  /// - Returns: the note's ID, for the verdicts that it causes.
  package func keepNote(_ note: Note, about user: UserID) async throws(LedgerError) -> NoteID {
    try await engine.submit { tables in try tables.events.append(note, about: user, at: note.recordedAt) }
  }

  /// The receipts behind the newest evidence of a user's purchases: each once, with what it proves.
  package func receipts(of user: UserID, limit: Int) async throws(LedgerError) -> [OwnedReceipt] {
    try await read { tables in try tables.support.receipts(of: user, limit: limit) }
  }

  /// All events of a user, newest first.
  /// - Parameter before: where the previous page ended; `nil` begins with the newest.
  package func timeline(
    of user: UserID, before: TimelinePosition?, limit: Int
  ) async throws(LedgerError) -> TimelinePage {
    try await read { tables in try tables.events.timeline(of: user, before: before, limit: limit) }
  }

  /// The purchases under an original transaction ID, one per store that knows it, with their owners.
  package func ownedPurchases(_ id: OriginalTransactionID) async throws(LedgerError) -> [OwnedPurchase] {
    try await read { tables in try tables.support.ownedPurchases(id) }
  }

  /// The evidence of unowned purchases under an original transaction ID, from notifications.
  package func unclaimedPurchases(_ id: OriginalTransactionID) async throws(LedgerError) -> [SubscriptionEvidence] {
    try await read { tables in
      try StoreEnvironment.allCases.compactMap { environment in
        let key = SubscriptionKey(environment: environment, originalTransactionID: id)
        return try tables.unclaimed.purchase(tables.purchases.successor(of: key) ?? key)?.evidence
      }
    }
  }

  /// Whether the ledger has any record of a user: a verdict, a queued receipt, a note.
  package func isKnown(_ user: UserID) async throws(LedgerError) -> Bool {
    try await read { tables in try tables.accounts.isKnown(user) }
  }

  /// Whether the ledger has any trace of a user: also an event that an app reported, or a consumption.
  package func hasSeen(_ user: UserID) async throws(LedgerError) -> Bool {
    try await read { tables in try tables.accounts.hasSeen(user) }
  }

  /// The purchases, owned or not, whose stored transactions include this ID, their own or that of the web order line item.
  ///
  /// Reads all stored evidence, the newest first, since no index contains the transactions. An index would be one more
  /// B-tree for every receipt to update, while support searches now and then. Each page is a separate read on a
  /// connection of the pool: checkpoints of the log are not blocked, and callers do not wait, as their reads have a
  /// dedicated connection.
  ///
  /// - Parameters:
  ///   - deadline: when to give up.
  ///   - page: rows of a page: some megabytes of evidence, read in some milliseconds.
  package func purchases(
    with id: TransactionID, until deadline: ContinuousClock.Instant, page: Int = 2_000
  ) async throws(LedgerError) -> TransactionSearch {
    // The ID is inserted into JSON unescaped, and a quotation mark in it would end the text.
    guard !id.rawValue.isEmpty, id.rawValue.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      return TransactionSearch()
    }
    for table in SupportTable.EvidenceTable.allCases {
      var place = Int64.max
      repeat {
        guard ContinuousClock.now < deadline, !Task.isCancelled else { return TransactionSearch(isComplete: false) }
        let start = place
        let found = try await read { tables in
          try tables.support.purchases(with: id, in: table, below: start, limit: page)
        }
        guard found.keys.isEmpty else { return TransactionSearch(keys: found.keys, isLineItem: found.isLineItem) }
        place = found.end
      } while place > 0
    }
    return TransactionSearch()
  }

  /// Evidence of a user's purchases, with the earlier transactions that Apple's last answers left out: the Server API
  /// answers the last one alone.
  package func includingPast(
    _ evidence: [SubscriptionEvidence], of user: UserID
  ) async throws(LedgerError) -> [SubscriptionEvidence] {
    try await read { tables in
      var past: [SubscriptionKey: [Purchase]] = [:]
      for id in try tables.accounts.account(of: user)?.purchases ?? [] where id > 0 {
        if let key = try tables.purchases.key(ofPurchase: id) {
          past[key] = try tables.pastTransactions.transactions(of: id)
        }
      }
      return evidence.map { $0.including(past: past[$0.key] ?? []) }
    }
  }

  /// Keeps the transactions of known purchases that their evidence leaves out, each once.
  package func keepPast(_ reports: [SubscriptionEvidence]) async throws(LedgerError) {
    try await engine.submit { tables in
      for report in try reports.map(tables.migrations.followingMigrations) {
        guard let purchase = try tables.purchases.purchase(report.key), let id = purchase.id,
          let past = purchase.evidence.leftOut(of: [report])
        else { continue }
        try tables.pastTransactions.keep(past, of: id)
      }
    }
  }
}

/// A user's stored receipt, with one of the purchases that it proves.
package struct OwnedReceipt: Hashable, Sendable {
  package var receipt: KeptReceipt
  package var key: SubscriptionKey
}

/// A purchase and its owner.
package struct OwnedPurchase: Hashable, Sendable {
  package var evidence: SubscriptionEvidence
  package var owner: UserID
  /// Changes of owner, newest first; at most `changeLimit`.
  package var changes: [OwnershipChange]

  package static let changeLimit = 50
}

/// The result of a search for a transaction.
package struct TransactionSearch: Hashable, Sendable {
  package var keys: [SubscriptionKey] = []
  /// Whether the ID is the web order line item of a transaction, and no transaction's own.
  package var isLineItem = false
  /// Whether the search covered everything that could match.
  package var isComplete = true
}
