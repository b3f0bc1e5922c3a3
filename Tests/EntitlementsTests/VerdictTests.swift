import Entitlements
import Testing

import struct FoundationEssentials.Date

/// The parts of a verdict beside its line: the purchase, the renewal, the explanation.
@Suite struct VerdictTests {
  @Test func `a verdict names the purchase, its end and where the proof came from`() throws {
    let verdict = try evaluate(
      answer(
        [row("1", from: day(-20), until: day(10), ownership: .familyShared, trial: true)], [renewal(renews: true)],
        in: .sandbox, source: .serverAPI))
    #expect(verdict.productID == pro)
    #expect(verdict.originalTransactionID == "100")
    #expect(verdict.environment == .sandbox)
    #expect(verdict.source == .serverAPI)
    #expect(verdict.evidenceTime == noon)
    #expect(verdict.expiresAt == day(10))
    #expect(verdict.accessUntil == day(10))
    #expect(verdict.willRenew == true)
    #expect(verdict.isTrial)
    #expect(verdict.ownership == .familyShared)
    #expect(!verdict.isStale)
    #expect(!verdict.isProvisional)
  }

  @Test(arguments: [(true, false), (false, true), (false, false), (true, true)])
  func `a trial is a trial; another introductory offer is not`(trial: Bool, intro: Bool) throws {
    let verdict = try evaluate(answer([row("1", until: day(10), trial: trial, intro: intro)]))
    #expect(verdict.isTrial == trial)
    #expect(verdict.tier == "pro")
  }

  @Test func `lifetime has neither an expiry nor an end of access`() throws {
    let verdict = try evaluate(answer([row("1", forever, until: nil)]))
    #expect(verdict.expiresAt == nil)
    #expect(verdict.accessUntil == nil)
    #expect(verdict.willRenew == nil)
  }

  @Test(arguments: [
    (row("1", until: day(10), cancelled: day(-2)), day(-2)),
    (row("1", until: day(-5), cancelled: day(-2)), day(-5)),
    (row("1", forever, until: nil, cancelled: day(-2)), day(-2)),
    (row("1", from: day(-1), until: day(29), cancelled: day(-1.5)), day(-1)),
  ])
  func `a refunded purchase expired when it was taken back, or when it ended before that`(
    refunded: Purchase, expiresAt: Date
  ) throws {
    let verdict = try evaluate(answer([refunded]))
    #expect(verdict.expiresAt == expiresAt)
    #expect(verdict.accessUntil == nil)
  }

  @Test(
    arguments: [
      ("an upgrade to what is not told", answer([row("1", until: day(265), upgraded: true)])),
      (
        "an upgrade to a product that the catalog lacks",
        answer([row("1", until: day(265), upgraded: true), row("2", unheardOf, from: day(0), until: day(20))])
      ),
      ("an account that is gone", answer([row("1", until: day(265))], [renewal(renews: true)], gone: true)),
      ("an account that is gone, and a purchase for life", answer([row("1", forever, until: nil)], gone: true)),
      ("a refund dated ahead", answer([row("1", until: day(10), cancelled: day(3))])),
    ] as [(String, [SubscriptionEvidence])])
  func `an access that is over has no end to come`(name: String, evidence: [SubscriptionEvidence]) throws {
    for now in [noon, day(1), day(2)] {
      let verdict = try evaluate(evidence, at: now)
      #expect(verdict.status == .expired && verdict.expiresAt == noon, "\(name)")
      #expect(!verdict.words().joined().contains("2025"), "\(name)")
    }
  }

  @Test func `an upgrade and a deleted account stay dated when the paid time has passed`() throws {
    let upgraded = answer([row("1", until: day(10), upgraded: true)])
    let gone = answer([row("1", until: day(10))], gone: true)
    for evidence in [upgraded, gone] { #expect(try evaluate(evidence, at: day(20)).expiresAt == noon) }
  }

  @Test(
    arguments: [
      (row("2", unheardOf, from: day(-5), until: day(25)), unheardOf),
      (row("2", unheardOf, from: day(-5), until: day(-1)), nil),
      (row("2", unheardOf, from: day(-5), until: day(25), cancelled: day(-1)), nil),
      (row("2", unheardOf, from: day(-65), until: day(25)), nil),
    ] as [(Purchase, ProductID?)])
  func `a subscription that goes on under a product of no catalog did not end`(
    successor: Purchase, goesOnAs: ProductID?
  ) throws {
    for former in [row("1"), row("1", until: day(265), upgraded: true)] {
      let verdict = try evaluate(answer([former, successor]))
      #expect(verdict.line == "expired free unknown")
      #expect(verdict.explanation.goesOnAs == goesOnAs)
      #expect(verdict.words().joined().contains("The subscription ended") == (goesOnAs == nil))
    }
  }

  @Test func `no renewal is to come of an account that is gone`() throws {
    let verdict = try evaluate(answer([row("1", until: day(10))], [renewal(next: premium, renews: true)], gone: true))
    #expect(verdict.willRenew == nil && verdict.nextProductID == nil)
  }

  @Test(arguments: [(pro, nil), (premium, premium), (nil, nil)] as [(ProductID?, ProductID?)])
  func `the next product is named where it is another`(next: ProductID?, named: ProductID?) throws {
    let verdict = try evaluate(answer([row("1", until: day(10))], [renewal(next: next, renews: true)]))
    #expect(verdict.nextProductID == named)
  }

  @Test func `a downgrade that waits for the renewal leaves the tier as it is`() throws {
    let verdict = try evaluate(
      answer([row("1", premium, until: day(10))], [renewal(premium, next: pro, renews: true)]))
    #expect(verdict.line == "active premium renewing")
    #expect(verdict.nextProductID == pro)
  }

  @Test func `grace tells the paid end and the end of access apart`() throws {
    let verdict = try evaluate(answer([row("1")], [renewal(grace: day(3))]))
    #expect(verdict.expiresAt == day(-5))
    #expect(verdict.accessUntil == day(3))
  }

  // MARK: Renewal info

  @Test(
    arguments: [
      ("by ID", [renewal(renews: false)], false),
      ("by ID although it names another product", [renewal(premium, renews: false)], false),
      ("by ID where no product is given", [renewal(nil, renews: false)], false),
      ("by product where no ID is given", [renewal(of: nil, renews: false)], false),
      ("another ID, same product: not joined", [renewal(of: "999", renews: false)], nil),
      ("another ID and another product", [renewal(premium, of: "999", renews: false)], nil),
      ("another product and no ID", [renewal(premium, of: nil, renews: false)], nil),
      ("neither", [renewal(nil, of: nil, renews: false)], nil),
      ("none", [], nil),
      ("of two by ID, the one of the product", [renewal(premium, renews: false), renewal(pro, renews: true)], true),
      ("ID before product", [renewal(of: nil, renews: false), renewal(premium, renews: true)], true),
      ("its own among others'", [renewal(of: "999", renews: false), renewal(renews: true)], true),
    ] as [(String, [RenewalInfo], Bool?)])
  func `renewal info is matched, never joined blindly`(name: String, renewals: [RenewalInfo], renews: Bool?) throws {
    let running = row("1", until: day(10))
    for renewals in [renewals, renewals.reversed()] {
      // Once sorted out as the answer was taken apart, and once with everything left to the judgement.
      var unsorted = answer([running])
      for index in unsorted.indices { unsorted[index].renewals = renewals }
      for evidence in [answer([running], renewals), unsorted] {
        let verdict = try evaluate(evidence)
        #expect(verdict.willRenew == renews, "\(name)")
        #expect(verdict.status == (renews == false ? .cancelled : .active), "\(name)")
      }
    }
  }

  @Test func `renewal info without an ID speaks only for rows of its product, also within one key`() throws {
    let rows = [row("1", premium, from: day(-60), until: day(-30)), row("2", pro, from: day(-30), until: day(-1))]
    #expect(try evaluate(answer(rows, [renewal(premium, of: nil, grace: day(3))])).line == "expired free unknown")
    #expect(
      try evaluate(answer(rows, [renewal(pro, of: nil, grace: day(3))])).line == "grace_period pro billing_grace")
  }

  @Test func `a mismatched grace date grants nothing`() throws {
    let verdict = try evaluate(answer([row("1")], [renewal(of: "999", retry: true, grace: day(3))]))
    #expect(verdict.line == "expired free unknown")
  }

  @Test func `each subscription of an answer gets its own renewal info`() throws {
    let rows = [row("1", pro, of: "100"), row("2", premium, of: "200")]
    let verdict = try evaluate(
      answer(rows, [renewal(pro, of: "100", grace: day(3)), renewal(premium, of: "200", intent: 1)]))
    #expect(verdict.line == "grace_period pro billing_grace")
    let mirrored = try evaluate(
      answer(rows, [renewal(pro, of: "100", intent: 1), renewal(premium, of: "200", grace: day(3))]))
    #expect(mirrored.line == "grace_period premium billing_grace")
  }

  @Test func `a refunded row shows its own renewal info, not that of the row before`() throws {
    let verdict = try evaluate(
      answer(
        [
          row("1", premium, from: day(-50), until: day(-20)),
          row("2", pro, from: day(-20), until: day(10), cancelled: day(-1)),
        ], [renewal(premium, renews: true), renewal(pro, renews: false)]))
    #expect(verdict.line == "expired free refunded")
    #expect(verdict.willRenew == false)
  }

  // MARK: Explanation

  @Test func `the explanation says which row decided and why the others did not`() throws {
    let verdict = try evaluate(
      answer([
        row("old", from: day(-50), until: day(-20)),
        row("current", from: day(-10), until: day(20)),
        row("upgraded", proYearly, until: day(300), upgraded: true),
        row("refunded", from: day(-80), until: day(-50), cancelled: day(-60)),
        row("both", until: day(200), cancelled: day(-60), upgraded: true),
        row("unknown", unheardOf, until: day(400)),
        row("endless", until: nil),
      ]))
    #expect(verdict.reason == .renewing)
    #expect(verdict.explanation.decidedBy == "current")
    #expect(verdict.explanation.evaluatedAt == noon)
    #expect(verdict.explanation.policy == nil)
    let causes = Dictionary(
      uniqueKeysWithValues: verdict.explanation.passedOver.map { ($0.transactionID, $0.cause) })
    #expect(
      causes == [
        "old": .endsEarlier, "upgraded": .upgraded, "refunded": .cancelled, "both": .upgraded,
        "unknown": .notCatalogued, "endless": .noExpiry,
      ])
    #expect(verdict.explanation.passedOverCount == 6)
  }

  @Test func `the explanation covers the subscriptions that lost`() throws {
    let verdict = try evaluate(
      answer([
        row("a1", premium, of: "100", until: day(10)),
        row("b1", pro, of: "200", from: day(-60), until: day(-30)), row("b2", pro, of: "200", until: day(20)),
        row("c1", premium, of: "300", until: day(40), cancelled: day(-1)),
        row("d1", unheardOf, of: "400", until: day(40)),
      ]))
    #expect(verdict.explanation.decidedBy == "a1")
    let causes = verdict.explanation.passedOver.map { "\($0.transactionID) \($0.productID) \($0.cause.rawValue)" }
    #expect(
      causes == [
        "b2 \(pro) other_subscription", "b1 \(pro) ends_earlier", "c1 \(premium) cancelled",
        "d1 \(unheardOf) not_catalogued",
      ])
  }

  @Test(arguments: [0, 1, 49, 50, 51, 400])
  func `at most fifty rows are listed, and all are counted`(count: Int) throws {
    let old = (0..<count).map { row(TransactionID("\($0)"), from: day(-900), until: day(-800 + Double($0))) }
    let verdict = try evaluate(answer(old + [row("current", until: day(900))]))
    #expect(verdict.explanation.passedOverCount == count)
    #expect(verdict.explanation.passedOver.count == min(count, Explanation.passedOverLimit))
    #expect(verdict.explanation.decidedBy == "current")
  }

  @Test(arguments: [
    (Duration.seconds(60 * 86_400), noon, "60d", true), (.seconds(36 * 3600), noon, "36h", false),
    (.seconds(90), noon, "90s", false), (.zero, noon, "0", false), (.seconds(60 * 86_400), day(55), "60d", false),
  ])
  func `billing retry names the policy that decided, for and against`(
    access: Duration, now: Date, text: String, isEntitled: Bool
  ) throws {
    let verdict = try evaluate(answer(at: now, [row("1")], [renewal(retry: true)]), at: now, retryAccess: access)
    #expect(verdict.explanation.policy == .init(key: "policy.billing_retry_access", value: text))
    #expect((verdict.reason == .billingRetry) == isEntitled)
  }
}
