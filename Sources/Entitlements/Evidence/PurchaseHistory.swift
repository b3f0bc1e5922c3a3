package import struct FoundationEssentials.Date

/// How much of what Apple knows a piece of evidence tells.
package enum Coverage: Hashable, Sendable {
  /// All of it, as of the evidence time: what is left out is over.
  case snapshot
  /// Single transactions, each signed on its own, which say nothing of others; and all that Apple knew at `since`, where
  /// that was ever told.
  case partial(since: Date?)
}

/// Everything one answer of Apple's tells about a customer's purchases.
package struct PurchaseHistory: Hashable, Sendable {
  package var environment: StoreEnvironment
  package var source: EvidenceSource
  /// Apple's clock on the answer; newer evidence replaces older, never the reverse.
  package var evidenceTime: Date
  /// The moment to judge at: Apple's request time where the answer has it, else the time it was asked.
  package var evaluatedAt: Date
  package var purchases: [Purchase]
  package var renewals: [RenewalInfo]
  /// Apple says that the customer's account is gone (status 21010).
  package var isAccountGone: Bool
  package var coverage: Coverage

  package init(
    environment: StoreEnvironment,
    source: EvidenceSource,
    evidenceTime: Date,
    evaluatedAt: Date,
    purchases: [Purchase],
    renewals: [RenewalInfo] = [],
    isAccountGone: Bool = false,
    coverage: Coverage = .snapshot
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

  /// The answer, taken apart by subscription.
  ///
  /// A renewal without an original transaction ID is matched by its product; one that matches no row is dropped, as it
  /// speaks of a subscription that this answer does not show. One that was told on its own is kept: the rows may be known.
  ///
  /// Of what was told in parts, each subscription has the time of its own newest part, and is judged then: what was signed
  /// later about another one proves nothing here.
  package func evidence() -> [SubscriptionEvidence] {
    var order: [OriginalTransactionID] = []
    var rows: [OriginalTransactionID: [Purchase]] = [:]
    for purchase in purchases {
      if rows[purchase.originalTransactionID] == nil { order.append(purchase.originalTransactionID) }
      rows[purchase.originalTransactionID, default: []].append(purchase)
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
      if coverage != .snapshot {
        let reported = evidence.purchases.map(evidence.reportedAt) + evidence.renewals.map(evidence.reportedAt)
        evidence.evidenceTime = reported.max() ?? evidenceTime
        evidence.evaluatedAt = evidence.evidenceTime
      }
      return evidence
    }
  }
}

/// The newest that is known about one subscription (or one lifetime purchase).
package struct SubscriptionEvidence: Hashable, Sendable {
  package var key: SubscriptionKey
  package var source: EvidenceSource
  package var evidenceTime: Date
  package var evaluatedAt: Date
  package var purchases: [Purchase]
  package var renewals: [RenewalInfo]
  package var isAccountGone: Bool
  package var coverage: Coverage
  /// When the whole answer was asked for that `coverage` names; `nil` where there is none, or it is all there is.
  package var answeredAt: Date?
  /// Set for evidence that Apple signed and was not yet asked about: it grants until then, and proves nothing.
  package var provisionalUntil: Date?

  package init(
    key: SubscriptionKey,
    source: EvidenceSource,
    evidenceTime: Date,
    evaluatedAt: Date,
    purchases: [Purchase],
    renewals: [RenewalInfo] = [],
    isAccountGone: Bool = false,
    coverage: Coverage = .snapshot,
    answeredAt: Date? = nil,
    provisionalUntil: Date? = nil
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
    self.provisionalUntil = provisionalUntil
  }
}
