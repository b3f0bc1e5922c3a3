package import Entitlements

/// Refunds that no notification has told.
extension Ledger {
  /// The purchases at Apple's, in the order of their places.
  /// - Parameter place: where to continue.
  /// - Returns: `last`: the last place that was looked at; `nil` at the end.
  package func refundQuestions(
    after place: Int64, limit: Int
  ) async throws(LedgerError) -> (questions: [RefundQuestion], unreadable: [Int64], last: Int64?) {
    try await read { tables in try tables.consumptionRequests.refundQuestions(after: place, limit: limit) }
  }

  /// A user's purchases at Apple's, the newest evidence first.
  package func refundQuestions(of user: UserID) async throws(LedgerError) -> [RefundQuestion] {
    try await read { tables in
      try tables.purchases.purchases(of: tables.accounts.account(of: user)).sorted {
        ($0.evidenceAt, $0.proof) > ($1.evidenceAt, $1.proof)
      }
      .compactMap(tables.consumptionRequests.refundQuestion)
    }
  }

  /// The ledger's knowledge of refunded transactions, in their order.
  package func knowledge(
    ofRefunds refunds: [(key: SubscriptionKey, transactionID: TransactionID)]
  ) async throws(LedgerError) -> [RefundKnowledge] {
    try await read { tables in
      try refunds.map { key, transactionID in
        guard let stored = try tables.purchases.purchase(tables.purchases.successor(of: key) ?? key), let id = stored.id
        else {
          return .unowned
        }
        let present = stored.evidence.purchases.first { $0.transactionID == transactionID }
        let row =
          try present ?? tables.pastTransactions.transactions(of: id).first { $0.transactionID == transactionID }
        return row?.cancellationDate == nil ? .new(owner: stored.owner) : .known(owner: stored.owner)
      }
    }
  }
}

extension ConsumptionRequestTable {
  func refundQuestions(
    after place: Int64, limit: Int
  ) throws -> (questions: [RefundQuestion], unreadable: [Int64], last: Int64?) {
    let ids = try all(
      "SELECT id FROM purchase WHERE id > ? ORDER BY id LIMIT ?", place, max(1, limit), as: Int64.self)
    var questions: [RefundQuestion] = []
    let unreadable = try tables.skippingUnreadable(ids) { id in
      if let question = try refundQuestion(tables.purchases.purchase(id: id)) { questions.append(question) }
    }
    return (questions, unreadable, ids.last)
  }

  fileprivate func refundQuestion(_ stored: PurchaseTable.StoredPurchase) throws -> RefundQuestion? {
    guard let id = stored.id, let bundleID = try tables.proofs.bundleID(ofProof: stored.proof) else { return nil }
    return RefundQuestion(place: id, evidence: stored.evidence, owner: stored.owner, bundleID: bundleID)
  }
}

/// A purchase at Apple's, as a search for refunds comes to it.
package struct RefundQuestion: Hashable, Sendable {
  /// The place in the order of the search.
  package var place: Int64
  package var evidence: SubscriptionEvidence
  package var owner: UserID
  package var bundleID: BundleID

  package var key: SubscriptionKey { evidence.key }
}

/// The ledger's knowledge of a transaction that Apple calls refunded.
package enum RefundKnowledge: Hashable, Sendable {
  /// No user has the purchase.
  case unowned
  /// The refund is known.
  case known(owner: UserID)
  case new(owner: UserID)

  package var owner: UserID? {
    switch self {
    case .unowned: nil
    case .known(let owner), .new(let owner): owner
    }
  }
}
