import Access
import Entitlements
import Foundation
import LedgerFixtures
import SeededRandom
import Testing

@testable import Figures
@testable import Ledger

/// The contribution of one subscription to the figures.
@Suite(.computing) struct FigureTests {
  /// 2026-01-01.
  private static let first = 20_454

  private static func date(_ day: Double) -> Date { Date(timeIntervalSince1970: (Double(first) + day) * 86_400) }

  private static func period(
    _ from: Double, _ to: Double, _ product: ProductID = "pro", price: Int64? = 9_990
  ) -> Purchase {
    Purchase(
      productID: product, transactionID: TransactionID("\(from)"), originalTransactionID: "1",
      purchaseDate: date(from), expiresDate: date(to), sale: price.flatMap { .init(price: $0, currency: "USD") })
  }

  /// The first of the purchases is the subscription's.
  private static func evidence(
    _ purchases: [Purchase], _ renewals: [RenewalInfo] = [], _ environment: StoreEnvironment = .production
  ) -> SubscriptionEvidence {
    var purchases = purchases
    if !purchases.isEmpty { purchases[0].isFirst = true }
    return SubscriptionEvidence(
      key: SubscriptionKey(environment: environment, originalTransactionID: "1"), source: .verifyReceipt,
      evidenceTime: date(0), evaluatedAt: date(0), purchases: purchases, renewals: renewals)
  }

  /// The figures of the first days, without the prices of a catalog.
  private static func series(_ evidence: SubscriptionEvidence, days: Int = 90) -> FigureSeries {
    let figures = evidence.figures([:])
    return FigureSeries(FigureSpan(days: first..<first + days, grain: .day), pending: 0) { grain, days, _ in
      grain == .month ? [:] : figures.filter { days.contains($0.key.day) }
    }
  }

  private static func days(_ figure: Figure, _ series: FigureSeries) -> [Int: Int64] {
    var days: [Int: Int64] = [:]
    for period in series.periods where period.total[figure] != 0 {
      days[period.days.lowerBound - first] = period.total[figure]
    }
    return days
  }

  @Test func `a subscription is active from its first day to the one before its end`() {
    let series = Self.series(Self.evidence([Self.period(0.5, 31.5), Self.period(31.5, 59.5)]))
    #expect(Set(Self.days(.active, series).keys) == Set(0..<59))
    #expect(Self.days(.mrr, series)[0] == 9_990)
    #expect(Self.days(.new, series) == [0: 1])
    #expect(Self.days(.ended, series) == [59: 1])
    #expect(Self.days(.payments, series) == [0: 1, 31: 1])
    #expect(Self.days(.revenue, series) == [0: 9_990, 31: 9_990])
  }

  @Test(arguments: [
    (1, 299_700), (3, 99_900), (7, 39_960), (14, 19_980), (28, 9_990), (31, 9_990), (61, 5_000), (92, 3_330),
    (183, 1_670), (365, 830), (366, 830), (56, 5_000),
  ])
  func `the monthly part of 9.99 depends on the length, in whole cents`(days: Int, monthly: Int64) {
    var purchase = Self.period(0, Double(days))
    purchase.originalTransactionID = "play_store:GPA.1"
    let series = Self.series(Self.evidence([purchase]), days: 1)
    #expect(series.periods.first?.counts["USD"]?[.mrr] == monthly)
  }

  @Test func `an early end at another store changes no monthly part`() {
    var purchase = Self.period(0, 1)
    purchase.originalTransactionID = "play_store:GPA.1"
    var evidence = Self.evidence([purchase])
    let key = FigureKey(day: Self.first, product: "pro", currency: "USD")
    let month: [ProductID: Plans.Terms] = ["pro": .init(period: BillingPeriod(count: 1, unit: .month))]
    #expect(evidence.figures(month)[key]?[.mrr] == 9_990)
    evidence.boughtEnds = [purchase.transactionID: Self.date(31)]
    let counts = evidence.figures([:])[key]
    #expect(counts?[.mrr] == 9_990 && counts?[.newMRR] == 9_990)
    #expect(Set(Self.days(.active, Self.series(evidence)).keys) == [0])
    #expect(evidence.billingPeriods.map { $0.period.text } == ["P1M"])
    // An offer counts by its dates, also there.
    evidence.purchases[0].isIntroductoryOffer = true
    evidence.boughtEnds = [purchase.transactionID: Self.date(7)]
    #expect(evidence.figures(month)[key]?[.mrr] == 39_960)
  }

  @Test func `a late payment, or an extension, counts by the regular length`() {
    func recurring(
      _ purchases: [Purchase], _ period: BillingPeriod? = nil, on day: Int = 0
    ) -> Int64? {
      let terms: [ProductID: Plans.Terms] = period.map { ["pro": .init(period: $0)] } ?? [:]
      var sum: Int64 = 0
      for (key, counts) in Self.evidence(purchases).figures(terms) where key.day <= Self.first + day {
        sum += counts[.mrr]
      }
      return sum
    }
    let (month, year) = (BillingPeriod(count: 1, unit: .month), BillingPeriod(count: 1, unit: .year))
    #expect(recurring([Self.period(5, 31)], on: 5) == 9_990)
    #expect(recurring([Self.period(5, 31)], month, on: 5) == 9_990)
    #expect(recurring([Self.period(0, 121)], month) == 9_990)
    #expect(recurring([Self.period(0, 121)]) == 3_330)
    #expect(recurring([Self.period(0, 121), Self.period(121, 152)]) == 9_990)
    #expect(recurring([Self.period(20, 365)], on: 20) == 830)
    // Half of the month is over, as the dates alone tell by the period before; another product's will do.
    let late = [Self.period(0, 31), Self.period(46, 59)]
    #expect(recurring(late, on: 46) == 9_990)
    #expect(recurring([Self.period(0, 31, "max"), Self.period(46, 59)], on: 46) == 9_990)
    let series = Self.series(Self.evidence(late))
    #expect(Set(Self.days(.active, series).keys) == Set(0..<59))
    #expect(Set(Self.days(.grace, series).keys) == Set(31..<46))
    #expect(Self.days(.ended, series) == [59: 1] && Self.days(.resubscribed, series).isEmpty)
    #expect(recurring([Self.period(0, 31), Self.period(46, 53)], on: 46) == 39_960)
    // A year that is billed by the month.
    #expect(recurring([Self.period(0, 31)], year) == 9_990)
    // A year that was billed by the month, and then is paid for at once.
    #expect(recurring([Self.period(0, 31), Self.period(31, 396)], on: 31) == 830)
    // A commitment says so itself, and a payment that came late counts as the others do.
    var payment = Self.period(20, 31)
    var monthly = Purchase.Terms()
    monthly.billingPlan = "MONTHLY"
    payment.sale?.terms = monthly
    #expect(recurring([payment], year, on: 20) == 9_990 && recurring([payment], on: 20) == 9_990)
    #expect(Self.evidence([payment]).billingPeriods.isEmpty)
    // A quarter that is paid for at once, as an offer.
    var offer = Self.period(0, 90)
    offer.isIntroductoryOffer = true
    #expect(recurring([offer], month) == 3_330)
  }

  @Test func `a migrated subscription goes on, and its running period is paid for once`() {
    func migrated(_ from: Double, _ to: Double) -> Purchase {
      var purchase = Self.period(from, to)
      var terms = Purchase.Terms()
      terms.previousOriginalTransactionID = "0"
      purchase.sale?.terms = terms
      return purchase
    }
    let whole = Self.series(Self.evidence([Self.period(0, 31), migrated(10, 31), migrated(31, 59)]))
    #expect(Self.days(.payments, whole) == [0: 1, 31: 1] && Self.days(.new, whole) == [0: 1])
    #expect(Set(Self.days(.active, whole).keys) == Set(0..<59) && Self.days(.ended, whole) == [59: 1])
    // Of one that is known from the migration on, the first payment is not.
    var first = migrated(10, 31)
    first.transactionID = "1"
    var evidence = Self.evidence([first])
    evidence.purchases[0].isFirst = false
    let later = Self.series(evidence)
    #expect(Self.days(.existing, later) == [10: 1] && Self.days(.new, later).isEmpty)
  }

  @Test func `a trial is no subscription until it is paid for`() {
    var trial = Self.period(0, 7, price: 0)
    trial.isTrial = true
    let alone = Self.series(Self.evidence([trial], [RenewalInfo(autoRenews: true)]))
    #expect(Set(Self.days(.trials, alone).keys) == Set(0..<7))
    #expect(Self.days(.active, alone).isEmpty)
    #expect(Self.days(.payments, alone).isEmpty)
    #expect(Self.days(.trialsPending, alone) == [0: 1])
    #expect(alone.trialConversion == 0)

    let paid = Self.series(Self.evidence([trial, Self.period(7, 38)]))
    #expect(Self.days(.new, paid) == [7: 1])
    #expect(Self.days(.trialConversions, paid) == [0: 1])
    #expect(paid.trialConversion == 1)

    var refunded = Self.period(7, 38)
    refunded.cancellationDate = Self.date(8)
    #expect(Self.series(Self.evidence([trial, refunded])).trialConversion == 0)
  }

  @Test func `a refund ends the period, and counts on the day of the payment`() {
    var purchase = Self.period(0, 31)
    purchase.cancellationDate = Self.date(10)
    let series = Self.series(Self.evidence([purchase]))
    #expect(Set(Self.days(.active, series).keys) == Set(0..<10))
    #expect(Self.days(.refunds, series) == [0: 9_990])
    #expect(series.refundRate == 1)
    // A part of a cent is none.
    purchase.sale?.revocationPercentage = 45_010
    #expect(Self.days(.refunds, Self.series(Self.evidence([purchase]))) == [0: 4_496])
    purchase.sale?.revocationPercentage = nil
    purchase.isUpgraded = true
    let upgraded = Self.series(Self.evidence([purchase, Self.period(10, 41, "max", price: 19_990)]))
    #expect(Self.days(.refunds, upgraded).isEmpty)
    #expect(Self.days(.ended, upgraded) == [41: 1])
    #expect(Self.days(.mrr, upgraded)[9] == 9_990)
    #expect(Self.days(.mrr, upgraded)[10] == 19_990)
  }

  @Test func `a grace period is active too, and a gap is an end and a return`() {
    let grace = Self.evidence([Self.period(0, 31)], [RenewalInfo(gracePeriodExpiresDate: Self.date(47))])
    #expect(Set(Self.days(.active, Self.series(grace)).keys) == Set(0..<47))
    #expect(Set(Self.days(.grace, Self.series(grace)).keys) == Set(31..<47))

    // Over, and no answer names it any more.
    var over = Self.evidence([Self.period(0, 31)])
    over.grace = KnownGrace(until: Self.date(47), overAt: Self.date(40))
    #expect(Set(Self.days(.active, Self.series(over)).keys) == Set(0..<40))
    over.grace = KnownGrace(until: Self.date(31))
    #expect(Self.days(.grace, Self.series(over)).isEmpty)

    let gap = Self.series(Self.evidence([Self.period(0, 31), Self.period(40, 71)]))
    #expect(Self.days(.ended, gap) == [31: 1, 71: 1])
    #expect(Self.days(.resubscribed, gap) == [40: 1])
    #expect(Self.days(.new, gap) == [0: 1])
  }

  @Test func `a subscription that said that it renews ends a week late while nobody could ask`() {
    func active(_ renewal: RenewalInfo, askedOn day: Double) -> Set<Int> {
      var evidence = Self.evidence([Self.period(0, 31)], [renewal])
      evidence.evaluatedAt = Self.date(day)
      let series = Self.series(evidence)
      let days = Set(Self.days(.active, series).keys)
      #expect(Self.days(.ended, series) == [days.count: 1])
      return days
    }
    #expect(active(RenewalInfo(autoRenews: true), askedOn: 30.9) == Set(0..<38))
    #expect(active(RenewalInfo(autoRenews: true), askedOn: 31) == Set(0..<31))
    #expect(active(RenewalInfo(autoRenews: false), askedOn: 1) == Set(0..<31))
    let grace = RenewalInfo(autoRenews: true, gracePeriodExpiresDate: Self.date(47))
    #expect(active(grace, askedOn: 40) == Set(0..<54))
    #expect(active(grace, askedOn: 47) == Set(0..<47))
  }

  @Test func `the app's own trial counts as one of the App Store's, and the first payment ends it`() {
    func counts(_ purchases: [Purchase], isRunning: Bool = false) -> [Figure: [Int: Int64]] {
      let trial = AppTrial(name: "week", startsAt: Self.date(3.5), endsAt: Self.date(10.5), isRunning: isRunning)
      var counts: [Figure: [Int: Int64]] = [:]
      for (key, day) in trial.figures([Self.evidence(purchases)]) {
        #expect(key.product == "$trial:week" && key.currency == "")
        for figure in Figure.allCases where day[figure] != 0 {
          counts[figure, default: [:]][key.day - Self.first] = day[figure]
        }
      }
      return counts
    }
    #expect(counts([]) == [.trials: [3: 1, 10: -1], .trialStarts: [3: 1]])
    #expect(counts([], isRunning: true) == [.trials: [3: 1, 10: -1], .trialStarts: [3: 1], .trialsPending: [3: 1]])
    let paid: [Figure: [Int: Int64]] = [.trials: [3: 1, 5: -1], .trialStarts: [3: 1], .trialConversions: [3: 1]]
    #expect(counts([Self.period(5, 36)], isRunning: true) == paid)
    // Late, and before it.
    #expect(counts([Self.period(40, 71)])[.trialConversions] == [3: 1])
    #expect(counts([Self.period(3, 34)])[.trialConversions] == nil)
    var refunded = Self.period(5, 36)
    refunded.cancellationDate = Self.date(6)
    // It goes on after a refund, and beside a lower subscription that renews.
    let pending = counts([], isRunning: true)
    #expect(counts([refunded], isRunning: true) == pending)
    #expect(counts([Self.period(0, 5), Self.period(5, 36)], isRunning: true) == pending)
    #expect(counts([Self.period(0, 5), Self.period(5, 36, "premium")], isRunning: true) == paid)
  }

  @Test func `the app's own trial is not converted by a subscription that is first seen at a renewal`() {
    let trial = AppTrial(name: "week", startsAt: Self.date(3.5), endsAt: Self.date(10.5), isRunning: false)
    var renewal = Self.evidence([Self.period(5, 36)])
    renewal.purchases[0].isFirst = false
    let figures = trial.figures([renewal])
    #expect(figures.values.allSatisfy { $0[.trialConversions] == 0 })
    #expect(figures[FigureKey(day: Self.first + 10, product: "$trial:week", currency: "")]?[.trials] == -1)
  }

  /// Apple signs single transactions, and answers the last one of a subscription; so does a receipt of iOS 6's style.
  @Test(arguments: [EvidenceSource.serverAPI, .signature, .notification, .verifyReceipt])
  func `a subscription that is first seen at a renewal is not new`(source: EvidenceSource) {
    func told(_ purchases: [Purchase]) -> SubscriptionEvidence {
      var evidence = Self.evidence(purchases)
      evidence.source = source
      evidence.purchases = purchases
      return evidence
    }
    let renewal = told([Self.period(31, 62), Self.period(62, 92)])
    let known = Self.series(renewal)
    #expect(Self.days(.existing, known) == [31: 1])
    #expect(known.flow(.existingMRR) == 9_990)
    #expect(known.flow(.new) == 0 && known.flow(.newMRR) == 0)
    #expect(Self.days(.payments, known) == [31: 1, 62: 1])
    #expect(renewal.figures([:]).cohort.isEmpty)

    var first = Self.period(0, 31)
    first.transactionID = "1"
    var trial = Self.period(0, 31, price: 0)
    trial.isTrial = true
    var offer = Self.period(0, 31)
    offer.isIntroductoryOffer = true
    var dated = Self.period(0, 31)
    dated.isFirst = true
    for (start, day) in [(first, 0), (trial, 31), (offer, 0), (dated, 0)] {
      let evidence = told([Self.period(31, 62), start])
      #expect(Self.days(.new, Self.series(evidence)) == [day: 1])
      #expect(Self.series(evidence).flow(.existing) == 0)
      #expect(!evidence.figures([:]).cohort.isEmpty)
    }
    // A renewal that came back after a gap is no first payment either.
    let gap = Self.series(told([Self.period(31, 62), Self.period(70, 101)]))
    #expect(Self.days(.resubscribed, gap) == [70: 1] && Self.days(.existing, gap) == [31: 1])
  }

  @Test(arguments: [EvidenceSource.serverAPI, .verifyReceipt])
  func `transactions that the evidence no longer has are counted, each once`(source: EvidenceSource) {
    var evidence = Self.evidence([Self.period(31, 62)])
    evidence.source = source
    evidence.purchases[0].webOrderLineItemID = "7"
    var (first, restored) = (Self.period(0, 31), Self.period(31, 62))
    (first.transactionID, restored.transactionID, restored.webOrderLineItemID) = ("1", "99", "7")
    #expect(evidence.including(past: [restored]).purchases.count == 1)
    // The price that one report tells is that of both, and what Apple said last of them stands.
    var refunded = restored
    (evidence.purchases[0].sale, refunded.cancellationDate, refunded.reportedAt) = (nil, Self.date(40), Self.date(41))
    let known = Self.evidence(evidence.purchases + [refunded]).including(past: [])
    evidence.coverage = .partial(since: Self.date(0))
    evidence.purchases.append(refunded)
    #expect(known.purchases.map(\.sale?.price) == [9_990])
    #expect(evidence.including(past: [restored]).purchases.map(\.cancellationDate) == [Self.date(40)])
    evidence.purchases.removeLast()
    evidence.purchases[0].sale = restored.sale
    let series = Self.series(evidence.including(past: [first, Self.period(31, 62)]))
    #expect(Self.days(.payments, series) == [0: 1, 31: 1])
    #expect(Self.days(.new, series) == [0: 1])
  }

  @Test func `the sandbox, family sharing, and what is not confirmed count nothing`() {
    #expect(Self.evidence([Self.period(0, 31)], [], .sandbox).figures([:]).isEmpty)
    var shared = Self.period(0, 31)
    shared.ownership = .familyShared
    #expect(Self.evidence([shared]).figures([:]).isEmpty)
    var provisional = Self.evidence([Self.period(0, 31)])
    provisional.provisionalUntil = Self.date(1)
    #expect(provisional.figures([:]).isEmpty)
    #expect(Self.evidence([Self.period(5, 5)]).figures([:]).isEmpty)
  }

  @Test(arguments: [-1, 100_000_000_001, Int64.max, Int64.min])
  func `a price that can be none counts as nothing`(price: Int64) {
    let series = Self.series(Self.evidence([Self.period(0, 31, price: price)]))
    #expect(series.periods.first?.counts["USD"]?[.active] == 1)
    #expect(series.periods.first?.counts["USD"]?[.mrr] == 0)
    #expect(series.flow(.revenue) == 0)
  }

  @Test func `a promotion of RevenueCat's counts nothing, a purchase at another store does`() {
    func evidence(_ id: OriginalTransactionID) -> SubscriptionEvidence {
      var evidence = Self.evidence([Self.period(0, 31)])
      evidence.key = SubscriptionKey(environment: .production, originalTransactionID: id)
      return evidence
    }
    #expect(evidence("promotional:1").figures([:]).isEmpty)
    #expect(!evidence("play_store:GPA.1").figures([:]).isEmpty)
  }

  @Test func `a price that no receipt tells is the catalog's, if that has one`() throws {
    let evidence = Self.evidence([Self.period(0, 31, price: nil)])
    let price = try #require(Price("4.99"))
    let one = evidence.figures(["pro": .init(prices: ["EUR": price])])
    #expect(one[FigureKey(day: Self.first, product: "pro", currency: "EUR")]?[.mrr] == 4_990)
    let two = evidence.figures(["pro": .init(prices: ["EUR": price, "USD": price])])
    #expect(two[FigureKey(day: Self.first, product: "pro", currency: "")]?[.active] == 1)
  }

  /// A population over twenty-four months with trials, refunds, grace periods, gaps and upgrades, counted day by day without
  /// any of the shortcuts. `make cases` has a hundred thousand of them.
  @Test func `the figures of a population are those of a naive count, to the cent`() {
    let count = SeededRandom.cases(100_000) == 100_000 ? 100_000 : 1_500
    let length = 730
    var random = SeededRandom(seed: 22)
    var sums: [FigureKey: FigureCounts] = [:]
    var naive = Array(repeating: FigureCounts(), count: length)
    var cohorts: [FigureCohort.Key: Int64] = [:]
    var naiveCohorts: [Int: [Int: Int64]] = [:]
    for _ in 0..<count {
      let subscription = Subscription(&random, days: length)
      let counts = subscription.evidence.figures([:])
      for (key, counts) in counts { sums[key, default: FigureCounts()] += counts }
      for (key, change) in counts.cohort { cohorts[key, default: 0] += change }
      subscription.count(into: &naive)
      subscription.count(into: &naiveCohorts)
    }
    var monthly: [FigureKey: FigureCounts] = [:]
    for (key, counts) in sums {
      var date = CalendarDay(since1970: key.day)
      date.day = 1
      monthly[FigureKey(day: date.daysSince1970, product: key.product, currency: key.currency), default: .init()] +=
        counts
    }
    func series(_ days: Range<Int>, _ grain: FigureGrain) -> FigureSeries {
      FigureSeries(FigureSpan(days: days, grain: grain), pending: 0) { grain, days, _ in
        (grain == .day ? sums : monthly).filter { days.contains($0.key.day) }
      }
    }
    var differences = 0
    for start in stride(from: 0, to: length, by: 73) {
      let days = Self.first + start..<Self.first + start + 73
      for (offset, period) in series(days, .day).periods.enumerated() where period.total != naive[start + offset] {
        differences += 1
      }
    }
    #expect(differences == 0)
    #expect(naive.contains { $0[.grace] > 0 } && naive.contains { $0[.resubscribed] > 0 })

    // The number of active ones changes by the flows alone.
    for (day, counts) in naive.enumerated() {
      let before = day > 0 ? naive[day - 1][.active] : 0
      let came = counts[.new] + counts[.existing] + counts[.resubscribed]
      #expect(counts[.active] - before == came - counts[.ended])
    }

    // By month: levels of the last day, and the sum of what happened.
    let months = series(Self.first + 14..<Self.first + 700, .month)
    let byMonth = months.periods
    #expect(byMonth.count == 24)
    for period in byMonth {
      let days = naive[(period.days.lowerBound - Self.first)..<(period.days.upperBound - Self.first)]
      for figure in Figure.allCases {
        let expected = figure.isLevel ? days.last?[figure] : days.reduce(0) { $0 + $1[figure] }
        #expect(period.total[figure] == expected)
      }
    }
    // The first month and the last are no whole ones.
    let told = months.cohorts(cohorts)
    #expect(told.count == 22 && told.map(\.active.count) == (1...22).reversed())
    for (index, cohort) in told.enumerated() {
      let expected = (0..<22 - index).map { naiveCohorts[index + 1]?[index + 1 + $0] ?? 0 }
      #expect(cohort.active == expected)
      #expect(cohort.subscriptions >= cohort.active.first ?? 0)
    }
    // Products, and the levels from before, over spans that begin and end anywhere in a month.
    for (start, end) in [(0, 92), (14, 45), (17, 700), (20, 46), (31, 59), (45, 46), (58, 110), (75, 167)] {
      let days = Self.first + start..<Self.first + end
      var products: [String: [String: FigureCounts]] = [:]
      var before: [String: FigureCounts] = [:]
      for (key, counts) in sums where key.day < days.upperBound {
        for figure in Figure.allCases where figure.isLevel || key.day >= days.lowerBound {
          products[key.product, default: [:]][key.currency, default: FigureCounts()][figure] += counts[figure]
          guard key.day < days.lowerBound else { continue }
          before[key.currency, default: FigureCounts()][figure] += counts[figure]
        }
      }
      let series = series(days, .day)
      #expect(series.products == products.mapValues { $0.filter { !$0.value.isZero } }.filter { !$0.value.isEmpty })
      #expect(series.before == before.filter { !$0.value.isZero })
    }
    // The sums over products and cycles are those of the whole.
    let lengths = months.cycles(["m": "P1M", "y": "P1Y"])
    #expect(lengths.values.reduce(0) { $0 + ($1["USD"]?[.revenue] ?? 0) } == months.flow(.revenue))
    #expect(lengths.values.reduce(0) { $0 + ($1["USD"]?[.mrr] ?? 0) } == byMonth.last?.total[.mrr])
  }
}

/// A subscription in whole days since 2026-01-01, and what it is counted as by whoever looks at each day.
private struct Subscription {
  struct Span {
    var start: Int
    /// The end that was bought, and the last day with access, exclusive.
    var expires: Int
    var end: Int
    var isTrial = false
    var isRefunded = false
    var isUpgraded = false
    var product: ProductID
    var price: Int64
    var isAnnual: Bool

    var monthly: Int64 { isTrial ? 0 : isAnnual ? (price / 12 + 5) / 10 * 10 : price }
  }

  var spans: [Span] = []
  var graceEnd: Int?
  /// Whether the first transaction has the ID of the subscription.
  var isKnownFromStart = true

  init(_ random: inout SeededRandom, days: Int) {
    var day = Int.random(in: 0..<days - 60, using: &random)
    isKnownFromStart = Int.random(in: 0..<5, using: &random) > 0
    var isAnnual = Int.random(in: 0..<4, using: &random) == 0
    if Int.random(in: 0..<3, using: &random) == 0 {
      spans.append(
        Span(start: day, expires: day + 7, end: day + 7, isTrial: true, product: "m", price: 0, isAnnual: false))
      day += 7
      if Bool.random(using: &random) { return }
    }
    while day < days {
      let first = Date(timeIntervalSince1970: Double(20_454 + day) * 86_400)
      let length = BillingPeriod(count: 1, unit: isAnnual ? .year : .month).end(from: first).utcDay - first.utcDay
      var span = Span(
        start: day, expires: day + length, end: day + length, product: isAnnual ? "y" : "m",
        price: isAnnual ? 79_990 : 9_990, isAnnual: isAnnual)
      switch Int.random(in: 0..<40, using: &random) {
      case 0:
        span.isRefunded = true
        span.end = day + Int.random(in: 1..<20, using: &random)
        spans.append(span)
        return
      case 1 where !isAnnual:
        (span.isUpgraded, span.end, isAnnual) = (true, day + Int.random(in: 1..<29, using: &random), true)
        spans.append(span)
        day = span.end
      case 2, 3:
        spans.append(span)
        return
      case 4:
        spans.append(span)
        graceEnd = span.end + 16
        return
      case 5:
        spans.append(span)
        day = span.end + Int.random(in: 1..<60, using: &random)
      default:
        spans.append(span)
        day = span.end
      }
    }
  }

  private var isNew: Bool { isKnownFromStart || spans.first?.isTrial == true }

  var evidence: SubscriptionEvidence {
    func date(_ day: Int) -> Date { Date(timeIntervalSince1970: Double(20_454 + day) * 86_400 + 40_000) }
    return SubscriptionEvidence(
      key: SubscriptionKey(environment: .production, originalTransactionID: "1"), source: .serverAPI,
      evidenceTime: date(2_000), evaluatedAt: date(2_000),
      purchases: spans.map { span in
        Purchase(
          productID: span.product,
          transactionID: isKnownFromStart && span.start == spans.first?.start ? "1" : TransactionID("t\(span.start)"),
          originalTransactionID: "1", purchaseDate: date(span.start), expiresDate: date(span.expires),
          cancellationDate: span.isRefunded || span.isUpgraded ? date(span.end) : nil, isUpgraded: span.isUpgraded,
          isTrial: span.isTrial, sale: .init(price: span.price, currency: "USD"))
      }.reversed(), renewals: [RenewalInfo(gracePeriodExpiresDate: graceEnd.map(date))])
  }

  /// Counts, by the month of the first payment and by each month since 2026-01, whether the last day of that was paid for.
  func count(into cohorts: inout [Int: [Int: Int64]]) {
    /// The first days of the months, since 2026-01-01.
    let firsts = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
    let months = firsts + firsts.map { $0 + 365 } + [730]
    let paid = spans.filter { !$0.isTrial }
    guard isNew, let start = paid.first, let month = months.lastIndex(where: { $0 <= start.start }) else { return }
    for index in month..<24 {
      let last = months[index + 1] - 1
      guard paid.contains(where: { $0.start <= last && last < $0.end }) else { continue }
      cohorts[month, default: [:]][index, default: 0] += 1
    }
  }

  func count(into days: inout [FigureCounts]) {
    func happened(_ figure: Figure, _ amount: Int64 = 1, on day: Int) {
      if days.indices.contains(day) { days[day][figure] += amount }
    }
    for day in days.indices {
      if spans.contains(where: { $0.isTrial && $0.start <= day && day < $0.end }) { days[day][.trials] += 1 }
      let inGrace = graceEnd.map { end in spans.last.map { $0.end <= day && day < end } ?? false } ?? false
      if inGrace { days[day][.grace] += 1 }
      let span = inGrace ? spans.last : spans.first { !$0.isTrial && $0.start <= day && day < $0.end }
      if let span {
        days[day][.active] += 1
        days[day][.mrr] += span.monthly
      }
    }
    let paid = spans.filter { !$0.isTrial }
    for span in paid {
      happened(.payments, on: span.start)
      happened(.revenue, span.price, on: span.start)
      if span.isRefunded {
        happened(.refundedPayments, on: span.start)
        happened(.refunds, span.price, on: span.start)
      }
    }
    if let first = paid.first {
      happened(isNew ? .new : .existing, on: first.start)
      happened(isNew ? .newMRR : .existingMRR, first.monthly, on: first.start)
    }
    for (one, next) in zip(paid, paid.dropFirst()) where next.start > one.end {
      happened(.ended, on: one.end)
      happened(.resubscribed, on: next.start)
    }
    if let last = paid.last { happened(.ended, on: graceEnd ?? last.end) }
    for trial in spans where trial.isTrial {
      happened(.trialStarts, on: trial.start)
      if let first = paid.first, !first.isRefunded { happened(.trialConversions, on: trial.start) }
    }
  }
}
