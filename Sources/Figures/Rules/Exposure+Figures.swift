package import Access
package import Entitlements
package import struct FoundationEssentials.Date

extension Exposure {
  /// The counts that one user adds to the figures of the variant. Payments before the exposure count for `paidBefore` alone;
  /// so does a purchase without a known first transaction.
  ///
  /// - Parameters:
  ///   - evidence: the user's purchases. The same count as in `SubscriptionEvidence.figures`.
  ///   - trials: the starts of the user's trials that are the app's own.
  package func counts(
    _ evidence: [SubscriptionEvidence], trials: [Date], _ terms: [ProductID: Plans.Terms]
  ) -> [VariantKey: VariantCounts] {
    let key = VariantKey(experiment: experiment, variant: variant, day: at.utcDay, currency: "")
    let bought = evidence.flatMap(\.counted)
    let payments = bought.filter(\.isPayment)
    let isLater = { (date: Date?) in date.map { $0 >= at } ?? false }
    var user = VariantCounts()
    user.exposed = 1
    let hasUnknownStart = evidence.contains { !$0.isKnownFromStart && $0.counted.contains(where: \.isPayment) }
    guard !hasUnknownStart, payments.allSatisfy({ isLater($0.purchaseDate) }) else {
      user.paidBefore = 1
      return [key: user]
    }
    user.paid = payments.contains { !$0.isRefunded } ? 1 : 0
    let hasTrial = trials.contains(where: isLater) || bought.contains { $0.isTrial && isLater($0.purchaseDate) }
    user.trials = hasTrial ? 1 : 0
    var counts = [key: user]
    for payment in payments {
      let money = Money(of: payment, terms)
      guard money.amount > 0 else { continue }
      var place = key
      place.currency = money.currency
      counts[place, default: VariantCounts()].revenue += money.amount
      if payment.isRefunded { counts[place, default: VariantCounts()].refunds += money.refunded }
    }
    return counts
  }
}
