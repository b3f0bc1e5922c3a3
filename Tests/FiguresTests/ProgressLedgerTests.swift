import Access
import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Figures
@testable import Ledger

/// Conversion, funnel, retention, limits and attempts as the ledger keeps them up.
@Suite struct ProgressLedgerTests {
  private static let day = at(0).utcDay
  private static let children = Feature(
    name: "children", kind: .limit, values: ["free": .limit(2), "pro": .limit(10)], tiers: ["free", "pro"])

  private static func days(_ count: Double) -> TimeInterval { count * 86_400 }

  private static func paid(_ id: String, from: Double, days: Double) -> SubscriptionEvidence {
    var one = evidence(id, time: from * 86_400, begin: from * 86_400, expires: (from + days) * 86_400)
    one.purchases[0].sale = .init(price: 4_990, currency: "USD")
    one.renewals = []
    return one
  }

  private static func event(_ user: UserID, _ type: String, day: Double) -> AppEvent {
    AppEvent(user: user, type: type, at: at(day * 86_400), properties: "{}")
  }

  private static func report(_ ledger: Ledger, days: Int = 40) async throws -> FigureReport {
    while try await ledger.countLimits([children], limit: 1) > 0 {}
    while try await ledger.countPurchases([:], limit: 50) > 0 {}
    return try await ledger.readLong(ReadFigures(over: FigureSpan(days: day..<day + days, grain: .day)))
  }

  /// The counts of trials that are not zero, once nothing waits to be counted.
  private static func trials(_ ledger: Ledger) async throws -> [Figure: Int64] {
    let series = try await report(ledger).series
    #expect(series.pending == 0)
    return [Figure.trialStarts, .trialConversions, .trialsPending].reduce(into: [:]) { sums, figure in
      let sum = series.flow(figure)
      if sum != 0 { sums[figure] = sum }
    }
  }

  @Test func `users come, see a paywall and pay, and each counts once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.record(
        [
          Self.event("anna", "opened", day: 1), Self.event("anna", "paywall_viewed", day: 3),
          Self.event("anna", "paywall_viewed", day: 2), Self.event("ben", "paywall_viewed", day: 2),
        ], at: clock(3 * 86_400))
      _ = try await ledger.run(consuming(Anna.meter, by: "carl", at: Self.days(1)))
      try await ledger.run(SetCount(1, of: Self.children, of: "dora", with: "free", at: clock(Self.days(1))))
      try await ledger.run(SetCount(2, of: Self.children, of: "dora", with: "free", at: clock(Self.days(5))))
      _ = try await ledger.record(entry("anna", [Self.paid("1", from: 4, days: 30)], rules: rules))
      let report = try await Self.report(ledger)
      #expect(report.users(in: Self.day..<Self.day + 40) == [.users: 4, .conversions: 1, .viewers: 2, .purchasers: 1])
      // Her account was made on the first day.
      #expect(report.funnel[Self.day] == [.users: 1, .conversions: 1])
      #expect(report.funnel[Self.day + 1]?[.users] == 2)
      #expect(report.funnel[Self.day + 2] == [.users: 1, .viewers: 2, .purchasers: 1])
      // By month, of which the span has parts alone, and whole ones.
      let month = CalendarDay.firstOfMonth(of: Self.day)
      for first in [Self.day + 1, month] {
        let span = FigureSpan(days: first..<month + 100, grain: .month)
        let byMonth = try await ledger.readLong(ReadFigures(over: span))
        #expect(byMonth.series.periods.count > 3)
        let period = try #require(byMonth.series.periods.first).days
        #expect(byMonth.users(in: span.days) == report.users(in: period))
        #expect(byMonth.users(in: period) == report.users(in: period))
      }
      // She had bought long before: nobody won her here.
      _ = try await ledger.record(entry("anna", [Self.paid("2", from: -90, days: 30)], rules: rules))
      let later = try await Self.report(ledger)
      #expect(later.users(in: Self.day..<Self.day + 40).filter { $0.value != 0 } == [.users: 3, .viewers: 1])
    }
  }

  @Test func `an anonymous customer who signs in is one user, and an erased one stays counted`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.meet(Anna.alias, at: clock(0))
      try await ledger.record([Self.event(Anna.alias, "paywall_viewed", day: 0)], at: clock(1))
      _ = try await ledger.run(JoinCustomer(Anna.alias, to: "anna", requestID: "join", reevaluated(at: 10)))
      _ = try await ledger.record(entry("anna", [Self.paid("1", from: 0, days: 30)], rules: rules))
      var counts = try await Self.report(ledger).users(in: Self.day..<Self.day + 1)
      #expect(counts == [.users: 1, .conversions: 1, .viewers: 1, .purchasers: 1])
      _ = try await ledger.erase(Anna.erasure("anna", hasRows: false))
      // Everything is counted anew, by the pseudonym.
      try await ledger.beginFigures([pro: .init(prices: ["USD": Price(milliunits: 1)])])
      counts = try await Self.report(ledger).users(in: Self.day..<Self.day + 1)
      #expect(counts == [.users: 1, .conversions: 1, .viewers: 1, .purchasers: 1])
    }
  }

  @Test func `a verdict without a purchase makes a user known`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(Anna.trial("anna"))
      #expect(try await Self.report(ledger).users(in: Self.day..<Self.day + 1) == [.users: 1])
    }
  }

  @Test func `users near a limit are those of the last count, and of the tier that they have`() async throws {
    try await Scratch.withLedger { ledger, _ in
      func near() async throws -> [String: Int64] {
        Dictionary(
          uniqueKeysWithValues: try await Self.report(ledger).nearLimits.map { ("\($0.feature) \($0.tier)", $0.users) })
      }
      for user in ["anna", "ben", "carl"] {
        try await ledger.run(SetCount(1, of: Self.children, of: UserID(user), with: "free", at: clock(0)))
      }
      try await ledger.run(SetCount(9, of: Self.children, of: "dora", with: "pro", at: clock(0)))
      #expect(try await near() == ["children free": 3, "children pro": 1])
      try await ledger.run(SetCount(1, of: Self.children, of: "anna", with: "free", at: clock(0)))
      try await ledger.run(SetCount(0, of: Self.children, of: "ben", with: "free", at: clock(0)))
      try await ledger.run(SetCount(1, of: Self.children, of: "carl", with: "pro", at: clock(0)))
      #expect(try await near() == ["children free": 1, "children pro": 1])
      _ = try await ledger.erase(Anna.erasure("dora", hasRows: false))
      #expect(try await near() == ["children free": 1])
      // Her tier changes from free to pro, which allows more, and back.
      _ = try await ledger.record(entry("anna", [evidence("1", expires: -10)], rules: rules))
      _ = try await ledger.record(entry("anna", [evidence("1", time: 10, expires: 1_000)], rules: rules))
      #expect(try await near() == [:])
      var ended = evidence("1", time: 1_010, expires: 1_000)
      ended.renewals = []
      _ = try await ledger.record(entry("anna", [ended], rules: rules))
      #expect(try await near() == ["children free": 1])
    }
  }

  @Test func `a customer near a limit is counted once signed in too, without an account`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.run(SetCount(1, of: Self.children, of: Anna.alias, with: "free", at: clock(0)))
      for _ in 0..<2 {
        let near = try await Self.report(ledger).nearLimits
        #expect(near.map { "\($0.feature) \($0.tier) \($0.users)" } == ["children free 1"])
        _ = try await ledger.run(JoinCustomer(Anna.alias, to: "anna", requestID: "join", reevaluated(at: 10)))
      }
      #expect(try await ledger.profile(of: "anna") == nil)
    }
  }

  @Test func `the app's own trials are counted, whoever its user turns out to be`() async throws {
    try await Scratch.withLedger { ledger, _ in
      guard case .started = try await ledger.run(Anna.trial(Anna.alias)) else {
        Issue.record("No trial began.")
        return
      }
      #expect(try await Self.trials(ledger) == [.trialStarts: 1, .trialsPending: 1])
      _ = try await ledger.run(JoinCustomer(Anna.alias, to: "anna", requestID: "join", reevaluated(at: 80)))
      _ = try await ledger.record(entry("anna", [Self.paid("1", from: 1, days: 30)], rules: rules))
      #expect(try await Self.trials(ledger) == [.trialStarts: 1, .trialConversions: 1])
      let span = FigureSpan(days: Self.day..<Self.day + 40, grain: .day, product: "$trial:week")
      #expect(try await ledger.readLong(ReadFigures(over: span)).series.flow(.trialConversions) == 1)
      // Other rules count everything anew, an erased user's too.
      _ = try await ledger.erase(Anna.erasure("anna", hasRows: false))
      #expect(try await Self.trials(ledger) == [.trialStarts: 1, .trialConversions: 1])
      try await ledger.keepMemo("figure rules", "0")
      try await ledger.beginFigures([:])
      #expect(try await Self.trials(ledger) == [.trialStarts: 1, .trialConversions: 1])
    }
  }

  @Test func `a purchase that goes to another user converts no trial of the one who lost it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(Anna.trial("anna"))
      _ = try await ledger.record(entry("anna", [Self.paid("1", from: 1, days: 30)], rules: rules))
      #expect(try await Self.trials(ledger) == [.trialStarts: 1, .trialConversions: 1])
      _ = try await ledger.run(moving("1", to: "ben", at: 90_000))
      #expect(try await Self.trials(ledger) == [.trialStarts: 1, .trialsPending: 1])
    }
  }

  @Test func `an erased user whose access was given is no subscriber, and the trial runs no more`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.run(Anna.trial("anna"))
      #expect(try await Self.trials(ledger) == [.trialStarts: 1, .trialsPending: 1])
      #expect(try await ledger.read(ReadSubscribers()) == [SubscriberCount(tier: "pro", status: .active, users: 1)])
      _ = try await ledger.erase(Anna.erasure("anna"))
      #expect(try await Self.trials(ledger) == [.trialStarts: 1])
      #expect(try await Self.report(ledger).series.periods.allSatisfy { $0.total[.trials] == 0 })
      #expect(try await ledger.read(ReadSubscribers()) == [SubscriberCount(tier: "free", status: .active, users: 1)])
      // The pseudonym makes no event, and has no row.
      #expect(try await ledger.changeEvents(after: 0, limit: 10).isEmpty)
      let updates = try await ledger.claimUpdates(dueAt: clock(1e6), until: at(2e6), limit: 5)
      #expect(updates.map(\.user) == ["anna"] && updates.allSatisfy(\.isReset))
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `a trial that is over is pending no more, and one that was taken back is none`() async throws {
    try await Scratch.withLedger { ledger, _ in
      func sums() async throws -> [Int64] {
        let series = try await Self.report(ledger).series
        return [series.flow(.trialStarts), series.flow(.trialsPending)]
      }
      guard case .started(let trial) = try await ledger.run(Anna.trial("anna")) else {
        Issue.record("No trial began.")
        return
      }
      #expect(try await sums() == [1, 1])
      _ = try await ledger.endOverdueGiven(reevaluated(at: 200_000))
      #expect(try await sums() == [1, 0])
      try await ledger.withdraw(trial, requestID: "back", reevaluated(at: 200_001))
      #expect(try await sums() == [0, 0])
    }
  }

  @Test func `a cohort loses those who end, and gets back those who return`() async throws {
    try await Scratch.withLedger { ledger, _ in
      // From the first day of a month on, by periods of thirty days.
      let first = Double(CalendarDay.firstOfMonth(of: Self.day + 31) - Self.day)
      func subscribe(_ id: String, _ starts: [Double]) async throws {
        var one = Self.paid(id, from: first + (starts.last ?? 0), days: 30)
        one.purchases = starts.map { start in
          var purchase = one.purchases[0]
          purchase.transactionID = TransactionID("\(id)-\(start)")
          purchase.purchaseDate = at((first + start) * 86_400)
          purchase.expiresDate = at((first + start + 30) * 86_400)
          return purchase
        }
        _ = try await ledger.record(entry(UserID("user-\(id)"), [one], rules: rules))
      }
      try await subscribe("1", [5, 35, 65])
      try await subscribe("2", [5])
      try await subscribe("3", [5, 70])
      _ = try await Self.report(ledger)
      let start = Self.day + Int(first)
      let span = FigureSpan(days: start..<CalendarDay.firstOfMonth(of: start + 130), grain: .month)
      let cohorts = try await ledger.readLong(ReadFigures(over: span)).cohorts
      #expect(cohorts.first?.month == start && cohorts.first?.subscriptions == 3)
      #expect(cohorts.first?.active == [3, 1, 2, 0])
      #expect(cohorts.dropFirst().allSatisfy { $0.subscriptions == 0 && $0.active.allSatisfy { $0 == 0 } })
    }
  }

  @Test func `other rules add the months of the funnel up anew`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for day in [1, 2, 40] {
        try await ledger.record(
          [Self.event(UserID("user-\(day)"), "paywall_viewed", day: Double(day))], at: clock(Double(day) * 86_400))
      }
      try await ledger.beginFigures([:])
      _ = try await Self.report(ledger)
      let month = CalendarDay.firstOfMonth(of: Self.day)
      let span = FigureSpan(days: month..<CalendarDay.firstOfMonth(of: month + 100), grain: .month)
      func viewers() async throws -> [Int64?] {
        let report = try await ledger.readLong(ReadFigures(over: span))
        return report.series.periods.map { report.funnel[$0.days.lowerBound]?[.viewers] }
      }
      let viewed = try await viewers()
      #expect(viewed.compactMap(\.self).reduce(0, +) == 3 && viewed.contains(2))
      // As other rules left them.
      for change in ["DELETE FROM tally", "UPDATE tally SET count = 7"] {
        try await scratch.change("\(change) WHERE name = 'funnel_months'")
        #expect(try await viewers() != viewed)
        try await ledger.keepMemo("figure rules", "0")
        try await ledger.beginFigures([:])
        #expect(try await viewers() == viewed)
      }
    }
  }

  @Test func `attempts to tell receivers are counted by day, and watched`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      try await ledger.record((0..<4).map { Self.event(UserID("user-\($0)"), "paywall_viewed", day: 0) }, at: clock(0))
      let work = try await ledger.webhookWork(of: "shop", dueAt: clock(0), due: 10, fresh: 100)
      let outcomes: [WebhookResult.Outcome] = [
        .delivered, .failed(attempts: 1, due: at(60), problem: "x"), .dead(attempts: 10, problem: "x"), .waits,
      ]
      try await ledger.settleWebhook(
        "shop", zip(work.fresh, outcomes).map { WebhookResult(of: $0, $1) }, through: work.fresh.last?.sequence,
        isGone: false, at: clock(0))
      // An event that the receiver's format lacks was not sent.
      let last = try #require(work.fresh.last)
      try await ledger.settleWebhook(
        "shop", [WebhookResult(of: last, .untold)], through: nil, isGone: false, at: clock(0))
      let report = try await Self.report(ledger)
      #expect(report.webhooks == [WebhookAttempts(webhook: "shop", delivered: 1, failed: 2)])
      // By month, as counted, and as another number of the rules has them counted anew.
      let month = CalendarDay.firstOfMonth(of: Self.day)
      let span = FigureSpan(days: month..<CalendarDay.firstOfMonth(of: month + 31), grain: .month)
      #expect(try await ledger.readLong(ReadFigures(over: span)).webhooks == report.webhooks)
      try await scratch.change("DELETE FROM tally WHERE name = 'webhook_months'")
      #expect(try await ledger.readLong(ReadFigures(over: span)).webhooks == [])
      try await ledger.keepMemo("figure rules", "0")
      try await ledger.beginFigures([:])
      #expect(try await ledger.readLong(ReadFigures(over: span)).webhooks == report.webhooks)
      // The viewers of the day count when it is a week old, the attempts at once.
      func watched(_ today: Int) async throws -> [WatchedFigure.Name: WatchedFigure] {
        let figures = try await ledger.watchedFigures(today: Self.day + today)
        return Dictionary(uniqueKeysWithValues: figures.map { ($0.name, $0) })
      }
      #expect(try await watched(0)[.webhookSuccess] == WatchedFigure(.webhookSuccess, 1, of: 3))
      #expect(try await watched(7)[.paywallConversion]?.whole == 0)
      #expect(try await watched(8)[.paywallConversion] == WatchedFigure(.paywallConversion, 0, of: 4))
      #expect(try await watched(8)[.conversion] == WatchedFigure(.conversion, 0, of: 4))
      #expect(Set(try await watched(8).keys) == Set(WatchedFigure.Name.allCases))
    }
  }
}
