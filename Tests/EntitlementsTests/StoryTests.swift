import Entitlements
import SeededRandom
import Testing

import struct FoundationEssentials.Date

/// Apple's reports over weeks, in the order of their arrival and in every other.
@Suite(.computing) struct StoryTests {
  private static let paid = row("1", from: day(-35), until: day(-5))

  /// A notification: what it tells is as of its signature.
  private static func notification(
    at moment: Date, _ purchase: Purchase? = nil, _ renewal: RenewalInfo? = nil
  ) -> [SubscriptionEvidence] {
    var (purchase, renewal) = (purchase, renewal)
    purchase?.reportedAt = moment
    renewal?.reportedAt = moment
    return PurchaseHistory(
      environment: .production, source: .notification, evidenceTime: moment, evaluatedAt: moment,
      purchases: purchase.map { [$0] } ?? [], renewals: renewal.map { [$0] } ?? [], coverage: .partial(since: nil)
    ).evidence()
  }

  /// Judges reports that came in any order, each of them twice.
  private func check(
    _ reports: [[SubscriptionEvidence]], at now: Date, _ expected: String, until end: Date? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    var random = SeededRandom(seed: 42)
    for _ in 0..<40 {
      var known: [SubscriptionKey: SubscriptionEvidence] = [:]
      for report in (reports + reports).shuffled(using: &random).flatMap({ $0 }) {
        known[report.key] = known[report.key]?.merging(report) ?? report
      }
      let verdict = try evaluate(Array(known.values), at: now)
      #expect(verdict.line == expected, sourceLocation: sourceLocation)
      #expect(verdict.accessUntil == end, sourceLocation: sourceLocation)
    }
  }

  @Test func `after a grace period that was told with its date, billing retry gives no access`() throws {
    let grace = Self.notification(at: day(-5, ms: 7), Self.paid, renewal(intent: 2, retry: true, grace: day(11)))
    try check([grace], at: day(3), "grace_period pro billing_grace", until: day(11))
    let retry = renewal(intent: 2, retry: true, status: .billingRetry)
    let over = Self.notification(at: day(11, ms: 3), Self.paid, retry)
    try check([grace, over], at: day(12), "expired free billing_error")
    let asked = answer(at: day(12), [Self.paid], [renewal(intent: 2, retry: true)])
    try check([grace, asked], at: day(12), "expired free billing_error")
  }

  @Test func `Apple's word that the grace period is over counts before its date`() throws {
    let grace = Self.notification(at: day(-5, ms: 7), Self.paid, renewal(intent: 2, retry: true, grace: day(11)))
    let over = Self.notification(
      at: day(6), Self.paid, renewal(intent: 2, retry: true, status: .billingRetry, graceOver: true))
    try check([grace, over], at: day(6), "expired free billing_error")
    try check([over], at: day(6), "expired free billing_error")
  }

  @Test func `status 3 after status 4 ends the grace period that had no date`() throws {
    let grace = answer(at: day(-4), [Self.paid], [renewal(retry: false, status: .billingGracePeriod)])
    try check([grace], at: day(-4), "grace_period pro billing_grace", until: day(-3))
    let retry = answer(at: day(2), [Self.paid], [renewal(retry: true, status: .billingRetry)])
    try check([grace, retry], at: day(2), "expired free billing_error")
    try check([retry], at: day(2), "grace_period pro billing_retry", until: day(55))
  }

  @Test func `an answer that is silent about the grace period lets it run for a day after Apple's last word`() throws {
    let grace = Self.notification(at: day(-5, ms: 9), Self.paid, renewal(retry: false, status: .billingGracePeriod))
    let silent = answer(at: day(-4.5), [Self.paid], [renewal(renews: true)])
    try check([grace, silent], at: day(-4.5), "grace_period pro billing_grace", until: day(-4, ms: 9))
  }

  @Test func `the grace period of a former period says nothing of this one`() throws {
    let first = row("1", from: day(-65), until: day(-35))
    let grace = Self.notification(at: day(-35, ms: 4), first, renewal(retry: true, grace: day(-19)))
    let retry = answer(at: day(-4), [row("2", from: day(-30), until: day(-5))], [renewal(intent: 2, retry: true)])
    try check([grace, retry], at: day(-4), "grace_period pro billing_retry", until: day(55))
  }

  @Test func `the grace period of one plan is not that of another plan that was bought in it`() throws {
    let (first, other) = (row("1", from: day(-40), until: day(-10)), row("2", proYearly, from: day(-9), until: day(-2)))
    func trouble(_ product: ProductID, until grace: Date? = nil) -> RenewalInfo {
      renewal(product, intent: 2, retry: true, grace: grace)
    }
    let retry = answer(at: day(-1), [other], [trouble(proYearly)])
    let ended = answer(at: day(-1), [other], [renewal(proYearly, renews: false, intent: 1, retry: false)])
    let own = answer(at: day(-1.5), [other], [trouble(proYearly, until: day(3))])
    for grace in [
      answer(at: day(-9.5), [first], [trouble(pro, until: day(6))]),
      Self.notification(at: day(-9.5), first, trouble(pro, until: day(6))),
    ] {
      try check([grace, retry], at: noon, "grace_period pro billing_retry", until: day(58))
      try check([grace, ended], at: noon, "expired free voluntary")
      try check([grace, own, retry], at: noon, "grace_period pro billing_grace", until: day(3))
    }
  }

  @Test func `the customer's own end ends a grace period, unless it is named with it`() throws {
    let grace = Self.notification(at: day(-5, ms: 7), Self.paid, renewal(intent: 2, retry: true, grace: day(11)))
    let ended = renewal(renews: false, intent: 1, retry: false)
    try check([grace, answer(at: day(-1), [Self.paid], [ended])], at: noon, "expired free voluntary")
    try check([grace, Self.notification(at: day(-1), Self.paid, ended)], at: noon, "expired free voluntary")
    let named = answer(at: day(-1), [Self.paid], [renewal(renews: false, intent: 1, grace: day(11))])
    try check([grace, named], at: noon, "grace_period pro billing_grace", until: day(11))
  }

  @Test func `a refunded lifetime purchase stays refunded, even when an old receipt is posted again`() throws {
    func decoded(made: Date, asked: Date, cancelled: Date? = nil) -> [SubscriptionEvidence] {
      var lifetime = row("9", forever, of: "9", from: day(-30), until: nil, cancelled: cancelled)
      lifetime.reportedAt = made
      return answer(at: asked, [lifetime])
    }
    let first = decoded(made: day(-30, ms: 1), asked: day(-30, ms: 500))
    try check([first], at: noon, "active premium lifetime")
    let refunded = row("9", forever, of: "9", from: day(-30), until: nil, cancelled: day(-10))
    let reports = [
      Self.notification(at: day(-10, ms: 2), refunded), answer(at: day(-9), [refunded], source: .serverAPI),
      answer(at: day(-9), [refunded]), decoded(made: day(-8), asked: day(-7), cancelled: day(-10)),
    ]
    let again = decoded(made: day(-30, ms: 1), asked: noon)
    for report in reports { try check([first, report, again], at: noon, "expired free refunded") }
    // The refund was reversed: a receipt that was made since shows the purchase without it.
    try check([first, reports[0], decoded(made: day(-1), asked: noon)], at: noon, "active premium lifetime")
    let bought = Self.notification(at: noon, row("10", forever, of: "10", from: day(-1), until: nil))
    try check([first, reports[0], again, bought], at: noon, "active premium lifetime")
  }

  @Test func `the refund of a lifetime purchase is that of each restored transaction`() throws {
    func receipt(of id: TransactionID, made: Date, asked: Date, beside rows: [Purchase] = []) -> [SubscriptionEvidence]
    {
      var restored = row(id, forever, of: "9", from: made, until: nil)
      restored.reportedAt = made
      return answer(at: asked, rows + [restored])
    }
    let refunded = row("9", forever, of: "9", from: day(-300), until: nil, cancelled: day(-10))
    let first = receipt(of: "91", made: day(-30), asked: day(-30, ms: 500))
    try check([first], at: noon, "active premium lifetime")
    // One answer has the refund, and the receipt's own row without it.
    try check([receipt(of: "91", made: day(-15), asked: noon, beside: [refunded])], at: noon, "expired free refunded")
    let reports = [
      Self.notification(at: day(-10, ms: 2), refunded), answer(at: day(-9), [refunded], source: .serverAPI),
    ]
    let again = receipt(of: "92", made: day(-20), asked: noon)
    for report in reports {
      try check([first, report], at: noon, "expired free refunded")
      try check([first, report, again], at: noon, "expired free refunded")
      // The refund was reversed: a receipt that was made since shows the purchase without it.
      try check([first, report, receipt(of: "93", made: day(-1), asked: noon)], at: noon, "active premium lifetime")
    }
    let bought = Self.notification(at: day(-20), row("10", forever, of: "10", from: day(-20), until: nil))
    try check([first, reports[0], again, bought], at: noon, "active premium lifetime")
  }

  @Test func `a renewal that comes late is one renewal, without an end in between`() throws {
    let before = try evaluate(answer(at: day(-10), [Self.paid], [renewal(renews: true)]), at: day(-10))
    var verdict = before
    var events: [EventType] = []
    for minutes in [0.3, 1, 2, 5, 10, 40, 300] {
      let moment = day(-5 + minutes / 1_440)
      let next = try evaluate(answer(at: moment, [Self.paid], [renewal(renews: true)]), at: moment)
      #expect(next.tier == "pro" && next.reason == .renewalDue && next.isStale, "after \(minutes) minutes")
      events += next.events(after: verdict)
      verdict = next
    }
    let renewed = try evaluate(
      answer(at: noon, [Self.paid, row("2", from: day(-5), until: day(25))], [renewal(renews: true)]))
    events += renewed.events(after: verdict)
    #expect(events == [.subscriptionRenewed])
  }

  @Test func `where Apple cannot be asked any more, the later of the two ends counts`() throws {
    let asked = answer(at: day(-5, ms: 60_000), [Self.paid], [renewal(renews: true)])
    #expect(try evaluate(asked, at: day(-4, ms: -1)).line == "active pro renewal_due stale")
    #expect(try evaluate(asked, at: day(-3)).line == "active pro renewal_due stale")
    #expect(try evaluate(asked, at: day(2, ms: -1)).line == "active pro renewal_due stale")
    #expect(try evaluate(asked, at: day(2)).line == "expired free unproven stale")
    #expect(try evaluate(asked, at: day(-4, ms: -1), hold: .zero).line == "active pro renewal_due stale")
    #expect(try evaluate(asked, at: day(-4), hold: .zero).line == "expired free unproven stale")
    // A notification that tells no status takes nothing from the answer.
    let told = Self.notification(at: day(-5, ms: 120_000), Self.paid, renewal(renews: true))
    let both = zip(asked, told).map { $0.merging($1) }
    #expect(try evaluate(both, at: day(-4, ms: -1), hold: .zero).line == "active pro renewal_due stale")
    #expect(try evaluate(both, at: day(-4), hold: .zero).line == "expired free unproven stale")
    // A fresh answer that still names no renewal ends it.
    let again = answer(at: day(-3), [Self.paid], [renewal(renews: true)])
    #expect(try evaluate(again, at: day(-3)).line == "expired free unknown")
  }

  @Test func `a renewal that is due ranks by the period that was paid`() throws {
    let due = answer(at: noon, [row("1", of: "1", from: day(-30), until: noon)], [renewal(of: "1", renews: true)])
    let running = answer(at: noon, [row("2", proYearly, of: "2", until: day(0, ms: 1))])
    let verdict = try evaluate(due + running)
    #expect(verdict.explanation.decidedBy == "2" && !verdict.isStale)
  }

  @Test func `an answer without a named end lowers nobody while a renewal may be late`() throws {
    let catalog = try makeCatalog()
    var raised = 0
    for seed in 0..<SeededRandom.cases(20_000) {
      var maker = RandomCustomer(seed: UInt64(9_000_000 + seed))
      let before = maker.subscription(1)
      let policy = EntitlementPolicy()
      guard !before.isAccountGone, before.grace == nil, before.graceIsTold == false,
        let end = Entitlement.evaluate([before], at: before.evaluatedAt, catalog: catalog, policy: policy).expiresAt
      else { continue }
      let now = end.advanced(by: .milliseconds(Int64.random(in: 0..<86_400_000, using: &maker.random)))
      guard before.evaluatedAt <= now else { continue }
      var after = before
      after.evidenceTime = now
      after.evaluatedAt = now
      after.renewals = [RenewalInfo(originalTransactionID: before.key.originalTransactionID, autoRenews: true)]
      func rank(_ evidence: SubscriptionEvidence) -> Int {
        catalog.rank(of: Entitlement.evaluate([evidence], at: now, catalog: catalog, policy: policy).tier)
      }
      let ranks = (rank(before), rank(before.merging(after)))
      #expect(ranks.1 >= ranks.0, "seed \(seed)")
      if ranks.1 > 0 { raised += 1 }
    }
    #expect(raised > SeededRandom.cases(1_000))
  }
}

extension SubscriptionEvidence {
  fileprivate var graceIsTold: Bool {
    renewals.contains {
      $0.gracePeriodExpiresDate != nil || $0.status == .billingGracePeriod || $0.isGraceOver == true
    }
  }
}
