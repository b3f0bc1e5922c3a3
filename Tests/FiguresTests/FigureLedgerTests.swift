import Access
import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Figures
@testable import Ledger

/// The figures as the ledger keeps them up.
@Suite struct FigureLedgerTests {
  private static let span = FigureSpan(days: at(0).utcDay..<at(0).utcDay + 40, grain: .day)

  private static func paid(_ id: String, time: Double = 0, days: Double, price: Int64 = 4_990) -> SubscriptionEvidence {
    var one = evidence(id, time: time, begin: 0, expires: days * 86_400)
    one.purchases[0].transactionID = TransactionID(id)
    one.purchases[0].sale = .init(price: price, currency: "USD")
    one.renewals = []
    return one
  }

  private static func count(_ ledger: Ledger) async throws {
    while try await ledger.countPurchases([:], limit: 2) > 0 {}
  }

  @Test func `a purchase is counted once, and its change takes back what it was counted as`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for id in ["1", "2", "3"] {
        _ = try await ledger.record(entry(UserID("user-\(id)"), [Self.paid(id, days: 30)]))
      }
      #expect(try await ledger.readLong(ReadFigures(over: Self.span)).series.pending == 3)
      try await Self.count(ledger)
      var series = try await ledger.readLong(ReadFigures(over: Self.span)).series
      #expect(series.pending == 0)
      #expect(
        series.periods.map { $0.total[.active] } == Array(repeating: 3, count: 30) + Array(repeating: 0, count: 10))
      #expect(series.periods.first?.counts["USD"]?[.mrr] == 14_970)
      #expect(series.flow(.ended) == 3)

      var refunded = Self.paid("2", time: 900, days: 30)
      refunded.purchases[0].cancellationDate = at(5 * 86_400)
      _ = try await ledger.record(entry("user-2", [refunded]))
      _ = try await ledger.record(entry("user-3", [Self.paid("3", time: 900, days: 30)]))
      try await Self.count(ledger)
      series = try await ledger.readLong(ReadFigures(over: Self.span)).series
      #expect(series.periods.map { $0.total[.active] }[4...5] == [3, 2])
      #expect(series.flow(.refunds) == 4_990)
      #expect(series.flow(.payments) == 3)
      #expect(series.flow(.ended) == 3)
      let other = FigureSpan(days: Self.span.days, grain: .day, product: "other")
      #expect(try await ledger.readLong(ReadFigures(over: other)).series.flow(.payments) == 0)
    }
  }

  @Test func `a count ends after some time, and the next one goes on`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for id in ["1", "2", "3"] {
        _ = try await ledger.record(entry(UserID("user-\(id)"), [Self.paid(id, days: 30)]))
      }
      #expect(try await ledger.run(CountPurchases([:], limit: 10, time: .zero)) == 10)
      #expect(try await ledger.readLong(ReadFigures(over: Self.span)).series.pending == 2)
      while try await ledger.run(CountPurchases([:], limit: 10, time: .zero)) > 0 {}
      let series = try await ledger.readLong(ReadFigures(over: Self.span)).series
      #expect(series.pending == 0)
      #expect(series.flow(.payments) == 3)
    }
  }

  @Test func `a span that begins later knows the levels from before it, and months add up to the same`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [Self.paid("1", days: 365, price: 59_880)]))
      try await Self.count(ledger)
      let start = at(0).utcDay
      let later = try await ledger.readLong(ReadFigures(over: FigureSpan(days: start + 200..<start + 210, grain: .day)))
        .series
      #expect(later.before["USD"]?[.active] == 1)
      #expect(later.periods.allSatisfy { $0.counts["USD"]?[.mrr] == 4_990 && $0.total[.new] == 0 })
      let months = try await ledger.readLong(ReadFigures(over: FigureSpan(days: start..<start + 365, grain: .month)))
        .series
      #expect(months.flow(.new) == 1)
      #expect(months.periods.allSatisfy { $0.total[.active] == 1 })
    }
  }

  @Test func `a replica with the prices of before counts nothing by them`() async throws {
    try await Scratch.withLedger { ledger, _ in
      var untold = Self.paid("1", days: 30)
      untold.purchases[0].sale = nil
      _ = try await ledger.record(entry("anna", [untold]))
      let former: [ProductID: Plans.Terms] = [pro: .init(prices: ["EUR": Price(milliunits: 2_990)])]
      let terms: [ProductID: Plans.Terms] = [pro: .init(prices: ["EUR": Price(milliunits: 3_990)])]
      try await ledger.beginFigures(former)
      try await ledger.beginFigures(terms)
      #expect(try await ledger.countPurchases(former, limit: 10) == 0)
      while try await ledger.countPurchases(terms, limit: 10) > 0 {}
      #expect(try await ledger.countPurchases(former, limit: 10) == 0)
      let periods = try await ledger.readLong(ReadFigures(over: Self.span)).series.periods
      #expect(periods.first?.counts["EUR"]?[.mrr] == 3_990)
    }
  }

  @Test func `other prices in the catalog count everything anew, the same ones nothing`() async throws {
    try await Scratch.withLedger { ledger, _ in
      var untold = Self.paid("1", days: 30)
      untold.purchases[0].sale = nil
      _ = try await ledger.record(entry("anna", [untold]))
      try await ledger.beginFigures([:])
      try await Self.count(ledger)
      #expect(
        try await ledger.readLong(ReadFigures(over: Self.span)).series.periods.first?.counts.keys.sorted() == [""])
      try await ledger.beginFigures([:])
      #expect(try await ledger.readLong(ReadFigures(over: Self.span)).series.pending == 0)

      let terms: [ProductID: Plans.Terms] = [pro: .init(prices: ["EUR": Price(milliunits: 3_990)])]
      try await ledger.beginFigures(terms)
      while try await ledger.countPurchases(terms, limit: 10) > 0 {}
      let series = try await ledger.readLong(ReadFigures(over: Self.span)).series
      #expect(series.periods.first?.counts["EUR"]?[.mrr] == 3_990)
      #expect(series.periods.first?.total[.active] == 1)
    }
  }

  @Test func `a recount goes on page by page, over a restart and records in between`() async throws {
    let scratch = try Scratch()
    var ledger = try await scratch.open()
    for number in 1...7 {
      var one = Self.paid("\(number)", days: 30)
      one.purchases[0].sale = nil
      _ = try await ledger.record(entry(UserID("user-\(number)"), [one]))
    }
    try await ledger.beginFigures([:])
    try await Self.count(ledger)
    let terms: [ProductID: Plans.Terms] = [pro: .init(prices: ["EUR": Price(milliunits: 3_990)])]
    // Counts by other rules are made anew, also where the prices change before the recount is over. Sums that were
    // wrong are right afterwards, and counts of nothing are forgotten.
    try await ledger.keepMemo("figure rules", "0")
    for change in [
      "UPDATE figure SET active = 7", "DELETE FROM figure_cohort",
      "UPDATE figure SET product_id = 'gone' WHERE product_id <> ''",
      "INSERT INTO counted_purchase (purchase_id, counts) VALUES (900, '[[\(at(0).utcDay),\"gone\",\"USD\",0,1]]')",
    ] { try await scratch.change(change) }
    try await ledger.beginFigures([:])
    func goOn(_ terms: [ProductID: Plans.Terms], page: Int = 2, time: Duration = .seconds(60)) async throws -> Bool {
      guard let recount = try await ledger.readLong(ReadRecount()) else { return false }
      return try await ledger.goOn(recount, terms, page: page, time: time)
    }
    #expect(try await goOn([:]))
    try await ledger.beginFigures(terms)
    #expect(try await !goOn([:]))
    #expect(try await ledger.run(CountPurchases(terms, limit: 2)) == 0)
    #expect(try await ledger.readLong(ReadFigures(over: Self.span)).series.pending == FigureSeries.pendingLimit)
    for page in 1...3 {
      // A write without time comes to one purchase; the rest of its page is read again.
      #expect(try await goOn(terms, time: .zero))
      #expect(try await ledger.readLong(ReadRecount()) == .purchases(after: Int64(page)))
      // A purchase of a page before and one of a page behind change; a new one comes.
      for number in [1, 7, 10 + page] {
        var one = Self.paid("\(number)", time: Double(page), days: number == 1 ? 31 : 30)
        one.purchases[0].sale = nil
        _ = try await ledger.record(entry(UserID("user-\(number)"), [one]))
      }
      await ledger.close()
      ledger = try await scratch.open()
      try await ledger.beginFigures(terms)
    }
    while try await goOn(terms, time: .zero) {}
    #expect(try await ledger.readLong(ReadRecount()) == nil)
    while try await ledger.countPurchases(terms, limit: 2) > 0 {}
    let series = try await ledger.readLong(ReadFigures(over: Self.span)).series
    #expect(series.pending == 0)
    #expect(series.flow(.new) == 10 && series.flow(.payments) == 10)
    #expect(
      series.periods.map { $0.total[.active] } == Array(repeating: 10, count: 30) + [1] + Array(repeating: 0, count: 9))
    #expect(series.periods.first?.counts["EUR"]?[.mrr] == 39_900)
    #expect(series.flow(.ended) == 10)
    for (query, rows) in [
      ("SELECT count(*) FROM figure WHERE product_id = 'gone'", "0"),
      ("SELECT count(*) FROM counted_purchase", "10"),
      ("SELECT sum(change) FROM figure_cohort WHERE product_id = '' AND since = 0", "10"),
    ] { #expect(try await scratch.rows(query) == [[rows]]) }
    await ledger.close()
  }

  @Test func `missing counts of users are added once, whatever is recorded meanwhile`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for (id, user) in [("1", UserID("anna")), ("2", "ben")] {
        _ = try await ledger.record(entry(user, [evidence(id, expires: 1_000)], rules: rules))
      }
      try await Self.count(ledger)
      try await ledger.engine.submit { tables in
        try tables.marks.mark(-2, to: Tally(name: .subscribers, label: "pro", detail: "active"))
      }
      let recounts = [
        try await ledger.readLong(RecountSubscribers()),
        try await ledger.readLong(RecountSubscribers()),
      ]
      _ = try await ledger.record(entry("ben", [evidence("2", time: 5_000, expires: 1_000)], rules: rules))
      _ = try await ledger.record(entry("carl", [evidence("3", expires: 1_000)], rules: rules))
      try await Self.count(ledger)
      for recount in recounts { try await ledger.run(recount) }
      try await Self.count(ledger)
      #expect(
        try await ledger.read(ReadSubscribers()) == [
          SubscriberCount(tier: "free", status: .expired, users: 1),
          SubscriberCount(tier: "pro", status: .active, users: 2),
        ])
    }
  }

  /// An answer of the Server API has the last transaction alone.
  @Test func `renewals that Apple answers one by one are one subscription, new at its first`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      func answer(_ number: Int, id: TransactionID, account: String? = nil) -> SubscriptionEvidence {
        var one = Self.paid("1", time: Double(number) * 10 * 86_400, days: Double(number + 1) * 10)
        one.source = .serverAPI
        one.purchases[0].purchaseDate = at(Double(number) * 10 * 86_400)
        one.purchases[0].transactionID = id
        one.purchases[0].isFirst = number == 0
        one.purchases[0].appAccountToken = account
        return one
      }
      for (number, id) in [TransactionID("1"), "11", "12"].enumerated() {
        _ = try await ledger.record(entry(UserID(annasAccount), [answer(number, id: id, account: annasAccount)]))
        if number > 0 { try await Self.count(ledger) }
      }
      var series = try await ledger.readLong(ReadFigures(over: Self.span)).series
      #expect(series.periods.enumerated().filter { $1.total[.payments] == 1 }.map(\.offset) == [0, 10, 20])
      #expect(
        series.periods.map { $0.total[.active] } == Array(repeating: 1, count: 30) + Array(repeating: 0, count: 10))
      #expect(series.periods.first?.total[.new] == 1 && series.flow(.new) == 1 && series.flow(.existing) == 0)
      #expect(
        try await scratch.rows("SELECT count(*) FROM past_evidence WHERE evidence LIKE '%\(annasAccount)%'") == [["0"]])

      let exported = try await ledger.exportedPurchases(ofKey: annasAccount, from: 0, limit: 1)
      #expect(Set(exported.flatMap(\.evidence.purchases).map(\.transactionID)) == ["1", "11", "12"])

      // Without the first one it was there before.
      var other = answer(1, id: "22")
      other.key = key("2")
      _ = try await ledger.record(entry("ben", [other]))
      try await Self.count(ledger)
      series = try await ledger.readLong(ReadFigures(over: Self.span)).series
      #expect(series.flow(.new) == 1 && series.flow(.existing) == 1)
      #expect(series.periods[10].counts["USD"]?[.existingMRR] ?? 0 > 0)
      let report = try await ledger.readLong(ReadFigures(over: Self.span))
      #expect(report.users(in: Self.span.days)[.conversions] ?? 0 == 1)
    }
  }

  /// The ways by which Apple reports the four periods of one subscription, of 30 days each.
  enum Report {
    case notification(Int)
    case transaction(Int)
    case lastAnswer
    case wholeReceipt

    static let orders: [String: [Report]] = [
      "by its owner": [.transaction(0), .transaction(1), .transaction(2), .lastAnswer],
      "notifications first": [.notification(0), .notification(1), .notification(2), .notification(3), .lastAnswer],
      "newest first": [.lastAnswer, .transaction(2), .transaction(0), .transaction(1)],
      "the answer first": [.lastAnswer, .notification(1), .notification(0), .notification(2)],
      "the history last": [.lastAnswer, .wholeReceipt],
      "the history first": [.wholeReceipt, .notification(3), .lastAnswer],
      "everything twice": [
        .notification(0), .notification(1), .notification(2), .transaction(2), .lastAnswer, .transaction(1),
        .notification(0), .lastAnswer, .transaction(0), .wholeReceipt, .notification(1), .lastAnswer, .transaction(3),
      ],
    ]

    var evidence: SubscriptionEvidence {
      func row(_ number: Int) -> Purchase {
        var row = FigureLedgerTests.paid("1", days: Double(number + 1) * 30).purchases[0]
        row.purchaseDate = at(Double(number) * 30 * 86_400)
        row.transactionID = number == 0 ? "1" : TransactionID("1\(number)")
        row.isFirst = number == 0
        return row
      }
      let (rows, source, seconds): ([Purchase], EvidenceSource, Double) =
        switch self {
        case .notification(let number): ([row(number)], .notification, Double(number) * 30 * 86_400 + 2)
        case .transaction(let number): ([row(number)], .signature, Double(number) * 30 * 86_400 + 1)
        case .lastAnswer: ([row(3)], .serverAPI, 95 * 86_400)
        case .wholeReceipt: ((0...3).map(row), .verifyReceipt, 96 * 86_400)
        }
      var one = FigureLedgerTests.paid("1", time: seconds, days: 120)
      (one.source, one.purchases) = (source, rows)
      if case .lastAnswer = self { return one }
      if case .wholeReceipt = self { return one }
      one.coverage = .partial(since: nil)
      return one
    }
  }

  @Test(arguments: Report.orders.keys.sorted())
  func `every verified transaction counts once, in whatever order and way it came`(order: String) async throws {
    let reports = try #require(Report.orders[order])
    try await Scratch.withLedger { ledger, _ in
      for (number, report) in reports.enumerated() {
        if case .notification = report {
          _ = try await ledger.run(
            NotificationEntry(
              uuid: "\(number)", receivedAt: clock(100 * 86_400), payload: "signed", evidence: [report.evidence],
              evaluatedAt: report.evidence.evidenceTime, rules: standIn))
        } else {
          _ = try await ledger.record(entry("anna", [report.evidence]))
        }
        if number.isMultiple(of: 2) { try await Self.count(ledger) }
      }
      try await Self.count(ledger)
      let start = at(0).utcDay
      let series = try await ledger.readLong(ReadFigures(over: FigureSpan(days: start..<start + 92, grain: .day)))
        .series
      let last = try await ledger.readLong(
        ReadFigures(over: FigureSpan(days: start + 92..<start + 130, grain: .day))
      ).series
      #expect(series.periods.enumerated().filter { $1.total[.payments] > 0 }.map(\.offset) == [0, 30, 60, 90])
      #expect(series.flow(.payments) == 4 && series.flow(.revenue) == 4 * 4_990)
      #expect(series.flow(.new) == 1 && series.flow(.existing) == 0 && series.flow(.ended) == 0)
      #expect(series.periods.allSatisfy { $0.total[.active] == 1 && $0.counts["USD"]?[.mrr] == 4_990 })
      #expect(last.flow(.payments) == 0 && last.flow(.ended) == 1)
    }
  }

  @Test func `a purchase at another store counts by the end that was bought, however early another one comes`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      for (change, seconds) in [(StoreEvent.Change.period, 0.0), (.expired, 86_400.0)] {
        var event = StoreEvent(id: change.rawValue, at: at(seconds), change: change, user: "anna")
        (event.product, event.transaction) = (pro, "GPA.1")
        (event.purchasedAt, event.expiresAt) = (at(0), at(30 * 86_400))
        (event.price, event.currency) = (4_990, "USD")
        _ = try await ledger.run(
          RevenueCatReport(
            id: event.id, type: "RENEWAL", store: "play_store", environment: .production, at: event.at, payload: "{}",
            content: .purchase(RevenueCatReport.Store("play_store").key(.production, "GPA.1"), event),
            evaluationContext: reevaluated(at: seconds)))
      }
      try await Self.count(ledger)
      let report = try await ledger.readLong(ReadFigures(over: Self.span))
      #expect(report.series.periods.map { $0.total[.mrr] }.prefix(2) == [4_990, 0])
      #expect(report.series.flow(.newMRR) == 4_990)
      #expect(report.periods == [pro.rawValue: "P1M"])
    }
  }

  @Test func `users are counted by tier and status, and a change moves them`() async throws {
    try await Scratch.withLedger { ledger, _ in
      func counts() async throws -> [String: Int64] {
        try await Self.count(ledger)
        return Dictionary(
          uniqueKeysWithValues: try await ledger.read(ReadSubscribers()).map {
            ("\($0.tier) \($0.status.rawValue)", $0.users)
          })
      }
      for (id, user) in [("1", UserID("anna")), ("2", "ben")] {
        _ = try await ledger.record(entry(user, [evidence(id, expires: 1_000)], rules: rules))
      }
      #expect(try await ledger.read(ReadSubscribers()) == [])
      #expect(try await counts() == ["pro active": 2])
      // The same verdict again, and one that ends the subscription.
      _ = try await ledger.record(entry("anna", [evidence("1", time: 10, expires: 1_000)], rules: rules))
      _ = try await ledger.record(entry("ben", [evidence("2", time: 5_000, expires: 1_000)], rules: rules))
      #expect(try await counts() == ["pro active": 1, "free expired": 1])
      // A record of a version without the count is seen at the next start.
      try await ledger.engine.submit { tables in
        try tables.marks.mark(5, to: Tally(name: .subscribers, label: "pro", detail: "active"))
      }
      #expect(try await counts() == ["pro active": 6, "free expired": 1])
      try await ledger.beginFigures([:])
      #expect(try await counts() == ["pro active": 1, "free expired": 1])
    }
  }

  @Test func `products and cycles have the levels of the last day, and what was paid in the span`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for (id, days, price) in [("1", 30.0, Int64(4_990)), ("2", 365, 49_990), ("3", 364, 49_990)] {
        var one = Self.paid(id, days: days, price: price)
        if days > 300 { one.purchases[0].productID = "yearly" }
        _ = try await ledger.record(entry(UserID("user-\(id)"), [one]))
      }
      try await Self.count(ledger)
      let start = at(0).utcDay
      let report = try await ledger.readLong(ReadFigures(over: FigureSpan(days: start..<start + 10, grain: .day)))
      #expect(report.periods == ["yearly": "P1Y", pro.rawValue: "P1M"])
      #expect(report.series.products["yearly"]?["USD"]?[.revenue] == 99_980)
      #expect(report.series.products["yearly"]?["USD"]?[.active] == 2)
      // Levels go on from before the span, and payments do not.
      let later = try await ledger.readLong(ReadFigures(over: FigureSpan(days: start + 1..<start + 10, grain: .day)))
      let cycles = later.series.cycles(["yearly": "P1Y", pro.rawValue: "P1M"])
      #expect(cycles["P1Y"]?["USD"]?[.active] == 2)
      #expect(cycles["P1M"]?["USD"]?[.mrr] == 4_990)
      #expect(cycles["P1Y"]?["USD"]?[.revenue] == 0)
      #expect(later.series.cycles([:]).isEmpty)
      let one = try await ledger.readLong(
        ReadFigures(over: FigureSpan(days: start..<start + 10, grain: .day, product: "yearly")))
      #expect(one.series.products.keys.sorted() == ["yearly"])
    }
  }
}
