package import struct FoundationEssentials.Date

/// How much of Apple's record a piece of evidence covers.
package enum Coverage: Hashable, Sendable {
  /// The whole record as of the evidence time: a purchase that is left out has ended.
  case snapshot
  /// Single transactions, each signed on its own, which prove nothing about others; and the last snapshot, taken at
  /// `since`, if there ever was one.
  case partial(since: Date?)
}

/// The content of one answer from Apple about a customer's purchases.
package struct PurchaseHistory: Hashable, Sendable {
  package var environment: StoreEnvironment
  package var source: EvidenceSource
  /// Apple's clock on the answer. Newer evidence replaces older, never the reverse.
  package var evidenceTime: Date
  /// The evaluation time: Apple's request time if the answer has it, else the time of the request.
  package var evaluatedAt: Date
  package var purchases: [Purchase]
  package var renewals: [RenewalInfo]
  /// Apple says that the customer's account is gone (status 21010).
  package var isAccountGone: Bool
  package var coverage: Coverage
  /// The customer's first download of the app, where the source tells of it.
  package var originalPurchase: OriginalPurchase?

  package init(
    environment: StoreEnvironment, source: EvidenceSource, evidenceTime: Date, evaluatedAt: Date, purchases: [Purchase],
    renewals: [RenewalInfo] = [], isAccountGone: Bool = false, coverage: Coverage = .snapshot
  ) {
    self.environment = environment
    self.source = source
    self.evidenceTime = evidenceTime
    self.evaluatedAt = evaluatedAt
    self.purchases = purchases
    self.renewals = renewals
    self.isAccountGone = isAccountGone
    self.coverage = coverage
  }

  /// The answer, split by subscription.
  ///
  /// A renewal without an original transaction ID is matched by its product. One that matches no row is dropped, since
  /// its subscription is not in this answer; a partial report's is kept, since the ledger may have the rows.
  ///
  /// In a snapshot a purchase of which every row was reported earlier, as of its receipt, has that evidence time. In a
  /// partial report each subscription has the time of its own newest part as evidence time and evaluation time: a
  /// later signature on another subscription proves nothing about it.
  package func evidence() -> [SubscriptionEvidence] {
    var order: [OriginalTransactionID] = []
    var rows: [OriginalTransactionID: [Purchase]] = [:]
    if let only = purchases.first?.originalTransactionID,
      purchases.allSatisfy({ $0.originalTransactionID == only })
    {
      (order, rows) = ([only], [only: purchases])
    } else {
      for purchase in purchases {
        if rows[purchase.originalTransactionID] == nil { order.append(purchase.originalTransactionID) }
        rows[purchase.originalTransactionID, default: []].append(purchase)
      }
    }
    if coverage != .snapshot {
      for id in renewals.compactMap(\.originalTransactionID) where rows[id] == nil {
        order.append(id)
        rows[id] = []
      }
    }
    return order.map { id in
      let purchases = rows[id] ?? []
      var evidence = SubscriptionEvidence(
        key: SubscriptionKey(environment: environment, originalTransactionID: id),
        source: source,
        evidenceTime: evidenceTime,
        evaluatedAt: evaluatedAt,
        purchases: purchases,
        renewals: renewals.filter { renewal in
          if let original = renewal.originalTransactionID { return original == id }
          return purchases.contains { $0.productID == renewal.productID }
        },
        isAccountGone: isAccountGone,
        coverage: coverage)
      evidence.terms = evidence.renewals.compactMap(\.terms).max(by: RenewalTerms.precedes)
      for index in evidence.renewals.indices { evidence.renewals[index].terms = nil }
      evidence.noteGracePeriods()
      if coverage == .snapshot {
        evidence.terms?.signedAt = nil
        if source == .signature {
          let upgraded = Self.upgraded(among: purchases)
          for index in purchases.indices where upgraded.contains(purchases[index].transactionID) {
            evidence.purchases[index].isUpgraded = true
          }
        }
        // Decoded rows are as old as the receipt.
        let reported = purchases.compactMap(\.reportedAt)
        if reported.count == purchases.count, let newest = reported.max() { evidence.evidenceTime = newest }
        for index in purchases.indices where purchases[index].reportedAt != nil {
          evidence.purchases[index].reportedAt = nil
        }
        for index in evidence.renewals.indices { evidence.renewals[index].reportedAt = nil }
      } else {
        let reported = evidence.purchases.map(evidence.reportedAt) + evidence.renewals.map(evidence.reportedAt)
        evidence.evidenceTime = reported.max() ?? evidenceTime
        evidence.evaluatedAt = evidence.evidenceTime
      }
      return evidence
    }
  }

  /// The rows of a receipt that an upgrade ended. A receipt never tells of upgrades; they are inferred as in partial
  /// evidence.
  package static func upgraded(among rows: [Purchase]) -> Set<TransactionID> {
    guard rows.count > 1 else { return [] }
    var upgraded: Set<TransactionID> = []
    for (id, rows) in Dictionary(grouping: rows, by: \.originalTransactionID) where rows.count > 1 {
      let parts = SubscriptionEvidence(
        key: SubscriptionKey(environment: .production, originalTransactionID: id), source: .signature,
        evidenceTime: .distantPast, evaluatedAt: .distantPast, purchases: rows, coverage: .partial(since: nil))
      upgraded.formUnion(parts.upgradedTransactions)
    }
    return upgraded
  }
}

/// The newest evidence on one subscription (or one lifetime purchase).
package struct SubscriptionEvidence: Hashable, Sendable {
  package var key: SubscriptionKey
  package var source: EvidenceSource
  package var evidenceTime: Date
  package var evaluatedAt: Date
  package var purchases: [Purchase]
  package var renewals: [RenewalInfo]
  package var isAccountGone: Bool
  package var coverage: Coverage
  /// The request time of the snapshot named by `coverage`; `nil` if there is none, or if the evidence is that snapshot.
  package var answeredAt: Date?
  /// The transaction that the snapshot named by `coverage` does not have yet: see `merging`.
  package var ahead: TransactionID?
  /// The billing grace periods that earlier reports told of, where the renewal infos at hand do not.
  package var grace: KnownGrace?
  /// The last refund that a report told of, where the newest reports do not show it and it is not an hour old.
  package var refund: KnownRefund?
  /// The terms of the next renewal that Apple signed last.
  package var terms: RenewalTerms?
  /// Set for signed evidence that Apple was not asked about yet: it grants access until then, and proves nothing.
  package var provisionalUntil: Date?
  /// The entitlement IDs that RevenueCat names for each product; empty for evidence of Apple's.
  package var unlocks: [ProductID: [String]] = [:]
  /// The ends that were bought at another store, where others came; known only where the figures are counted.
  package var boughtEnds: [TransactionID: Date] = [:]

  package init(
    key: SubscriptionKey, source: EvidenceSource, evidenceTime: Date, evaluatedAt: Date, purchases: [Purchase],
    renewals: [RenewalInfo] = [], isAccountGone: Bool = false, coverage: Coverage = .snapshot, answeredAt: Date? = nil,
    grace: KnownGrace? = nil, provisionalUntil: Date? = nil
  ) {
    self.key = key
    self.source = source
    self.evidenceTime = evidenceTime
    self.evaluatedAt = evaluatedAt
    self.purchases = purchases
    self.renewals = renewals
    self.isAccountGone = isAccountGone
    self.coverage = coverage
    self.answeredAt = answeredAt
    self.grace = grace
    self.provisionalUntil = provisionalUntil
  }
}
