import Access
import Entitlements
import LedgerFixtures
import SeededRandom
import Testing

@testable import AppStoreSimulator
@testable import Figures
@testable import Ledger

/// A population whose transactions come in other orders and by other ways: each day has the figures that an onlooker counts
/// who knows every transaction. `make cases` has three hundred customers.
@Suite struct FigureOrderTests {
  private static let horizon = MadeUpCustomer.start.adding(days: 322)
  private static let days = MadeUpCustomer.start.date.utcDay..<horizon.date.utcDay + 1
  private static let prices: [Product: Int64] = [
    .proMonthly: 9_990, .premiumMonthly: 19_990, .proYearly: 79_990, .forever: 149_990,
  ]

  private static let population: [EvidenceReporter] = {
    var chance = SeededRandom(seed: 47)
    return (0..<SeededRandom.cases(300)).map { number in
      var customer = MadeUpCustomer(&chance)
      // Every second refund is prorated.
      for run in customer.timeline.subscriptions.indices where number.isMultiple(of: 2) {
        for refund in customer.timeline.subscriptions[run].cancellations.indices {
          customer.timeline.subscriptions[run].cancellations[refund].percentage = 45_010
        }
      }
      return EvidenceReporter(
        customer: customer, firstID: 1_000 + 2_000 * number, prices: prices, isRestored: number % 3 == 1)
    }
  }()

  /// One arrival at the ledger.
  private struct Arrival {
    var report: EvidenceReporter.Report
    /// Apple's notification, and not what the owner presents or Apple answers.
    var isNotification = false
    var at: Timestamp

    init(_ report: EvidenceReporter.Report, isNotification: Bool = false, at: Timestamp? = nil) {
      self.report = report
      self.isNotification = isNotification
      self.at = at ?? report.at
    }
  }

  enum Order: String, CaseIterable {
    case byOwner = "by its owner"
    case notificationsFirst = "notifications first, the owner a month later"
    case newestFirst = "the newest signed transaction first"
    case historyLast = "the history last"
    case twice = "everything twice"
    case catalog = "another catalog"
  }

  private static func arrivals(
    of reporter: EvidenceReporter, _ order: Order, _ chance: inout SeededRandom
  ) -> [Arrival] {
    let notifications = reporter.notifications(through: horizon)
    guard let first = notifications.first else { return [] }
    let signed = notifications.map { report in
      var report = report
      for index in report.evidence.indices {
        report.evidence[index].renewals = []
        report.evidence[index].source = .signature
      }
      return report
    }
    // No answer names a grace period that is over.
    let graces = notifications.filter {
      $0.evidence.contains { !$0.renewals.compactMap(\.gracePeriodExpiresDate).isEmpty }
    }
    .map { reporter.snapshot(.statuses, at: $0.at) }
    let answer = reporter.snapshot(.statuses, at: horizon)
    let history = reporter.customer.state(at: horizon).rows.map { reporter.transaction($0, at: horizon) }
    switch order {
    case .byOwner:
      return [Arrival(signed[0])] + notifications.map { Arrival($0, isNotification: true) } + [Arrival(answer)]
    case .notificationsFirst:
      let month = min(first.at.adding(days: 30), horizon)
      return notifications.filter { $0.at <= month }.map { Arrival($0, isNotification: true) }
        + [Arrival(reporter.snapshot(.statuses, at: month))]
        + notifications.filter { $0.at > month }.map { Arrival($0, isNotification: true) } + [Arrival(answer)]
    case .newestFirst:
      return ([answer] + (signed + graces).reversed()).map { Arrival($0, at: horizon) }
    case .historyLast:
      return graces.map { Arrival($0) } + (history.shuffled(using: &chance) + [answer]).map { Arrival($0, at: horizon) }
    case .twice:
      let all =
        (notifications + graces).map { Arrival($0, isNotification: true, at: horizon) }
        + (signed + history + [answer, reporter.snapshot(.verifyReceipt, at: horizon.before)]).map {
          Arrival($0, at: horizon)
        }
      return all.shuffled(using: &chance) + all.shuffled(using: &chance)
    case .catalog:
      guard reporter.isRestored else { return arrivals(of: reporter, .byOwner, &chance) }
      return notifications.map { Arrival(reporter.snapshot(.verifyReceipt, at: $0.at)) }
        + [Arrival(reporter.snapshot(.verifyReceipt, at: horizon))]
    }
  }

  private static func terms(_ factor: Int64, _ currency: String, yearly: String?) -> [ProductID: Plans.Terms] {
    Dictionary(
      uniqueKeysWithValues: prices.map { product, price in
        (
          ProductID(product.id),
          Plans.Terms(
            period: product == .proYearly ? yearly.flatMap { BillingPeriod($0) } : nil,
            prices: [currency: Price(milliunits: price * factor)])
        )
      })
  }

  private static func record(_ arrival: Arrival, _ user: UserID, _ number: Int, in ledger: Ledger) async throws {
    let evidence = arrival.report.evidence
    guard arrival.isNotification else {
      guard !evidence.isEmpty else { return }
      _ = try await ledger.record(entry(user, evidence).with { $0.recordedAt = arrival.at.date })
      return
    }
    _ = try await ledger.run(
      NotificationEntry(
        uuid: "\(user.rawValue) \(number)", receivedAt: arrival.at.date, payload: "signed", evidence: evidence,
        evaluatedAt: arrival.report.at.date, rules: standIn))
  }

  private static let compared: [Figure] = [
    .payments, .revenue, .refundedPayments, .refunds, .new, .newMRR, .existing, .trials, .trialStarts,
    .trialConversions,
    .mrr, .active, .grace,
  ]

  @Test(arguments: Order.allCases)
  func `every day has the figures of an onlooker, in whatever order all came`(order: Order) async throws {
    try await Scratch.withLedger { ledger, _ in
      var chance = SeededRandom(seed: 1)
      var (terms, former) = (Self.terms(1, "USD", yearly: nil), [ProductID: Plans.Terms]())
      if order == .catalog {
        (terms, former) = (Self.terms(1, "USD", yearly: "P1Y"), Self.terms(2, "EUR", yearly: nil))
      }
      let first = order == .catalog ? former : terms
      try await ledger.beginFigures(first)
      var onlooker = Onlooker(days: Self.days)
      var arrived = 0
      for (number, reporter) in Self.population.enumerated() {
        let user = UserID("user-\(number)")
        let arrivals = Self.arrivals(of: reporter, order, &chance)
        for arrival in arrivals {
          arrived += 1
          try await Self.record(arrival, user, arrived, in: ledger)
          if arrived.isMultiple(of: 40) { _ = try await ledger.countPurchases(first, limit: 30) }
        }
        onlooker.look(
          at: reporter.customer, Self.prices, until: Self.horizon, seesParts: order != .catalog || !reporter.isRestored,
          seenAt: arrivals.first { !$0.isNotification && !$0.report.evidence.isEmpty }?.at)
      }
      if order == .catalog { try await ledger.beginFigures(terms) }
      while try await ledger.countPurchases(terms, limit: 100) > 0 {}
      let report = try await ledger.readLong(ReadFigures(over: FigureSpan(days: Self.days, grain: .day)))
      #expect(report.series.pending == 0)
      #expect(onlooker.transactions >= Self.population.count * 2)
      var differing: [String] = []
      for (period, expected) in zip(report.series.periods, onlooker.counts) {
        let day = period.days.lowerBound
        for figure in Self.compared where period.total[figure] != expected[figure] {
          differing.append(
            "day \(day - Self.days.lowerBound): \(figure) \(period.total[figure]), not \(expected[figure])")
        }
        for (step, users) in [(UserProgress.Step.users, onlooker.users), (.conversions, onlooker.conversions)]
        where report.funnel[day]?[step] ?? 0 != users[day] ?? 0 {
          differing.append(
            "day \(day - Self.days.lowerBound): \(step) \(report.funnel[day]?[step] ?? 0), not \(users[day] ?? 0)")
        }
      }
      #expect(differing == [])
    }
  }
}

/// The figures of customers by the definitions of docs/figures.md, each day for itself, by one who knows every transaction.
private struct Onlooker {
  let days: Range<Int>
  var counts: [FigureCounts]
  var users: [Int: Int64] = [:]
  var conversions: [Int: Int64] = [:]
  var transactions = 0

  init(days: Range<Int>) {
    self.days = days
    counts = days.map { _ in FigureCounts() }
  }

  private static func day(_ time: Timestamp) -> Int { Int(time.milliseconds / Timestamp.day) }

  private mutating func add(_ figure: Figure, _ amount: Int64 = 1, on day: Int) {
    if days.contains(day) { counts[day - days.lowerBound][figure] += amount }
  }

  private mutating func add(_ figure: Figure, _ amount: Int64 = 1, from start: Timestamp, to end: Timestamp) {
    for day in Self.day(start)..<max(Self.day(start), Self.day(end)) { add(figure, amount, on: day) }
  }

  /// - Parameters:
  ///   - seesParts: whether anybody tells how much of a price a refund gives back.
  ///   - seenAt: when the service first saw the user.
  mutating func look(
    at customer: MadeUpCustomer, _ prices: [Product: Int64], until now: Timestamp, seesParts: Bool, seenAt: Timestamp?
  ) {
    let rows = customer.state(at: now).rows.filter { customer.isProduction && !$0.isFamilyShared }
    for slot in Set(rows.map(\.slot)) {
      look(
        at: rows.filter { $0.slot == slot }.sorted { $0.purchasedAt < $1.purchasedAt }, customer, prices, now, seesParts
      )
    }
    guard customer.isProduction, let seenAt else { return }
    let paid = rows.filter { !$0.isTrial }.map(\.purchasedAt).min().map(Self.day)
    let seen = Self.day(seenAt)
    guard paid.map({ $0 >= seen }) ?? true else { return }
    users[seen, default: 0] += 1
    if paid != nil { conversions[seen, default: 0] += 1 }
  }

  private mutating func look(
    at rows: [CustomerState.Row], _ customer: MadeUpCustomer, _ prices: [Product: Int64], _ now: Timestamp,
    _ seesParts: Bool
  ) {
    transactions += rows.count
    let paid = rows.filter { !$0.isTrial }
    for row in paid {
      let (day, price) = (Self.day(row.purchasedAt), prices[row.product] ?? 0)
      add(.payments, on: day)
      add(.revenue, price, on: day)
      guard row.cancelledAt != nil, !row.isUpgraded else { continue }
      let part = (seesParts ? row.cancellationPercentage : nil) ?? 100_000
      add(.refundedPayments, on: day)
      add(.refunds, (price * Int64(part) + 50_000) / 100_000, on: day)
    }
    for (index, row) in rows.enumerated() {
      guard let expires = row.expiresAt else { continue }
      let next = index + 1 < rows.count ? rows[index + 1] : nil
      let end = [expires, row.cancelledAt, next?.purchasedAt].compactMap(\.self).min() ?? expires
      if row.isTrial {
        add(.trials, from: row.purchasedAt, to: end)
        add(.trialStarts, on: Self.day(row.purchasedAt))
        if let first = paid.first, first.cancelledAt == nil || first.isUpgraded {
          add(.trialConversions, on: Self.day(row.purchasedAt))
        }
        continue
      }
      let price = prices[row.product] ?? 0
      // In whole cents; halves are rounded up.
      let monthly = row.product == .proYearly ? (price / 12 + 5) / 10 * 10 : price
      add(.active, from: row.purchasedAt, to: end)
      add(.mrr, monthly, from: row.purchasedAt, to: end)
      var grace =
        next == nil && end <= now ? customer.state(at: end).renewals.first { $0.slot == row.slot }?.graceUntil : nil
      // Paid for in the grace period.
      if let next,
        customer.timeline.subscriptions.contains(where: {
          $0.slot == row.slot && $0.firstNumber == next.number && $0.chargedAt != nil
        })
      {
        grace = next.purchasedAt
      }
      if row.cancelledAt == nil, let grace {
        add(.active, from: end, to: grace)
        add(.grace, from: end, to: grace)
        add(.mrr, monthly, from: end, to: grace)
      }
      if row == paid.first {
        add(.new, on: Self.day(row.purchasedAt))
        add(.newMRR, monthly, on: Self.day(row.purchasedAt))
      }
    }
  }
}
