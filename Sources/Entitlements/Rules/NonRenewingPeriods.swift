package import struct FoundationEssentials.Date

/// The ends of non-renewing subscriptions. Apple names none: the period is the app's own.
///
/// Each runs for its product's period from the purchase. One that was bought while another of the product ran begins at
/// that one's end. One that was taken back takes no time. A restored one is the purchase that it was first.
///
/// https://developer.apple.com/documentation/storekit/product/producttype/nonrenewable
package struct NonRenewingPeriods: Sendable {
  private struct Sold: Hashable {
    let environment: StoreEnvironment
    let product: ProductID
  }

  private struct Bought {
    /// The date of the first transaction that has one.
    var start: Date?
    let period: BillingPeriod
    /// The last report on it, and what that says.
    var reportedAt: Date
    var isTakenBack: Bool
  }

  private var ends: [PurchaseWithoutExpiry: Date] = [:]

  /// - Parameter evidence: all of a user's.
  package init(of evidence: [SubscriptionEvidence], catalog: Catalog) {
    guard catalog.sellsNonRenewing else { return }
    var bought: [PurchaseWithoutExpiry: Bought] = [:]
    for item in evidence {
      for purchase in item.purchases where purchase.expiresDate == nil {
        guard let product = catalog.products[purchase.productID], product.kind == .nonRenewing,
          let period = product.period
        else { continue }
        let start = purchase.purchaseDate
        let id = PurchaseWithoutExpiry(purchase, in: item.key.environment)
        let reportedAt = item.reportedAt(purchase)
        let isTakenBack = purchase.cancellationDate != nil
        var known = bought[id] ?? Bought(start: start, period: period, reportedAt: reportedAt, isTakenBack: isTakenBack)
        known.start = [known.start, start].compactMap(\.self).min()
        if known.reportedAt == reportedAt {
          known.isTakenBack = known.isTakenBack || isTakenBack
        } else if known.reportedAt < reportedAt {
          (known.reportedAt, known.isTakenBack) = (reportedAt, isTakenBack)
        }
        bought[id] = known
      }
    }
    var last: [Sold: Date] = [:]
    let inOrder = bought.compactMap { id, one in one.start.map { (id: id, one: one, start: $0) } }.sorted {
      ($0.start, $0.id.original.rawValue, $0.id.transactionOfAnotherStore?.rawValue ?? "")
        < ($1.start, $1.id.original.rawValue, $1.id.transactionOfAnotherStore?.rawValue ?? "")
    }
    for (id, one, start) in inOrder {
      let sold = Sold(environment: id.environment, product: id.product)
      let end = one.period.end(from: one.isTakenBack ? start : max(start, last[sold] ?? start))
      ends[id] = end
      if !one.isTakenBack { last[sold] = end }
    }
  }

  /// The end of a purchase without an end of its own; `nil` for one of another kind.
  package func end(of purchase: Purchase, in environment: StoreEnvironment) -> Date? {
    ends[PurchaseWithoutExpiry(purchase, in: environment)]
  }

  /// The first end after a moment of the other purchases of a product: they take no time from one that was taken back.
  func nextEnd(after moment: Date, beside purchase: Purchase, in environment: StoreEnvironment) -> Date? {
    let id = PurchaseWithoutExpiry(purchase, in: environment)
    return ends.filter { other, end in
      other.environment == environment && other.product == id.product && other != id && moment.isBefore(end)
    }.values.min()
  }

  var dates: some Sequence<Date> { ends.values }

  func completing(
    _ readings: [SubscriptionEvidence.Reading], in environment: StoreEnvironment
  ) -> [SubscriptionEvidence.Reading] {
    guard !ends.isEmpty else { return readings }
    return readings.map { reading in
      guard reading.purchase.expiresDate == nil, let end = end(of: reading.purchase, in: environment) else {
        return reading
      }
      var reading = reading
      reading.purchase.expiresDate = end
      reading.endsByCatalog = true
      return reading
    }
  }
}
