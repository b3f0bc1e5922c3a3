package import Access
package import Entitlements
internal import struct FoundationEssentials.Date

extension SubscriptionEvidence {
  /// The counts of one subscription, by day, product and currency.
  ///
  /// Left out are the sandbox, family sharing, RevenueCat's promotions, purchases that no store has confirmed, and periods
  /// that end where they begin. A period ends with its refund, and where the next one begins. A grace period extends its
  /// own, up to the late payment if there is one, and so does `hold` the last one where nobody was asked since. A day counts
  /// in UTC.
  ///
  /// - Parameter bought: the purchases that count, where `counted` is known already.
  package func figures(_ terms: [ProductID: Plans.Terms], of bought: [Purchase]? = nil) -> [FigureKey: FigureCounts] {
    let bought = bought ?? counted
    var tally = FigureTally()
    for purchase in bought where purchase.isPayment {
      tally.pay(purchase, Money(of: purchase, terms))
    }
    tally.add(
      periods(of: bought, terms), terms, isWhole: isKnownFromStart(by: bought),
      isPending: renewals.contains { $0.autoRenews == true }, at: evaluatedAt)
    return tally.figures
  }

  /// How long a subscription that said that it renews is counted as paid for after its end, until the store is asked: a
  /// store that is away ends no subscription. As long as `policy.outage_hold` is by default.
  private static let hold = Duration.seconds(7 * 86_400)

  /// The length of the periods of each product, by the last one that was paid for at the usual price.
  package var billingPeriods: [(product: ProductID, period: BillingPeriod)] {
    guard key.environment == .production else { return [] }
    var newest: [FigurePeriod] = []
    for purchase in purchases where !purchase.isTrial && !purchase.isIntroductoryOffer {
      guard purchase.ownership == .purchased,
        let period = FigurePeriod(purchase, until: boughtEnds[purchase.transactionID]), !period.isBilledMonthly
      else { continue }
      if let place = newest.firstIndex(where: { $0.product == period.product }) {
        if newest[place].start <= period.start { newest[place] = period }
      } else {
        newest.append(period)
      }
    }
    return newest.map { period in
      (period.product, period.isRegular ? BillingPeriod(ofApples: period.days) : BillingPeriod(days: period.days))
    }
  }

  /// Whether the first transaction of the purchase is known.
  ///
  /// Apple signs single transactions, and the Server API answers the last one of a subscription: the first that is known may be
  /// a renewal, for years after the start, and so may a receipt of iOS 6's style. Other stores tell their events from the
  /// first.
  package var isKnownFromStart: Bool { isKnownFromStart(by: counted) }

  /// - Parameter bought: the purchases that count: see `counted`.
  func isKnownFromStart(by bought: [Purchase]) -> Bool {
    guard !key.isOfAnotherStore else { return true }
    guard let start = bought.lazy.compactMap(\.purchaseDate).min() else { return true }
    return bought.contains { purchase in
      purchase.purchaseDate == start && !purchase.isMigrated
        && (purchase.isTrial || purchase.isIntroductoryOffer || purchase.isFirst
          || purchase.transactionID.rawValue == key.originalTransactionID.rawValue)
    }
  }

  /// The purchases of a subscription that count. The first one after a migration may be the period that runs, under the new ID:
  /// it is not paid for again.
  var counted: [Purchase] {
    guard key.environment == .production, provisionalUntil == nil, key.originalTransactionID.store != "promotional",
      !key.isOfApp
    else { return [] }
    let bought = purchases.filter { $0.ownership == .purchased && $0.purchaseDate != nil }
    guard bought.contains(where: \.isMigrated) else { return bought }
    let paid = Set(bought.filter { !$0.isMigrated }.compactMap(\.expiresDate))
    return bought.filter { purchase in
      !purchase.isMigrated || !(purchase.expiresDate.map(paid.contains) ?? false)
    }
  }

  /// The periods of a subscription, by their start.
  private func periods(of purchases: [Purchase], _ terms: [ProductID: Plans.Terms]) -> [FigurePeriod] {
    var periods = purchases.compactMap { FigurePeriod($0, terms, until: boughtEnds[$0.transactionID]) }.sorted {
      $0.start == $1.start ? $0.transactionID.rawValue < $1.transactionID.rawValue : $0.start < $1.start
    }
    for index in periods.indices.dropLast() {
      periods[index].end = min(periods[index].end, periods[index + 1].start)
      if periods[index + 1].isLate(after: periods[index]) {
        periods[index + 1].begin(with: periods[index].end)
        if !periods[index].isTrial { periods[index].graceEnd = periods[index + 1].start }
      }
    }
    if let last = periods.indices.last, !periods[last].isTakenBack, !periods[last].isTrial {
      periods[last].graceEnd = knownGrace?.granted(after: periods[last].end)?.lastEnd(after: periods[last].end).flatMap
      {
        $0 > periods[last].end ? $0 : nil
      }
      let end = periods[last].graceEnd ?? periods[last].end
      if evaluatedAt < end, !isAccountGone, renewals.contains(where: { $0.autoRenews == true }) {
        periods[last].heldUntil = end.advanced(by: Self.hold)
      }
    }
    return periods.filter { $0.start < $0.end }
  }
}

/// A period that was bought, with the parts of its purchase that count.
private struct FigurePeriod {
  let product: ProductID
  let transactionID: TransactionID
  let money: Money
  var start: Date
  var end: Date
  /// The end that was bought.
  let expires: Date
  var graceEnd: Date?
  var heldUntil: Date?
  /// The length that was bought, in days.
  var days: Int
  let isTrial: Bool
  let isRefunded: Bool
  /// Refunded, or replaced by an upgrade.
  let isTakenBack: Bool
  /// Whether it is one of the payments of a commitment, whose length is the product's.
  let isBilledMonthly: Bool
  /// Whether it was sold at no offer.
  let isFullPrice: Bool
  /// Whether it was sold so by the App Store.
  let isRegular: Bool

  /// - Parameter boughtEnd: the end that was bought, where another one came.
  init?(_ purchase: Purchase, _ terms: [ProductID: Plans.Terms] = [:], until boughtEnd: Date? = nil) {
    guard let start = purchase.purchaseDate, let expires = purchase.expiresDate, start < expires else { return nil }
    let sale = purchase.sale
    product = purchase.productID
    transactionID = purchase.transactionID
    money = Money(of: purchase, terms)
    self.start = start
    self.expires = expires
    end = purchase.cancellationDate.map { max(start, min($0, expires)) } ?? expires
    days = Self.days(from: start, to: boughtEnd ?? expires)
    isTrial = purchase.isTrial
    isRefunded = purchase.isRefunded
    isTakenBack = purchase.cancellationDate != nil
    isBilledMonthly = sale?.terms?.isBilledMonthly == true
    isFullPrice = !purchase.isTrial && !purchase.isIntroductoryOffer && sale?.offerType == nil
    isRegular = isFullPrice && !purchase.originalTransactionID.isOfAnotherStore
  }

  private static func days(from start: Date, to end: Date) -> Int {
    max(1, Int((end.timeIntervalSince(start) / 86_400).rounded()))
  }

  /// Whether it was paid for in the grace period of the one before: it ends as if it had begun with the end of that. A period
  /// that is bought after a gap has its whole length.
  func isLate(after former: FigurePeriod) -> Bool {
    guard isRegular, !former.isTakenBack, former.end < start,
      start <= former.end.advanced(by: EntitlementPolicy.longestGrace)
    else { return false }
    let distance = BillingPeriod.distance(of: expires, from: former.end)
    return distance <= Self.tolerance && distance < BillingPeriod.distance(of: expires, from: start)
  }

  /// Apple counts months from the first one, so that those from the end of February are up to three days longer.
  private static let tolerance = 3 * 86_400.0

  /// Counts the length from an earlier day.
  mutating func begin(with day: Date) { days = Self.days(from: day, to: expires) }
}

/// The price of a purchase.
struct Money {
  /// Thousandths of the currency's unit; zero where no price is known.
  var amount: Int64 = 0
  var currency = ""
  /// The part of the amount that a refund gives back.
  var refunded: Int64 = 0

  /// The highest price that counts: a hundred million units, so that the sums of millions of subscriptions cannot overflow.
  private static let limit: Int64 = 100_000_000_000

  /// The price that the store reports, else the catalog's, if that has one currency.
  init(of purchase: Purchase, _ terms: [ProductID: Plans.Terms]) {
    let sale = purchase.sale
    if let price = sale?.price, let currency = sale?.currency {
      (amount, self.currency) = ((0...Self.limit).contains(price) ? price : 0, currency)
    } else if let prices = terms[purchase.productID]?.prices, prices.count == 1, let price = prices.first {
      currency = price.key
      if !purchase.isTrial { amount = price.value.milliunits }
    }
    refunded = sale?.refund(of: amount) ?? amount
  }

  /// The amount for a month of a period's length, in whole hundredths of the unit.
  ///
  /// https://www.revenuecat.com/docs/dashboard-and-metrics/charts/monthly-recurring-revenue-mrr-chart
  func monthly(_ period: BillingPeriod) -> Int64 {
    let (factor, divisor): (Int64, Int64) =
      switch (period.count, period.unit) {
      case (1, .day): (30, 1)
      case (3, .day): (10, 1)
      case (1, .week): (4, 1)
      case (2, .week): (2, 1)
      case (let months, .month): (1, Int64(months))
      case (1, .year): (1, 12)
      default: (28, Int64(period.days))
      }
    let product = amount * factor
    let unit = 10 * divisor
    return (product / unit + (product % unit * 2 >= unit ? 1 : 0)) * 10
  }
}

/// The sum of the counts of a subscription's payments and periods.
private struct FigureTally {
  /// The products with their currencies, each of day zero, and their counts by day: numbers are found faster than texts.
  private var names: [FigureKey] = []
  private var counts: [[Int: FigureCounts]] = []

  var figures: [FigureKey: FigureCounts] {
    var figures: [FigureKey: FigureCounts] = [:]
    for (name, days) in zip(names, counts) {
      for (day, counts) in days where !counts.isZero {
        figures[FigureKey(day: day, product: name.product, currency: name.currency)] = counts
      }
    }
    return figures
  }

  private mutating func add(_ figure: Figure, _ amount: Int64 = 1, on day: Int, _ product: ProductID, _ money: Money) {
    let name = FigureKey(day: 0, product: product.rawValue, currency: money.currency)
    let place = names.firstIndex(of: name) ?? names.count
    if place == names.count {
      names.append(name)
      counts.append([:])
    }
    counts[place][day, default: FigureCounts()][figure] += amount
  }

  mutating func pay(_ purchase: Purchase, _ money: Money) {
    guard let day = purchase.purchaseDate?.utcDay else { return }
    let product = purchase.productID
    add(.payments, on: day, product, money)
    add(.revenue, money.amount, on: day, product, money)
    guard purchase.isRefunded else { return }
    add(.refundedPayments, on: day, product, money)
    add(.refunds, money.refunded, on: day, product, money)
  }

  mutating func add(
    _ periods: [FigurePeriod], _ terms: [ProductID: Plans.Terms], isWhole: Bool, isPending: Bool,
    at evaluatedAt: Date
  ) {
    /// The days of each product's shortest period.
    var shortest: [ProductID: Int] = [:]
    for period in periods where period.isRegular && !period.isBilledMonthly {
      shortest[period.product] = min(shortest[period.product] ?? .max, period.days)
    }
    /// The paid period before, and the day on which it ends.
    var former: (product: ProductID, money: Money, end: Int)?
    for (index, period) in periods.enumerated() {
      let (product, money) = (period.product, period.money)
      let start = period.start.utcDay
      let end = (period.heldUntil ?? period.graceEnd ?? period.end).utcDay
      if period.isTrial {
        level(.trials, from: start, to: period.end.utcDay, product, money)
        add(.trialStarts, on: start, product, money)
        let next = periods[(index + 1)...].first { !$0.isTrial }
        if let next {
          if !next.isRefunded { add(.trialConversions, on: start, product, money) }
        } else if isPending, period.end > evaluatedAt {
          add(.trialsPending, on: start, product, money)
        }
        continue
      }
      let monthly = money.monthly(
        length(of: period, shortest[product], terms[product]?.period))
      level(.active, from: start, to: end, product, money)
      level(.mrr, monthly, from: start, to: end, product, money)
      if let graceEnd = period.graceEnd {
        level(.grace, from: period.end.utcDay, to: graceEnd.utcDay, product, money)
      }
      if let former {
        if start > former.end {
          add(.ended, on: former.end, former.product, former.money)
          add(.resubscribed, on: start, product, money)
        }
      } else {
        add(isWhole ? .new : .existing, on: start, product, money)
        add(isWhole ? .newMRR : .existingMRR, monthly, on: start, product, money)
      }
      former = (product, money, end)
    }
    if let former { add(.ended, on: former.end, former.product, former.money) }
  }

  /// The length by which a payment counts for a month. A late payment shortens the dates of its period, and an extension
  /// of Apple's lengthens them.
  ///
  /// A payment of a commitment that is billed by the month counts for a month. Else it is the catalog's, unless less than half of
  /// it was paid for at the App Store: a yearly subscription that is billed by the month. Else it is the shortest of the
  /// product's periods without an offer, as the length of Apple's that comes nearest, but for a whole year, which may follow
  /// months of the same product; an offer and another store have the length that was bought.
  private func length(of period: FigurePeriod, _ shortest: Int?, _ regular: BillingPeriod?) -> BillingPeriod {
    let dates = BillingPeriod(days: period.days)
    if period.isBilledMonthly { return BillingPeriod(count: 1, unit: .month) }
    if let regular, period.isFullPrice, !period.isRegular || period.days * 2 >= regular.days { return regular }
    guard period.isRegular else { return dates }
    return dates.unit == .year ? dates : BillingPeriod(ofApples: shortest ?? period.days)
  }

  private mutating func level(
    _ figure: Figure, _ amount: Int64 = 1, from start: Int, to end: Int, _ product: ProductID, _ money: Money
  ) {
    guard start < end else { return }
    add(figure, amount, on: start, product, money)
    add(figure, -amount, on: end, product, money)
  }
}

extension Purchase {
  /// Whether it was paid for, and not begun and ended at once.
  var isPayment: Bool {
    guard !isTrial, let purchaseDate else { return false }
    return expiresDate.map { purchaseDate < $0 } ?? true
  }

  /// Whether it names the ID that its subscription had before a migration.
  fileprivate var isMigrated: Bool { sale?.terms?.previousOriginalTransactionID != nil }

  /// An upgrade ends a period too, and Apple gives back what is left of it; RevenueCat counts no refund there.
  var isRefunded: Bool { cancellationDate != nil && !isUpgraded }
}
