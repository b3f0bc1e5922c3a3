internal import Entitlements

/// Rows of others that name an erased user: the erasure looks at each again, and changes it.
struct NameTraces: Equatable, Sendable {
  var notifications: [String] = []
  var purchases: [Int64] = []
  var revenueCatPurchases: [Int64] = []
  var unclaimed: [SubscriptionKey] = []
  var reports: [SubscriptionKey] = []
  var refused: [Int64] = []
  var notes: [Int64] = []
  var changeEvents: [Int64] = []
}

extension ErasureTable {
  /// A place in one of the tables, from which the next page is read.
  enum TracePlace: Sendable {
    case purchases(after: Int64)
    case unclaimed(after: SubscriptionKey)
    case revenueCatPurchases(below: Int64)
    case reports(after: SubscriptionKey)
    case events(after: String)
    case refused(after: Int64)
    case notes(after: Int64)
    case changeEvents(after: Int64)

    /// Purchases at Apple's name users by UUIDs only.
    static func first(_ names: ErasedNames) -> TracePlace {
      names.hasAccounts ? .purchases(after: 0) : .revenueCatPurchases(below: 0)
    }

    static let start = SubscriptionKey(environment: .production, originalTransactionID: OriginalTransactionID(""))
  }

  /// Reads one page of a table that may name an erased user.
  ///
  /// - Returns: where the next page begins; `nil` at the end.
  func findTraces(_ names: ErasedNames, from place: TracePlace, into traces: inout NameTraces) throws -> TracePlace? {
    switch place {
    case .purchases(let after):
      let last = try first("SELECT coalesce(max(id), 0) FROM purchase", as: Int64.self) ?? 0
      let end = min(last, after + 5_000)
      for pattern in names.accountPatterns {
        traces.purchases += try all(
          "SELECT id FROM purchase WHERE id > ? AND id <= ? AND lower(evidence) LIKE ?", after, end, pattern,
          as: Int64.self)
      }
      return end < last ? .purchases(after: end) : .unclaimed(after: TracePlace.start)
    case .unclaimed(let after):
      let page = try all(
        """
        SELECT environment, original_transaction_id, evidence, proof FROM unclaimed_evidence
        WHERE environment > ? OR (environment = ? AND original_transaction_id > ?)
        ORDER BY environment, original_transaction_id LIMIT 500
        """, after.environment, after.environment, after.originalTransactionID
      ) { row in
        let proof = try row.get(3, as: String?.self)
        return (
          key: try row.get(0, as: SubscriptionKey.self),
          isNamed: try names.occurs(inJSON: row.get(2)) || (proof.map(names.occurs(inSigned:)) ?? false)
        )
      }
      traces.unclaimed += page.filter(\.isNamed).map(\.key)
      return page.count == 500 ? page.last.map { .unclaimed(after: $0.key) } : .revenueCatPurchases(below: 0)
    case .revenueCatPurchases(let below):
      let page = try all(
        "SELECT id, events FROM revenuecat_purchase WHERE id < ? ORDER BY id DESC LIMIT 500", below
      ) { row in (id: try row.get(0, as: Int64.self), isNamed: try names.occurs(inJSON: row.get(1))) }
      traces.revenueCatPurchases += page.filter(\.isNamed).map(\.id)
      return page.count == 500
        ? page.last.map { .revenueCatPurchases(below: $0.id) } : .reports(after: TracePlace.start)
    case .reports(let after):
      let page = try all(
        """
        SELECT environment, original_transaction_id, events FROM revenuecat_report
        WHERE environment > ? OR (environment = ? AND original_transaction_id > ?)
        ORDER BY environment, original_transaction_id LIMIT 500
        """, after.environment, after.environment, after.originalTransactionID
      ) { row in (key: try row.get(0, as: SubscriptionKey.self), isNamed: try names.occurs(inJSON: row.get(2))) }
      traces.reports += page.filter(\.isNamed).map(\.key)
      return page.count == 500 ? page.last.map { .reports(after: $0.key) } : .events(after: "revenuecat:")
    case .events(let after):
      // RevenueCat's. Apple's are found by their purchases.
      let page = try all(
        """
        SELECT uuid, payload, user_id FROM notification WHERE uuid > ? AND uuid < 'revenuecat;' ORDER BY uuid LIMIT 500
        """, after
      ) { row in
        let (payload, user) = (try row.get(1, as: String?.self), try row.get(2, as: String?.self))
        return (
          uuid: try row.get(0, as: String.self),
          isNamed: (payload.map(names.occurs(inJSON:)) ?? false) || (user.map(names.isName) ?? false)
        )
      }
      traces.notifications += page.filter(\.isNamed).map(\.uuid)
      return page.count == 500 ? page.last.map { .events(after: $0.uuid) } : .refused(after: 0)
    case .refused(let after):
      let page = try all(
        "SELECT id, payload FROM refused_notification WHERE id > ? ORDER BY id LIMIT 200", after
      ) { row in (id: try row.get(0, as: Int64.self), isNamed: try names.occurs(inSigned: row.get(1))) }
      traces.refused += page.filter(\.isNamed).map(\.id)
      return page.count == 200 ? page.last.map { .refused(after: $0.id) } : .notes(after: 0)
    case .notes(let after):
      let page = try all(
        "SELECT sequence, text FROM event WHERE kind = 'note' AND sequence > ? ORDER BY sequence LIMIT 500", after
      ) { row in
        let text = try row.get(1, as: String.self)
        return (sequence: try row.get(0, as: Int64.self), isNamed: names.redacted(text) != text)
      }
      traces.notes += page.filter(\.isNamed).map(\.sequence)
      return page.count == 500 ? page.last.map { .notes(after: $0.sequence) } : .changeEvents(after: 0)
    case .changeEvents(let after):
      let (sequences, last) = try changeEvents(naming: names, after: after, limit: 500)
      traces.changeEvents += sequences
      return last.map { .changeEvents(after: $0) }
    }
  }

  /// Removes an erased user's names from other users' rows.
  ///
  /// - Parameters:
  ///   - pseudonym: that of the user; `nil`: nothing is kept under one.
  ///   - pseudonyms: by the key of each name that has one.
  func erase(
    _ traces: NameTraces, _ names: ErasedNames, as pseudonym: UserID?, _ pseudonyms: [String: UserID]
  ) throws -> ErasureReport {
    var report = ErasureReport(of: UserID(""))
    for id in traces.purchases {
      let kept: PurchaseTable.StoredPurchase
      // Any other error has ended the transaction.
      do { kept = try tables.purchases.purchase(id: id) } catch is StoredForm.Unstorable { continue }
      report.notifications += try eraseNotifications(
        about: kept.evidence.key, isOwn: false, as: pseudonym, names)
      let evidence = kept.evidence.withoutAccounts(where: names.isName)
      guard evidence != kept.evidence else { continue }
      var purchase = kept
      purchase.evidence = evidence
      purchase.rows = try StoredForm.text(evidence)
      _ = try tables.purchases.save(purchase)
      // A receipt is needed to ask Apple, and says nothing of accounts. A signed transaction does.
      let proof = try tables.proofs.proof(purchase.proof)
      if names.occurs(inSigned: proof.receipt.base64), try erase(proof: purchase.proof) { report.receipts += 1 }
    }
    for key in traces.unclaimed {
      guard var kept = try tables.unclaimed.purchase(key) else { continue }
      report.notifications += try eraseNotifications(about: key, isOwn: false, as: pseudonym, names)
      kept.evidence = kept.evidence.withoutAccounts(where: names.isName)
      kept.rows = try StoredForm.text(kept.evidence)
      if let proof = kept.proof, names.occurs(inSigned: proof) { (kept.proof, kept.proofAt) = (nil, nil) }
      try tables.unclaimed.save(kept, seenAt: 0)
    }
    for id in traces.revenueCatPurchases {
      guard var kept = try tables.otherStores.purchase(id: id) else { continue }
      kept.events = kept.events.map { $0.renamed(names, pseudonym, pseudonyms) }
      _ = try tables.otherStores.save(kept)
    }
    for key in traces.reports {
      guard var kept = try tables.otherStores.report(key) else { continue }
      kept.events = kept.events.map { $0.renamed(names, pseudonym, pseudonyms) }
      try tables.otherStores.save(kept)
    }
    for uuid in traces.notifications {
      if try erase(notification: uuid, as: pseudonym, names) { report.notifications += 1 }
    }
    for id in traces.refused {
      try execute("UPDATE refused_notification SET payload = '' WHERE id = ? AND payload <> ''", id)
      report.notifications += changesCount
    }
    for sequence in traces.changeEvents {
      if try erase(changeEvent: sequence, names, as: pseudonym) { report.changeEvents += 1 }
    }
    for sequence in traces.notes {
      let text = try first("SELECT text FROM event WHERE sequence = ? AND kind = 'note'", sequence, as: String.self)
      guard let text else { continue }
      let redacted = names.redacted(text)
      guard redacted != text else { continue }
      try execute("UPDATE event SET text = ? WHERE sequence = ? AND kind = 'note'", redacted, sequence)
      report.notes += 1
    }
    return report
  }
}

extension ErasedNames {
  /// Patterns for LIKE: the UUIDs as the evidence on a purchase has them, without a sign that LIKE reads otherwise.
  fileprivate var accountPatterns: [String] {
    Set(spellings.compactMap { UserID($0).accountToken }).sorted().map { "%\"\($0)\"%" }
  }
}

extension StoreEvent {
  /// The event under a pseudonym, if it names somebody who is erased.
  fileprivate func renamed(_ names: ErasedNames, _ pseudonym: UserID?, _ pseudonyms: [String: UserID]) -> StoreEvent {
    guard names.isName(user.rawValue) else { return self }
    var copy = self
    copy.user = pseudonyms[user.key] ?? pseudonym ?? .erased
    return copy
  }
}
