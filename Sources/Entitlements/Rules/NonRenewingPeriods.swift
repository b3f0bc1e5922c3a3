package import struct FoundationEssentials.Date

/// The ends of non-renewing subscriptions. Apple names none: the period is the app's own.
///
/// Each runs for its product's period from the purchase. One that was bought while another of the product ran begins at
/// that one's end. One that was taken back takes no time.
///
/// https://developer.apple.com/documentation/storekit/product/producttype/nonrenewable
package struct NonRenewingPeriods {
  private struct Row: Hashable {
    let environment: StoreEnvironment
    let transaction: TransactionID
  }

  private struct Sold: Hashable {
    let environment: StoreEnvironment
    let product: ProductID
  }

  private var ends: [Row: Date] = [:]

  /// - Parameter evidence: all of a user's.
  package init(of evidence: [SubscriptionEvidence], catalog: Catalog) {
    guard catalog.sellsNonRenewing else { return }
    var bought: [Row: (purchase: Purchase, start: Date, period: BillingPeriod)] = [:]
    for item in evidence {
      for purchase in item.purchases where purchase.expiresDate == nil {
        guard let start = purchase.purchaseDate, let product = catalog.products[purchase.productID],
          product.kind == .nonRenewing, let period = product.period
        else { continue }
        let row = Row(environment: item.key.environment, transaction: purchase.transactionID)
        // A refund in any report counts.
        if bought[row]?.purchase.cancellationDate == nil { bought[row] = (purchase, start, period) }
      }
    }
    var last: [Sold: Date] = [:]
    let inOrder = bought.sorted {
      ($0.value.start, $0.key.transaction.rawValue) < ($1.value.start, $1.key.transaction.rawValue)
    }
    for (row, value) in inOrder {
      let sold = Sold(environment: row.environment, product: value.purchase.productID)
      let isTakenBack = value.purchase.cancellationDate != nil
      let end = value.period.end(from: isTakenBack ? value.start : max(value.start, last[sold] ?? value.start))
      ends[row] = end
      if !isTakenBack { last[sold] = end }
    }
  }

  /// The end of a purchase without an end of its own; `nil` for one of another kind.
  package func end(of purchase: Purchase, in environment: StoreEnvironment) -> Date? {
    ends[Row(environment: environment, transaction: purchase.transactionID)]
  }

  /// All ends.
  var dates: some Sequence<Date> { ends.values }

  /// The rows, with their ends.
  func completing(
    _ readings: [SubscriptionEvidence.Reading], in environment: StoreEnvironment
  ) -> [SubscriptionEvidence.Reading] {
    guard !ends.isEmpty else { return readings }
    return readings.map { reading in
      var reading = reading
      if reading.purchase.expiresDate == nil {
        reading.purchase.expiresDate = end(of: reading.purchase, in: environment)
      }
      return reading
    }
  }
}
