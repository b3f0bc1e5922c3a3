import Entitlements
import Foundation
import Ledger
import LedgerFixtures
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Validation

/// The pass over all users after a start with other rules.
@Suite struct RulesReviewerTests {
  static let day: TimeInterval = 86_400
  static let monthly: ProductID = "com.example.app.pro.monthly"

  private func run(
    _ settings: Settings = Settings(), body: @Sendable (JobBench, SimulatedStore, MovingClock) async throws -> Void
  ) async throws {
    try await JobBench.besideStore(by: MovingClock(), settings: settings, body: body)
  }

  /// The rules of the bench with another catalog.
  private func rules(
    _ bench: JobBench, _ change: (inout [ProductID: Catalog.Product]) -> Void
  ) throws -> EntitlementRules {
    var rules = bench.validator.gateway.rules
    var products = rules.catalog.products
    change(&products)
    rules.catalog = try Catalog(tiers: rules.catalog.tiers, products: products)
    return rules
  }

  private func subscribe(_ users: ClosedRange<Int>, _ bench: JobBench, _ store: SimulatedStore) async throws {
    for number in users {
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number)).receiptData
      try await bench.validate(receipt, user: Self.name(number))
    }
  }

  private static func name(_ number: Int) -> String { "user-\(number < 10 ? "0" : "")\(number)" }

  /// Runs a pass to its end.
  /// - Returns: the pages that it took.
  @discardableResult private func pass(_ reviewer: RulesReviewer, pages limit: Int = .max) async -> Int {
    var tally = RulesReviewer.Tally()
    var pages = 0
    while pages < limit {
      guard reviewer.review.place(at: reviewer.now()) != nil else { return pages }
      pages += 1
      guard await reviewer.advance(&tally) else { return pages }
    }
    return pages
  }

  private func recorded(_ bench: JobBench, _ user: String) async throws -> String {
    let profile = try await bench.ledger.profile(of: UserID(user))
    return profile.map { "\($0.entitlement.tier) \($0.entitlement.reason.rawValue) \($0.version)" } ?? "-"
  }

  @Test func `a period that was given, and whose verdict never said so, is recorded at the start`() async throws {
    try await run { bench, _, clock in
      let now = bench.now()
      let rules = bench.validator.gateway.rules
      let context = EvaluationContext(evaluatedAt: now, recordedAt: now, rules: rules)
      // It begins a moment after it was judged, as one did whose start was rounded up.
      _ = try await bench.ledger.run(
        Give(
          user: "user-01", kind: .support, tier: "pro", startsAt: now.advanced(by: .milliseconds(1)),
          endsAt: now.advanced(by: .seconds(86_400)), author: "support", requestID: "given", evaluationContext: context)
      )
      #expect(try await recorded(bench, "user-01") == "free no_purchases 1")
      clock.advance(by: 60)
      #expect(await pass(try await bench.reviewer()) == 1)
      #expect(try await recorded(bench, "user-01") == "pro granted 2")
    }
  }

  @Test func `a user who cannot be read is named, and the pass goes on`() async throws {
    try await run { bench, store, _ in
      try await subscribe(1...3, bench, store)
      try await bench.spoilPurchases(of: "user-01")
      #expect(await pass(try await bench.reviewer(batch: 1)) == 4)
      #expect(try await !bench.reviewer().review.isChanged)
      let lines = bench.log.lines.filter { $0.contains("cannot be read, and are not re-evaluated") }
      #expect(lines.count == 1 && lines.allSatisfy { $0.contains("user-01") })
    }
  }

  @Test func `the first start judges everybody once, and the next starts nobody`() async throws {
    try await run { bench, store, _ in
      try await subscribe(1...3, bench, store)
      let first = try await bench.reviewer(batch: 2)
      #expect(first.review.isChanged)
      #expect(await pass(first) == 2)
      #expect(try await recorded(bench, "user-01") == "pro renewing 1")
      let second = try await bench.reviewer()
      #expect(!second.review.isChanged)
      #expect(await pass(second) == 0)
      // The rules of this start are one thing, those of the next another.
      let third = try await bench.reviewer(rules: rules(bench) { $0["new"] = .init(tier: "pro") })
      #expect(third.review.isChanged)
    }
  }

  @Test func `a product that the catalog gains reaches what is recorded, a purchase for life too`() async throws {
    var settings = Settings()
    settings.products = ["com.example.app.pro.yearly": "{ tier: pro }"]
    try await run(settings) { bench, store, clock in
      try await subscribe(1...2, bench, store)
      let lifetime = try store.simulator.issueReceipt(.lifetime, subscriber: 9).receiptData
      try await bench.validate(lifetime, user: "for-life")
      #expect(try await recorded(bench, "user-01") == "free no_known_product 1")
      await pass(try await bench.reviewer())
      let gained = try rules(bench) {
        $0[Self.monthly] = .init(tier: "pro")
        $0["com.example.app.forever"] = .init(tier: "premium", kind: .lifetime)
      }
      let reviewer = try await bench.reviewer(rules: gained)
      await pass(reviewer)
      #expect(try await recorded(bench, "user-01") == "pro renewing 2")
      #expect(try await recorded(bench, "user-02") == "pro renewing 2")
      #expect(try await recorded(bench, "for-life") == "premium lifetime 2")
      #expect(try await bench.ledger.waitingUpdate(of: "for-life")?.entitlement.tier == "premium")
      #expect(try await bench.ledger.wholeHistory(of: "for-life").first?.requestID.hasPrefix("rules-") == true)
      #expect(reviewer.review.withheld == 0)
      #expect(bench.log.lines.contains { $0.contains("users are re-evaluated") && $0.contains(#""changed":3"#) })
    }
  }

  @Test
  func `a tier that only the rules would lower is counted and stands, through restarts, until the brake is released`()
    async throws
  {
    try await run { bench, store, clock in
      try await subscribe(1...30, bench, store)
      let lost = try rules(bench) { $0[Self.monthly] = nil }
      let reviewer = try await bench.reviewer(rules: lost, batch: 7)
      #expect(await pass(reviewer) == 5)
      #expect(reviewer.review.withheld == 30)
      #expect(!bench.brake.isEngaged)
      let alarms = bench.log.lines.filter { $0.contains("the catalog or a policy would lower subscribers") }
      #expect(alarms.count == 1)
      #expect(alarms.first?.contains("30 of com.example.app.pro.monthly") == true)
      for number in 1...30 { #expect(try await recorded(bench, Self.name(number)) == "pro renewing 1") }

      let next = try await bench.reviewer(rules: lost, batch: 7)
      #expect(!next.review.isChanged)
      #expect(next.review.withheld == 30)
      // Counted after each start, and every minute. The same number is no news.
      #expect(await pass(next) == 5)
      #expect(await pass(next) == 0)
      #expect(next.review.withheld == 30)
      clock.advance(by: 60)
      #expect(await pass(next) == 5)
      #expect(bench.log.lines.count { $0.contains("the catalog or a policy would lower subscribers") } == 1)

      await next.review.release(bench.log.logger)
      #expect(next.review.withheld == 0)
      #expect(await pass(next, pages: 2) == 2)
      #expect(try await recorded(bench, "user-14") == "free no_known_product 2")
      #expect(try await recorded(bench, "user-15") == "pro renewing 1")
      // A release outlives a restart, and goes on where it was.
      let last = try await bench.reviewer(rules: lost, batch: 7)
      #expect(await pass(last) == 3)
      for number in 1...30 { #expect(try await recorded(bench, Self.name(number)) == "free no_known_product 2") }
      #expect(last.review.withheld == 0)
      #expect(await pass(last) == 0)

      // The catalog is mended.
      await pass(try await bench.reviewer())
      for number in 1...30 { #expect(try await recorded(bench, Self.name(number)) == "pro renewing 3") }
    }
  }

  @Test func `withheld losses are counted every minute, and after ten times as long as the last pass took`()
    async throws
  {
    try await run { bench, store, clock in
      try await subscribe(1...10, bench, store)
      let lost = try rules(bench) { $0[Self.monthly] = nil }
      let reviewer = try await bench.reviewer(rules: lost, batch: 4)
      #expect(await pass(reviewer) == 3)
      #expect(reviewer.review.withheld == 10)
      try await subscribe(11...11, bench, store)
      clock.advance(by: 59)
      #expect(await pass(reviewer) == 0)
      clock.advance(by: 1)
      #expect(await pass(reviewer, pages: 2) == 2)
      clock.advance(by: 30)
      #expect(await pass(reviewer) == 1)
      #expect(reviewer.review.withheld == 11)
      #expect(bench.log.lines.contains { $0.contains("11 of com.example.app.pro.monthly") })
      clock.advance(by: 299)
      #expect(await pass(reviewer) == 0)
      clock.advance(by: 1)
      #expect(await pass(reviewer) == 3)
    }
  }

  @Test func `a release with nothing withheld releases nothing`() async throws {
    try await run { bench, store, _ in
      try await subscribe(1...2, bench, store)
      let reviewer = try await bench.reviewer()
      await pass(reviewer)
      await reviewer.review.release(bench.log.logger)
      let lost = try rules(bench) { $0[Self.monthly] = nil }
      let next = try await bench.reviewer(rules: lost)
      await pass(next)
      #expect(next.review.withheld == 2)
      #expect(try await recorded(bench, "user-01") == "pro renewing 1")
    }
  }

  @Test func `a pass that was interrupted goes on after the last page that was written down, and counts all`()
    async throws
  {
    try await run { bench, store, _ in
      try await subscribe(1...20, bench, store)
      let lost = try rules(bench) { $0[Self.monthly] = nil }
      let reviewer = try await bench.reviewer(rules: lost, batch: 4)
      #expect(await pass(reviewer, pages: 3) == 3)
      await reviewer.review.keep(bench.log.logger)
      let next = try await bench.reviewer(rules: lost, batch: 4)
      #expect(next.review.isChanged)
      #expect(next.review.place(at: bench.now())?.after == "user-12")
      // Two pages, and the one that finds no more.
      #expect(await pass(next) == 3)
      #expect(next.review.withheld == 20)
      // Other rules begin anew.
      let other = try await bench.reviewer(batch: 4)
      #expect(await pass(other) == 6)
      #expect(other.review.withheld == 0)
    }
  }

  @Test func `a subscription that time has ended is lowered without waiting for Apple`() async throws {
    try await run { bench, store, clock in
      try await subscribe(1...20, bench, store)
      // The periods end on day 16.
      clock.advance(by: 24 * Self.day)
      let reviewer = try await bench.reviewer()
      await pass(reviewer)
      for number in 1...20 { #expect(try await recorded(bench, Self.name(number)) == "free unproven 2") }
      #expect(reviewer.review.withheld == 0)
      #expect(!bench.brake.isEngaged)
    }
  }

  @Test func `a memo that cannot be read is as none`() async throws {
    try await run { bench, store, _ in
      try await subscribe(1...1, bench, store)
      try await bench.ledger.keepMemo(RulesReview.memo, "{")
      let reviewer = try await bench.reviewer()
      #expect(reviewer.review.isChanged)
      #expect(await pass(reviewer) == 1)
    }
  }
}
