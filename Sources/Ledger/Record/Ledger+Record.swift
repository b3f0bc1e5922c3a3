package import Entitlements
package import struct FoundationEssentials.Date

extension Ledger {
  /// Records the evidence of an answer from Apple for a user, and reevaluates the user over all evidence.
  ///
  /// - Returns: the verdict as recorded, or that the purchase belongs to another user (nothing is recorded then).
  package func record(_ entry: LedgerEntry) async throws(LedgerError) -> RecordOutcome {
    let prepared = try Result { try PreparedEntry(entry) }.mapError { LedgerFailure($0).error }.get()
    return try await engine.submit { tables in
      let outcome = try RecordOperation(prepared: prepared, tables: tables).run()
      // The subscription is settled in the same transaction.
      if case .recheck(let item?) = entry.origin, case .recorded(let recorded) = outcome {
        try tables.runs.settleItem(item.id, of: item.run, .done(changed: recorded.changed))
      }
      return outcome
    }
  }

  /// Claims the subscriptions due for a check, the longest overdue first. Each claim postpones the next one, by two
  /// minutes at first and up to a day; evidence from `record` replaces that schedule.
  /// - Parameter onUnreadable: gets the rows of those that cannot be read, and are put off for a day.
  package func claimRechecks(
    dueAt now: Date, limit: Int, onUnreadable: ([Int64]) -> Void = { _ in }
  ) async throws(LedgerError) -> [Recheck] {
    guard try await read({ tables in try tables.schedule.hasRechecks(dueAt: now) }) else { return [] }
    let claim = try await engine.submit { tables in try tables.schedule.claimRechecks(dueAt: now, limit: limit) }
    if !claim.unreadable.isEmpty { onUnreadable(claim.unreadable) }
    return claim.due
  }

  /// Undoes claims of subscriptions that were not asked about.
  package func giveBack(_ rechecks: ArraySlice<Recheck>) async throws(LedgerError) {
    guard !rechecks.isEmpty else { return }
    try await engine.submit { tables in for recheck in rechecks { try tables.schedule.giveBack(recheck) } }
  }

  /// Makes a subscription due in two minutes that Apple's absence left without an answer. No attempt is counted.
  package func retrySoon(_ recheck: Recheck, at now: Date) async throws(LedgerError) {
    try await engine.submit { tables in try tables.schedule.retrySoon(recheck, at: now) }
  }

  /// Makes a claimed subscription without an answer due when time alone changes its verdict, if its claim ends later.
  package func bringForward(
    _ recheck: Recheck, at now: Date, to nextTurn: @escaping NextCheck
  ) async throws(LedgerError) {
    let turn = try await read { tables in
      try tables.purchases.purchase(recheck.key).flatMap { purchase -> Date? in
        guard purchase.schedule.map({ StoredForm.date($0.scheduledAt) }) == recheck.scheduledAt else { return nil }
        return nextTurn(purchase.evidence, max(now, purchase.evidence.evaluatedAt))
      }
    }
    guard let turn, turn < recheck.dueAgainAt else { return }
    try await engine.submit { tables in try tables.schedule.bringForward(recheck, to: turn) }
  }

  /// All evidence of a user and the last recorded verdict; `nil` for an unknown user.
  package func profile(of user: UserID) async throws(LedgerError) -> LedgerProfile? {
    var profile = try await readShort { tables in try tables.accounts.ledgerProfile(of: user) }
    if let known = profile, known.write == .waiting, memory.rows.isSettled(known.rowVersion, of: user) {
      profile?.write = .written
    }
    return profile
  }

  /// The outcome of an earlier validation of this receipt for a user.
  package func knowledge(of receiptBase64: String, for user: UserID) async throws(LedgerError) -> ReceiptKnowledge {
    let digest = ReceiptDigest(ofReceipt: receiptBase64)
    return try await readShort { tables in try tables.purchases.knowledge(of: digest, for: user) }
  }

  /// The stored receipts that contain an original transaction ID: one per environment.
  package func receipts(mentioning id: OriginalTransactionID) async throws(LedgerError) -> [KeptReceipt] {
    try await readShort { tables in try tables.purchases.receipts(mentioning: id) }
  }

  // MARK: The users to reevaluate

  /// Users with all their evidence, in the order of their IDs.
  /// - Parameter user: the last one of the previous page; `nil` begins with the first.
  package func profiles(after user: UserID?, limit: Int) async throws(LedgerError) -> UserPage {
    try await read { tables in try tables.accounts.profiles(after: user, limit: limit) }
  }

  /// Users whose recorded access ended before a moment, with a purchase due for a check since then: the longest overdue
  /// first.
  package func usersOverdue(since moment: Date, limit: Int) async throws(LedgerError) -> [UserID] {
    try await read { tables in try tables.accounts.usersOverdue(since: moment, limit: limit) }
  }

  /// Recorded verdicts that give access, counted by tier and product.
  package func accessGiven() async throws(LedgerError) -> [AccessCount] {
    try await read { tables in try tables.accounts.accessGiven() }
  }
}
