package import struct FoundationEssentials.Date

/// The last refund or revocation that Apple dated, in reports of any age.
///
/// Apple's answers may be a moment behind what Apple has told. One that does not show a refund of the last hour
/// (`SubscriptionEvidence.answerLag`) decides, and Apple is asked again soon.
package struct KnownRefund: Hashable, Sendable {
  package var transactionID: TransactionID
  package var date: Date

  package init(transactionID: TransactionID, date: Date) {
    (self.transactionID, self.date) = (transactionID, date)
  }

  fileprivate init?(_ purchase: Purchase) {
    guard let date = purchase.cancellationDate else { return nil }
    self.init(transactionID: purchase.transactionID, date: date.inWholeMilliseconds)
  }

  fileprivate static func precedes(_ one: KnownRefund, _ other: KnownRefund) -> Bool {
    one.date == other.date ? one.transactionID.rawValue < other.transactionID.rawValue : one.date < other.date
  }
}

extension SubscriptionEvidence {
  /// Remembers the last refund of this and of other evidence, while the rows do not show it and an answer may be behind it.
  func keepingRefund(of other: SubscriptionEvidence) -> SubscriptionEvidence {
    var kept = self
    kept.refund = [lastRefund, other.lastRefund].compactMap(\.self).max(by: KnownRefund.precedes)
    if let known = kept.refund, isShown(known) || isOver(known) { kept.refund = nil }
    return kept
  }

  private var lastRefund: KnownRefund? {
    let shown = purchases.lazy.compactMap(KnownRefund.init).max(by: KnownRefund.precedes)
    return [shown, refund].compactMap(\.self).max(by: KnownRefund.precedes)
  }

  private func isShown(_ known: KnownRefund) -> Bool { purchases.contains { KnownRefund($0) == known } }

  private func isOver(_ known: KnownRefund) -> Bool {
    let answer: Date? = if case .partial(let since) = coverage { since } else { evidenceTime }
    return answer.map(known.date.advanced(by: Self.answerLag).isBefore) ?? false
  }
}
