import Entitlements
import Testing

import struct FoundationEssentials.Date

/// Users with more than one subscription, key, environment or answer.
@Suite struct SeveralSubscriptionsTests {
  // MARK: Nothing that counts

  @Test func `a user without any row has bought nothing`() throws {
    for evidence in [[], answer([]), answer([], gone: true)] {
      let verdict = try evaluate(evidence)
      #expect(verdict.line == "active free no_purchases")
      #expect(verdict.explanation.passedOverCount == 0)
      #expect(verdict.productID == nil)
      #expect(verdict.accessUntil == nil)
    }
  }

  @Test func `rows of unknown products alone are a gap in the catalog`() throws {
    let verdict = try evaluate(answer([row("2", unheardOf, of: "200", until: day(10)), row("1", unheardOf)]))
    #expect(verdict.line == "active free no_known_product")
    #expect(
      verdict.explanation.passedOver == [
        .init(transactionID: "1", productID: unheardOf, cause: .notCatalogued),
        .init(transactionID: "2", productID: unheardOf, cause: .notCatalogued),
      ])
  }

  @Test func `rows of unknown products name the store that they were bought in last`() throws {
    let bought = answer([row("1", unheardOf, from: day(-9), until: day(10))])
    let tested = answer([row("2", unheardOf, from: day(-9), until: day(10))], in: .sandbox)
    let testedLater = answer([row("3", unheardOf, from: day(-8), until: day(10))], in: .sandbox)
    #expect(try evaluate(bought).environment == .production)
    #expect(try evaluate(tested).environment == .sandbox)
    #expect(try evaluate(tested + bought).environment == .production)
    #expect(try evaluate(testedLater + bought).environment == .sandbox)
    #expect(try evaluate([]).environment == nil)
  }

  @Test func `a known product speaks beside unknown ones, even when it ended`() throws {
    let unknown = row("1", unheardOf, of: "200", until: day(10))
    #expect(try evaluate(answer([unknown, row("2", until: day(5))])).line == "active pro renewing")
    #expect(try evaluate(answer([unknown, row("2")], [renewal(intent: 1)])).line == "expired free voluntary")
  }

  @Test func `a catalog that learns a product judges the same evidence anew`() throws {
    let evidence = answer([row("1", unheardOf, until: day(10))])
    let wider = try Catalog(tiers: ["free", "gold"], products: [unheardOf: .init(tier: "gold")])
    let verdict = Entitlement.evaluate(evidence, at: noon, catalog: wider, policy: EntitlementPolicy())
    #expect(verdict.line == "active gold renewing")
  }

  // MARK: All that run

  @Test func `each subscription that gives access has a verdict of its own, the best first`() throws {
    let rules = EntitlementRules(
      catalog: try makeCatalog(), policy: EntitlementPolicy(), sandbox: .testers(["tester"]))
    let evidence =
      answer([
        row("1", of: "100", from: day(-9), until: day(10)), row("2", premium, of: "200", from: day(-9), until: day(5)),
        row("3", proYearly, of: "300", until: day(-1)), row("4", unheardOf, of: "400", until: day(10)),
      ]) + answer([row("5", forever, of: "500", from: day(-9), until: nil)], in: .sandbox)
    // Half a millisecond after noon.
    let now = noon.addingTimeInterval(0.000_456_789)
    let ids = rules.running("anna", evidence, at: now).map(\.explanation.decidedBy)
    #expect(ids == ["2", "1"])
    #expect(rules.running("anna", evidence, at: now).map(\.tier) == ["premium", "pro"])
    #expect(rules.running("tester", evidence, at: now).map(\.explanation.decidedBy) == ["5", "2", "1"])
    #expect(rules.running("anna", evidence, at: day(30)).isEmpty)
    #expect(rules.running("anna", [], at: now).isEmpty)
  }

  // MARK: Which one speaks

  struct Choice: CustomTestStringConvertible, Sendable {
    let name: String
    let rows: [Purchase]
    var renewals: [RenewalInfo] = []
    let decidingRow: TransactionID
    let expected: String
    var testDescription: String { name }
  }

  @Test(arguments: [
    Choice(
      name: "the highest tier, though it ends first",
      rows: [
        row("a", premium, of: "1", group: "A", until: day(1)), row("b", pro, of: "2", group: "B", until: day(300)),
      ],
      decidingRow: "a", expected: "active premium renewing"),
    Choice(
      name: "of the same tier the one that ends last",
      rows: [
        row("a", pro, of: "1", group: "A", until: day(1)), row("b", proYearly, of: "2", group: "B", until: day(300)),
      ],
      decidingRow: "b", expected: "active pro renewing"),
    Choice(
      name: "lifetime ends last of all",
      rows: [row("a", forever, of: "1", until: nil), row("b", premium, of: "2", group: "B", until: day(9000))],
      decidingRow: "a", expected: "active premium lifetime"),
    Choice(
      name: "an entitled lower tier before an ended higher one",
      rows: [row("a", premium, of: "1", group: "A"), row("b", pro, of: "2", group: "B", until: day(1))],
      decidingRow: "b", expected: "active pro renewing"),
    Choice(
      name: "grace of a higher tier before a lower one that runs",
      rows: [row("a", premium, of: "1", group: "A"), row("b", pro, of: "2", group: "B", until: day(100))],
      renewals: [renewal(premium, of: "1", grace: day(2))], decidingRow: "a",
      expected: "grace_period premium billing_grace"),
    Choice(
      name: "a refund of one leaves the other",
      rows: [
        row("a", premium, of: "1", group: "A", until: day(100), cancelled: day(-1)),
        row("b", pro, of: "2", group: "B", until: day(10)),
      ], decidingRow: "b", expected: "active pro renewing"),
    Choice(
      name: "a refunded lifetime leaves the subscription",
      rows: [row("a", forever, of: "1", until: nil, cancelled: day(-1)), row("b", pro, of: "2", until: day(10))],
      decidingRow: "b", expected: "active pro renewing"),
    Choice(
      name: "none entitled: the one that ended last, whatever its tier",
      rows: [
        row("a", premium, of: "1", group: "A", until: day(-9)), row("b", pro, of: "2", group: "B", until: day(-8)),
      ],
      renewals: [renewal(premium, of: "1", intent: 1), renewal(pro, of: "2", intent: 3)], decidingRow: "b",
      expected: "expired free price_increase"),
    Choice(
      name: "none entitled: a refund ended when it was refunded",
      rows: [
        row("a", premium, of: "1", until: day(90), cancelled: day(-7)), row("b", pro, of: "2", until: day(-6)),
      ], renewals: [renewal(pro, of: "2", intent: 1)], decidingRow: "b", expected: "expired free voluntary"),
  ])
  func `the best of several subscriptions decides`(choice: Choice) throws {
    for rows in [choice.rows, choice.rows.reversed()] {
      let verdict = try evaluate(answer(rows, choice.renewals))
      #expect(verdict.line == choice.expected)
      #expect(verdict.explanation.decidedBy == choice.decidingRow)
    }
  }

  // MARK: Groups and keys

  @Test func `in the sandbox every renewal may have an ID of its own; the group makes them one subscription`() throws {
    let rows = (0..<44).map { index in
      row(
        TransactionID("\(1000 + index)"), of: OriginalTransactionID("\(1000 + index)"), group: "G",
        from: day(-1, ms: Int64(index) * 300_000), until: day(-1, ms: Int64(index + 1) * 300_000))
    }
    let renewals = [renewal(of: "1043", renews: false, intent: 1, retry: false)]
    let end = day(-1, ms: 44 * 300_000)
    let before = end.advanced(by: .milliseconds(-1))
    for rows in [rows, rows.reversed()] {
      #expect(
        try evaluate(answer(at: before, rows, renewals, in: .sandbox), at: before).line == "cancelled pro renewal_off"
      )
      let ended = try evaluate(answer(rows, renewals, in: .sandbox))
      #expect(ended.line == "expired free voluntary")
      #expect(ended.explanation.decidedBy == "1043")
      #expect(ended.explanation.passedOver.allSatisfy { $0.cause == .endsEarlier })
      #expect(ended.explanation.passedOverCount == 43)
    }
  }

  @Test func `a fresh answer about the newest key of a group leaves no older key standing`() throws {
    // Each answer names only the newest renewal; the older ones are known from answers that are old by now.
    let first = answer(at: day(-9), [row("1", of: "1", group: "G", from: day(-10), until: day(-4))], in: .sandbox)
    let second = answer([row("2", of: "2", group: "G", from: day(-4), until: day(-1))], in: .sandbox)
    let verdict = try evaluate(first + second)
    #expect(verdict.line == "expired free unknown")
    #expect(verdict.explanation.decidedBy == "2")
  }

  @Test func `an answer that does not mention a key says nothing about it, even in the same group`() throws {
    // Two Apple accounts of one user: the second answer knows nothing of the first account.
    let first = answer(at: day(-20), [row("1", premium, of: "1", group: "G", from: day(-30), until: day(-2))])
    let second = answer(at: day(-1), [row("2", pro, of: "2", group: "G", from: day(-90), until: day(-60))])
    #expect(try evaluate(first).line == "active premium renewing stale")
    #expect(try evaluate(first + second).line == "active premium renewing stale")
  }

  @Test func `without a group the original transaction ID makes a subscription`() throws {
    let verdict = try evaluate(
      answer([row("1", premium, from: day(-50), until: day(-20)), row("2", pro, from: day(-20), until: day(10))]))
    #expect(verdict.line == "active pro renewing")
    #expect(verdict.explanation.passedOver.map(\.cause) == [.endsEarlier])
  }

  @Test func `a row that names no group is in the group that its key names elsewhere`() throws {
    let rows = [
      row("1", of: "1", group: "G", from: day(-50), until: day(-20)),
      row("2", of: "1", from: day(-20), until: day(-1), cancelled: day(-1.5)),
      row("3", of: "3", group: "G", from: day(-40), until: day(-10)),
    ]
    for rows in [rows, rows.reversed()] {
      #expect(try evaluate(answer(rows, [renewal(of: "3", retry: true)])).line == "expired free refunded")
    }
  }

  @Test func `two groups are two subscriptions, even under one original transaction ID`() throws {
    let rows = [row("1", premium, group: "A", until: day(3)), row("2", pro, group: "B", until: day(30))]
    for rows in [rows, rows.reversed()] {
      let verdict = try evaluate(answer(rows, [renewal(premium, renews: false), renewal(pro, renews: true)]))
      #expect(verdict.line == "cancelled premium renewal_off")
      #expect(verdict.explanation.passedOver.map(\.cause) == [.otherSubscription])
    }
  }

  @Test func `a subscription shared by the family stands beside the own one of the same group`() throws {
    let own = row("1", pro, of: "1", group: "G", until: day(40))
    let shared = row("2", premium, of: "2", group: "G", until: day(10), ownership: .familyShared)
    let takenBack = row("2", premium, of: "2", group: "G", until: day(10), cancelled: day(-1), ownership: .familyShared)
    let inRetry = row("1", pro, of: "1", group: "G", until: day(-5))
    let retry = renewal(pro, of: "1", retry: true)
    for (rows, expected) in [
      ([own, shared], "active premium renewing"), ([own, takenBack], "active pro renewing"),
      ([inRetry, takenBack], "grace_period pro billing_retry"), ([inRetry, shared], "active premium renewing"),
      ([takenBack], "expired free revoked"),
    ] {
      #expect(try evaluate(answer(rows, [retry])).line == expected)
      #expect(try evaluate(answer(rows.reversed(), [retry])).line == expected)
    }
  }

  @Test func `a transaction told twice counts once, even where only one telling knows that it is shared`() throws {
    let older = answer(at: day(-2), [row("1", group: "G", until: day(10))], source: .signature)
    let newer = answer([row("1", group: "G", until: day(10), cancelled: day(-1), ownership: .familyShared)])
    #expect(try evaluate(older + newer).line == "expired free revoked")
    #expect(try evaluate(newer + older).line == "expired free revoked")
  }

  @Test func `the two stores are apart, with the same IDs and the same group`() throws {
    let bought = answer([row("1", pro, group: "G", until: day(3))])
    let tested = answer([row("1", premium, group: "G", until: day(2))], [renewal(premium, renews: false)], in: .sandbox)
    for evidence in [bought + tested, tested + bought] {
      let verdict = try evaluate(evidence)
      #expect(verdict.line == "cancelled premium renewal_off")
      #expect(verdict.environment == .sandbox)
      #expect(
        verdict.explanation.passedOver == [.init(transactionID: "1", productID: pro, cause: .otherSubscription)])
    }
    let refunded = answer([row("1", premium, group: "G", until: day(2), cancelled: day(-1))], in: .sandbox)
    #expect(try evaluate(bought + refunded).line == "active pro renewing")
  }

  @Test func `the real store decides between two equal subscriptions`() throws {
    let bought = answer([row("1", until: day(3))])
    let tested = answer([row("1", until: day(3))], in: .sandbox)
    #expect(try evaluate(bought + tested).environment == .production)
    #expect(try evaluate(tested + bought).environment == .production)
  }

  // MARK: Two Apple accounts of one user

  @Test func `the higher tier decides between two purchases of one group at once`() throws {
    let rows = [
      row("a", proYearly, of: "1", group: "G", from: day(-60), until: day(300)),
      row("b", premium, of: "2", group: "G", from: day(-10), until: day(20)),
    ]
    let renewals = [renewal(proYearly, of: "1", renews: false), renewal(premium, of: "2", renews: true)]
    for rows in [rows, rows.reversed()] {
      let verdict = try evaluate(answer(rows, renewals))
      #expect(verdict.line == "active premium renewing")
      #expect(
        verdict.explanation.passedOver == [.init(transactionID: "a", productID: proYearly, cause: .otherSubscription)])
      #expect(verdict.words().contains { $0.contains("Another purchase, of \(proYearly)") })
      // Apple says that the higher one is over, at an hour when it is.
      let over = [renewals[0], renewal(premium, of: "2", intent: 1)]
      #expect(try evaluate(answer(at: day(20), rows, over), at: day(20)).line == "cancelled pro renewal_off")
    }
    // Of one tier the one that ends last, as among all subscriptions.
    let same = [
      row("a", pro, of: "1", group: "G", until: day(3)), row("b", proYearly, of: "2", group: "G", until: day(9)),
    ]
    #expect(try evaluate(answer(same)).explanation.decidedBy == "b")
  }

  @Test(arguments: [
    ("grace", renewal(premium, of: "2", retry: true, grace: day(3)), "grace_period premium billing_grace"),
    ("billing retry", renewal(premium, of: "2", retry: true), "grace_period premium billing_retry"),
    ("late", renewal(premium, of: "2", renews: true), "active premium renewal_due stale"),
    ("over", renewal(premium, of: "2", renews: false, intent: 1), "active pro renewing"),
  ])
  func `the higher of two purchases of one group counts as long as Apple's word on it gives access`(
    name: String, info: RenewalInfo, expected: String
  ) throws {
    let lower = row("a", pro, of: "1", group: "G", from: day(-5), until: day(25))
    let higher = row("b", premium, of: "2", group: "G", from: day(-30), until: day(-0.25))
    let renewals = [renewal(of: "1", renews: true), info]
    for rows in [[lower, higher], [higher, lower]] {
      #expect(try evaluate(answer(rows, renewals)).line == expected, "\(name)")
    }
    // One that had ended when the other was bought is its predecessor.
    let next = row("a", pro, of: "1", group: "G", from: day(-0.25), until: day(30))
    #expect(try evaluate(answer([next, higher], renewals)).line == "active pro renewing", "\(name)")
  }

  @Test func `two purchases of one group are told of by one answer each`() throws {
    let lower = answer(at: day(-1), [row("a", pro, of: "1", group: "G", from: day(-60), until: day(300))])
    let higher = answer(at: day(-9), [row("b", premium, of: "2", group: "G", from: day(-10), until: day(20))])
    for evidence in [lower + higher, higher + lower] {
      #expect(try evaluate(evidence).line == "active premium renewing")
      // Its end alone does not make the other its successor: nobody has asked whether it was renewed.
      #expect(try evaluate(evidence, at: day(21)).line == "active premium renewing stale")
      #expect(try evaluate(evidence, at: day(27)).line == "active pro renewing")
    }
    let refunded = answer([
      row("b", premium, of: "2", group: "G", from: day(-10), until: day(20), cancelled: day(-0.5))
    ])
    #expect(try evaluate(lower + refunded).line == "active pro renewing")
  }

  @Test func `an upgrade under one original transaction ID counts at once, whatever the old row gave`() throws {
    let rows = [
      row("a", premium, group: "G", from: day(-20), until: day(10)),
      row("b", pro, group: "G", from: day(-1), until: day(29)),
    ]
    #expect(try evaluate(answer(rows)).line == "active pro renewing")
    let upgraded = [
      row("a", pro, of: "1", group: "G", from: day(-20), until: day(300), upgraded: true),
      row("b", premium, of: "2", group: "G", from: day(-1), until: day(29)),
    ]
    #expect(try evaluate(answer(upgraded)).explanation.passedOver.map(\.cause) == [.upgraded])
  }

  // MARK: Told twice

  @Test(arguments: [
    (
      "refund told once", row("1", until: day(10)), row("1", until: day(10), cancelled: day(-1)),
      "expired free refunded"
    ),
    ("upgrade told once", row("1", until: day(10)), row("1", until: day(10), upgraded: true), "expired free unknown"),
    ("the same twice", row("1", until: day(10)), row("1", until: day(10)), "active pro renewing"),
    ("end moved out", row("1", until: day(-5)), row("1", until: day(10)), "active pro renewing"),
  ])
  func `a transaction told twice in one answer counts once`(
    name: String, first: Purchase, second: Purchase, expected: String
  ) throws {
    for rows in [[first, second], [second, first]] {
      let verdict = try evaluate(answer(rows))
      #expect(verdict.line == expected)
      #expect(verdict.explanation.passedOverCount == 0)
    }
  }

  @Test func `a billing period told under two transaction IDs counts once, and a refund of it counts`() throws {
    let restored = row("2", until: day(10), period: "900")
    for rows in [
      [row("1", until: day(10), cancelled: day(-1), period: "900"), restored],
      [restored, row("1", until: day(10), cancelled: day(-1), period: "900")],
    ] {
      #expect(try evaluate(answer(rows)).line == "expired free refunded")
    }
    let other = row("1", until: day(9), cancelled: day(-1), period: "900")
    #expect(try evaluate(answer([other, restored])).line == "active pro renewing", "another end is another period")
  }

  @Test(arguments: [true, false])
  func `newer evidence of a transaction replaces older`(newerKnowsOfTheRefund: Bool) throws {
    let plain = row("1", of: "1", group: "G", until: day(10))
    let refunded = row("1", of: "1", group: "G", until: day(10), cancelled: day(-3))
    let older = answer(at: day(-2), [newerKnowsOfTheRefund ? plain : refunded])
    let newer = answer(at: day(-1), [newerKnowsOfTheRefund ? refunded : plain])
    for evidence in [older + newer, newer + older] {
      let expected = newerKnowsOfTheRefund ? "expired free refunded" : "active pro renewing"
      #expect(try evaluate(evidence).line == expected)
    }
  }

  @Test func `newer evidence without a group replaces older evidence with one`() throws {
    let older = answer(at: day(-2), [row("1", group: "G", until: day(10))])
    let newer = answer(at: day(-1), [row("1", until: day(10), cancelled: day(-1.5))])
    #expect(try evaluate(older + newer).line == "expired free refunded")
    #expect(try evaluate(newer + older).line == "expired free refunded")
  }

  // MARK: Account gone

  @Test func `an account that is gone ends its subscriptions at once`() throws {
    for purchase in [row("1", until: day(10)), row("1"), row("1", forever, until: nil)] {
      let verdict = try evaluate(answer([purchase], [renewal(renews: true, grace: day(3))], gone: true))
      #expect(verdict.line == "expired free account_gone")
      #expect(verdict.accessUntil == nil)
      #expect(verdict.explanation.decidedBy == "1")
    }
  }

  @Test func `an account that is gone says nothing about another subscription`() throws {
    let gone = answer([row("1", premium, of: "1", until: day(100))], gone: true)
    let running = answer(at: day(-1), [row("2", pro, of: "2", until: day(10))])
    for evidence in [gone + running, running + gone] {
      let verdict = try evaluate(evidence)
      #expect(verdict.line == "active pro renewing")
      #expect(
        verdict.explanation.passedOver == [.init(transactionID: "1", productID: premium, cause: .accountGone)])
    }
  }

  @Test func `a deleted account counts, of two reports of the same moment`() throws {
    let gone = answer([row("1", until: day(10))], gone: true)
    let there = answer([row("1", until: day(10))])
    #expect(try evaluate(gone + there).line == "expired free account_gone")
    #expect(try evaluate(there + gone).line == "expired free account_gone")
  }
}
