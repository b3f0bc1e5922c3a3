import Entitlements
import SeededRandom
import Testing

import struct FoundationEssentials.Date

/// When Apple is asked again. The answer is of `noon` everywhere; the default row ended five days before it.
@Suite struct NextCheckTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let name: String
    var rows = [row("1", from: day(-20), until: day(10))]
    var renewals: [RenewalInfo] = []
    var gone = false
    var now = noon
    var retryAccess: Duration = .seconds(60 * 86_400)
    let next: Date?
    var testDescription: String { name }
  }

  static let ended = [row("1")]

  private func check(_ item: Case) throws {
    let evidence = try #require(answer(item.rows, item.renewals, gone: item.gone).first)
    let policy = EntitlementPolicy(billingRetryAccess: item.retryAccess)
    #expect(evidence.nextCheck(at: item.now, catalog: try makeCatalog(), policy: policy) == item.next)
  }

  @Test(arguments: [
    Case(name: "at once", next: day(10)),
    Case(name: "a millisecond before", now: day(10, ms: -1), next: day(10)),
    Case(name: "at the end", now: day(10), next: day(10)),
    Case(name: "after it, held", now: day(12), next: day(12)),
    Case(name: "after the hold, unproven", now: day(40), next: day(40)),
    Case(name: "renewal off", renewals: [renewal(renews: false)], next: day(10)),
    Case(name: "a year away", rows: [row("1", until: day(365))], next: day(365)),
    Case(name: "retry is flagged before the end", renewals: [renewal(retry: true)], next: day(10)),
    Case(name: "grace is told before the end", renewals: [renewal(grace: day(16))], next: day(10)),
    Case(
      name: "grace that was told before the end has begun", renewals: [renewal(grace: day(16))], now: day(11),
      next: day(11)),
    Case(name: "our clock is behind", now: day(-3), next: day(10)),
  ])
  func `a running period is checked at its end`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(name: "at once", rows: ended, renewals: [renewal(grace: day(3))], next: day(0.25)),
    Case(name: "an hour later", rows: ended, renewals: [renewal(grace: day(3))], now: day(1.0 / 24), next: day(0.25)),
    Case(name: "overdue", rows: ended, renewals: [renewal(grace: day(3))], now: day(1), next: day(1)),
    Case(name: "ends in an hour", rows: ended, renewals: [renewal(grace: day(1.0 / 24))], next: day(1.0 / 24)),
    Case(name: "over since the answer", rows: ended, renewals: [renewal(grace: day(3))], now: day(4), next: day(4)),
  ])
  func `grace is checked every six hours and at its end`(item: Case) throws { try check(item) }

  private static func late(by days: Double, ms: Int64 = 0) -> [Purchase] {
    [row("1", from: day(-90), until: day(-days, ms: ms))]
  }

  @Test(arguments: [
    Case(name: "at the very end", rows: late(by: 0), renewals: [renewal(renews: true)], next: day(60.0 / 86_400)),
    Case(
      name: "for two minutes", rows: late(by: 120.0 / 86_400), renewals: [renewal(renews: true)],
      next: day(180.0 / 86_400)),
    Case(
      name: "for six minutes", rows: late(by: 360.0 / 86_400), renewals: [renewal(renews: true)],
      next: day(240.0 / 86_400)),
    Case(
      name: "for ten minutes", rows: late(by: 600.0 / 86_400), renewals: [renewal(renews: true)],
      next: day(600.0 / 86_400)),
    Case(
      name: "by Apple's status alone", rows: late(by: 0), renewals: [renewal(status: .active)], next: day(60.0 / 86_400)
    ),
    Case(name: "access ends first", rows: late(by: 0.9), renewals: [renewal(renews: true)], next: day(0.1)),
    Case(name: "for an hour", rows: late(by: 1.0 / 24), renewals: [renewal(renews: true)], next: day(1.0 / 24)),
    Case(name: "for five days", rows: ended, renewals: [renewal(renews: true)], next: day(1)),
    Case(name: "overdue, and over", rows: ended, renewals: [renewal(renews: true)], now: day(3), next: day(3)),
    Case(name: "nothing told, at the very end", rows: late(by: 0), next: day(60.0 / 86_400)),
    Case(name: "nothing told for five days", rows: ended, next: day(1)),
    Case(name: "for 60 days", rows: late(by: 60), renewals: [renewal(renews: true)], next: nil),
    Case(name: "a moment less", rows: late(by: 60, ms: 1), renewals: [renewal(renews: true)], next: day(1)),
    Case(name: "the customer ended it", rows: ended, renewals: [renewal(renews: false)], next: nil),
    Case(name: "Apple says why it ended", rows: ended, renewals: [renewal(renews: true, intent: 2)], next: nil),
  ])
  func `a renewal that is late is waited for, ever more patiently`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(name: "with access", rows: ended, renewals: [renewal(retry: true)], next: day(1)),
    Case(name: "with access, later", rows: ended, renewals: [renewal(retry: true)], now: day(0.5), next: day(1)),
    Case(name: "overdue", rows: ended, renewals: [renewal(retry: true)], now: day(3), next: day(3)),
    Case(
      name: "without access", rows: ended, renewals: [renewal(retry: true)], retryAccess: .zero, next: day(1)),
    Case(
      name: "access ends first", rows: ended, renewals: [renewal(retry: true)],
      retryAccess: .seconds(5 * 86_400 + 3600), next: day(1.0 / 24)),
    Case(
      name: "access is over since the answer", rows: ended, renewals: [renewal(retry: true)], now: day(0.5),
      retryAccess: .seconds(5 * 86_400 + 3600), next: day(0.5)),
    Case(
      name: "the last day of sixty", rows: [row("1", until: day(-59.5))], renewals: [renewal(retry: true)],
      next: day(0.5)),
    Case(
      name: "sixty days are over", rows: [row("1", until: day(-60))], renewals: [renewal(retry: true)], next: nil),
    Case(
      name: "sixty days are over, but access is not", rows: [row("1", until: day(-61))],
      renewals: [renewal(retry: true)], retryAccess: .seconds(90 * 86_400), next: day(29)),
    Case(
      name: "after grace, still flagged", rows: ended, renewals: [renewal(retry: true, grace: day(-1))], next: day(1)),
  ])
  func `billing retry is checked every day for sixty days, and where access ends`(item: Case) throws {
    try check(item)
  }

  @Test func `a period whose renewal was refunded ahead is checked at its end`() throws {
    let rows = [row("1", until: day(1)), row("2", from: day(1), until: day(31), cancelled: noon)]
    for (now, next) in [(noon, day(1)), (day(1), day(1)), (day(2), day(2))] {
      try check(Case(name: "refunded ahead", rows: rows, now: now, next: next))
    }
  }

  @Test(arguments: [
    Case(name: "refunded", rows: [row("1", until: day(10), cancelled: day(-1))], next: nil),
    Case(
      name: "revoked", rows: [row("1", until: day(10), cancelled: day(-1), ownership: .familyShared)], next: nil),
    Case(name: "account gone", gone: true, next: nil),
    Case(name: "expired, retry off", rows: ended, renewals: [renewal(intent: 1, retry: false)], next: nil),
    Case(name: "expired, nothing told for 60 days", rows: late(by: 60), next: nil),
    Case(name: "upgraded", rows: [row("1", until: day(10), upgraded: true)], next: nil),
    Case(name: "no expiry", rows: [row("1", until: nil)], next: nil),
    Case(name: "lifetime", rows: [row("1", forever, until: nil)], next: nil),
    Case(name: "of no catalogued product", rows: [row("1", unheardOf, until: day(10))], next: nil),
  ])
  func `a state that time alone cannot change is not checked`(item: Case) throws {
    for now in [noon, day(9), day(4000)] {
      var item = item
      item.now = now
      try check(item)
    }
  }

  @Test func `a season is checked at its end among the user's others`() throws {
    let catalog = try makeCatalog()
    func next(_ evidence: [SubscriptionEvidence], of place: Int, at now: Date) -> Date? {
      let surroundings = PurchaseSurroundings(of: evidence, catalog: catalog, policy: EntitlementPolicy())
      return evidence[place].nextCheck(at: now, among: surroundings, catalog: catalog, policy: EntitlementPolicy())
    }
    // From 5 June to 5 July, and from then to 5 August.
    let first = row("1", season, of: "100", from: day(-10), until: nil)
    let both = answer([first, row("2", season, of: "200", from: day(-3), until: nil)])
    #expect(next(both, of: 0, at: noon) == day(20))
    #expect(next(both, of: 1, at: noon) == day(51))
    #expect(next(both, of: 1, at: day(40)) == day(51), "a month after its purchase it runs")
    #expect(next(both, of: 1, at: day(51)) == nil)
    // The second one, from 12 June, ends a month after its purchase where the first one takes no time.
    var refunded = both
    refunded[0].purchases[0].cancellationDate = day(-1)
    for place in 0...1 { #expect(next(refunded, of: place, at: noon) == day(27)) }
    #expect(next([refunded[0]], of: 0, at: noon) == nil)
  }

  @Test func `a purchase that the answer does not have yet is asked about within minutes, for an hour`() throws {
    var bought = row("2", from: noon, until: day(30))
    bought.reportedAt = noon
    let signed = answer([bought], source: .signature, isPart: true)
    let checks: [(answered: Double, next: Double?)] = [
      (0.5, 1), (1, 2), (3, 5), (9.5, 10), (10, 20), (59, 69), (60, 70), (61, nil),
    ]
    for (answered, next) in checks {
      let moment = minute(answered)
      let former = answer(at: moment, Self.ended, [renewal(renews: false, intent: 1)])
      let merged = try #require(former.first).merging(try #require(signed.first))
      let check = merged.nextCheck(at: moment, catalog: try makeCatalog(), policy: EntitlementPolicy())
      #expect(check == next.map { minute($0) }, "answered \(answered) minutes after it")
    }
  }

  @Test func `a refund that the answer does not show is asked about within minutes, for an hour`() throws {
    let end = day(30)
    var refunded = row("1", from: day(-1), until: end, cancelled: noon)
    refunded.reportedAt = noon
    let told = answer([refunded], source: .notification, isPart: true)
    let checks: [(answered: Double, next: Date)] = [
      (0.5, minute(1)), (1, minute(2)), (3, minute(5)), (9.5, minute(10)), (10, minute(20)), (60, minute(70)),
      (61, end),
    ]
    for (answered, next) in checks {
      let moment = minute(answered)
      for (cancelled, next) in [(nil, next), (noon, nil)] as [(Date?, Date?)] {
        let answers = answer(at: moment, [row("1", from: day(-1), until: end, cancelled: cancelled)])
        let merged = try #require(told.first).merging(try #require(answers.first))
        #expect(merged.coverage == .snapshot && merged.purchases.map(\.cancellationDate) == [cancelled])
        let check = merged.nextCheck(at: moment, catalog: try makeCatalog(), policy: EntitlementPolicy())
        #expect(check == next, "answered \(answered) minutes after it")
      }
    }
    // A decoded receipt is as old as its creation; an answer about it is not.
    var old = answer(at: minute(61), [row("1", from: day(-1), until: end)])
    old[0].evidenceTime = day(-1)
    old[0].refund = KnownRefund(transactionID: "1", date: noon)
    #expect(old[0].nextCheck(at: minute(61), catalog: try makeCatalog(), policy: EntitlementPolicy()) == end)
    #expect(!old[0].isAwaited)
    // Taken back by Apple itself: nobody is behind.
    refunded.cancellationDate = nil
    refunded.reportedAt = minute(5)
    let reversed = answer(at: minute(5), [refunded], source: .notification, isPart: true)
    let merged = try #require(told.first).merging(try #require(reversed.first))
    #expect(merged.nextCheck(at: minute(5), catalog: try makeCatalog(), policy: EntitlementPolicy()) == end)
  }

  @Test func `a renewal that another one followed is not waited for`() throws {
    let catalog = try makeCatalog()
    let evidence = answer(
      [
        row("1", of: "1", group: "G", from: day(-2), until: day(-1)),
        row("2", of: "2", group: "G", from: day(-1), until: noon), row("3", of: "3", group: "H", until: noon),
      ], in: .sandbox)
    let surroundings = PurchaseSurroundings(of: evidence, catalog: catalog, policy: EntitlementPolicy())
    let next = evidence.map {
      $0.nextCheck(at: noon, among: surroundings, catalog: catalog, policy: EntitlementPolicy())
    }
    #expect(next == [nil, day(60.0 / 86_400), day(60.0 / 86_400)])
  }

  @Test func `a provisional grant is settled, not checked`() throws {
    var evidence = try #require(answer([row("1", until: day(10))]).first)
    evidence.provisionalUntil = day(1)
    for now in [noon, day(2), day(11)] {
      #expect(evidence.nextCheck(at: now, catalog: try makeCatalog(), policy: EntitlementPolicy()) == nil)
    }
  }

  @Test func `the earlier check of two subscription groups under one key counts`() throws {
    let evidence = try #require(
      answer([row("1", group: "A", until: day(30)), row("2", premium, group: "B", until: day(4))]).first)
    #expect(evidence.nextCheck(at: noon, catalog: try makeCatalog(), policy: EntitlementPolicy()) == day(4))
  }

  @Test func `a check is never of the past nor after the end of access; without one, time changes nothing`() throws {
    let catalog = try makeCatalog()
    var none = 0
    for seed in PropertyTests.cases {
      var maker = RandomCustomer(seed: UInt64(7_000_000 + seed))
      let evidence = maker.subscription(1, groups: [nil, "A"])
      let policy = maker.policy()
      let now = maker.random.moment(-20...70)
      let verdict = Entitlement.evaluate([evidence], at: now, catalog: catalog, policy: policy)
      guard let next = evidence.nextCheck(at: now, catalog: catalog, policy: policy) else {
        none += 1
        for _ in 0..<5 {
          let later = maker.random.moment(70...4000)
          var same = Entitlement.evaluate([evidence], at: later, catalog: catalog, policy: policy)
          same.explanation.evaluatedAt = verdict.explanation.evaluatedAt
          // A product that the catalog lacks may have run out.
          same.explanation.goesOnAs = verdict.explanation.goesOnAs
          // A renewal that was taken back before its begin ended then: that is told when it has come.
          if [.refunded, .revoked].contains(verdict.reason), let told = verdict.expiresAt, let begun = same.expiresAt,
            told < begun
          {
            same.expiresAt = told
          }
          #expect(same == verdict, "seed \(seed)")
        }
        continue
      }
      #expect(next >= now, "seed \(seed)")
      let isDue = verdict.reason == .renewalDue
      if let until = verdict.accessUntil, !verdict.isStale || isDue { #expect(next <= max(until, now), "seed \(seed)") }
      if verdict.isStale, !isDue { #expect(next == now, "seed \(seed)") }
      // Worked out again before it is due, it has not moved.
      #expect(evidence.nextCheck(at: next, catalog: catalog, policy: policy) == next, "seed \(seed)")
      let halfway = Date(millisecondsSince1970: (now.millisecondsSince1970 + next.millisecondsSince1970) / 2)
      #expect(evidence.nextCheck(at: halfway, catalog: catalog, policy: policy) == next, "seed \(seed)")
    }
    #expect(none > SeededRandom.cases(300) && none < SeededRandom.cases(2_700))
  }
}
