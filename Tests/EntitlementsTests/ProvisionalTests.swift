import Entitlements
import Testing

import struct FoundationEssentials.Date

/// Grants on Apple's signature alone. The receipt was signed an hour before `noon`, the grant ends a day after it.
@Suite struct ProvisionalTests {
  static let signed = day(-1.0 / 24)

  private static func history(_ rows: [Purchase], signed: Date = signed, gone: Bool = false) -> PurchaseHistory {
    PurchaseHistory(
      environment: .production, source: .signature, evidenceTime: signed, evaluatedAt: noon, purchases: rows,
      isAccountGone: gone)
  }

  private func provisional(
    _ rows: [Purchase], signed: Date = signed, at now: Date = noon, until: Date = day(1)
  ) throws -> [SubscriptionEvidence] {
    Self.history(rows, signed: signed).provisionalEvidence(at: now, until: until, catalog: try makeCatalog())
  }

  // MARK: What a receipt may grant

  struct Offer: CustomTestStringConvertible, Sendable {
    let name: String
    let rows: [Purchase]
    var granted: [TransactionID] = []
    var testDescription: String { name }
  }

  @Test(arguments: [
    Offer(name: "running", rows: [row("1", until: day(10))], granted: ["1"]),
    Offer(name: "a millisecond before its end", rows: [row("1", until: day(0, ms: 1))], granted: ["1"]),
    Offer(name: "at its end", rows: [row("1", until: noon)]),
    Offer(name: "ended", rows: [row("1")]),
    Offer(name: "no end", rows: [row("1", until: nil)]),
    Offer(name: "lifetime", rows: [row("1", forever, until: nil)], granted: ["1"]),
    Offer(name: "lifetime, refunded", rows: [row("1", forever, until: nil, cancelled: day(-1))]),
    Offer(
      name: "lifetime, restored and refunded",
      rows: [row("1", forever, until: nil, cancelled: day(-1)), row("2", forever, until: nil)]),
    Offer(
      name: "lifetime, bought again",
      rows: [row("1", forever, until: nil, cancelled: day(-1)), row("2", forever, of: "200", until: nil)],
      granted: ["2"]),
    Offer(name: "refunded", rows: [row("1", until: day(10), cancelled: day(-1))]),
    Offer(name: "refunded in the future", rows: [row("1", until: day(10), cancelled: day(1))]),
    Offer(name: "upgraded", rows: [row("1", until: day(10), upgraded: true)]),
    Offer(
      name: "upgraded, which a receipt never says",
      rows: [row("1", proYearly, until: day(300)), row("2", premium, from: day(-20), until: day(10))], granted: ["2"]),
    Offer(
      name: "upgraded, and its successor is over",
      rows: [row("1", proYearly, until: day(300)), row("2", premium, from: day(-32), until: day(-2))]),
    Offer(name: "of no catalogued product", rows: [row("1", unheardOf, until: day(10))]),
    Offer(name: "nothing", rows: []),
    Offer(
      name: "the running one of many",
      rows: [row("1", from: day(-60), until: day(-30)), row("2", until: day(10)), row("3", of: "300")], granted: ["2"]),
    Offer(
      name: "several subscriptions",
      rows: [row("1", until: day(10)), row("2", premium, of: "200", until: day(5)), row("3", forever, of: "300")],
      granted: ["1", "2", "3"]),
  ])
  func `a signed receipt grants what runs by itself, and nothing else`(offer: Offer) throws {
    for rows in [offer.rows, offer.rows.reversed()] {
      let evidence = try provisional(rows)
      #expect(evidence.flatMap(\.purchases).map(\.transactionID.rawValue).sorted() == offer.granted.map(\.rawValue))
      #expect(evidence.allSatisfy { $0.provisionalUntil == day(1) && $0.evidenceTime == Self.signed })
      #expect(evidence.allSatisfy { $0.source == .signature && !$0.purchases.isEmpty && $0.renewals.isEmpty })
    }
  }

  @Test(arguments: [
    ("signed now", noon, true),
    ("five minutes ahead of our clock", day(0, ms: 300_000), true),
    ("further ahead", day(0, ms: 300_001), false),
    ("a year ahead: our clock jumped back", day(365), false),
    ("a year ago, with a yearly subscription", day(-365), true),
  ])
  func `a signature of the future grants nothing, and one of the past what still runs`(
    name: String, signed: Date, granted: Bool
  ) throws {
    for purchase in [row("1", until: day(900)), row("1", forever, until: nil)] {
      #expect(try !provisional([purchase], signed: signed).isEmpty == granted, "\(name)")
    }
  }

  @Test func `nothing is granted for no time, nor of an account that is gone`() throws {
    #expect(try provisional([row("1", until: day(10))], until: noon).isEmpty)
    #expect(try provisional([row("1", until: day(10))], until: day(-1)).isEmpty)
    let gone = Self.history([row("1", until: day(10))], gone: true)
    #expect(gone.provisionalEvidence(at: noon, until: day(1), catalog: try makeCatalog()).isEmpty)
  }

  @Test func `the same receipt presented again and again ends when it ended the first time`() throws {
    let rows = [row("1", forever, until: nil)]
    for hour in 0..<48 {
      let now = day(Double(hour) / 24)
      #expect(try evaluate(provisional(rows, at: now), at: now).tier == (hour < 24 ? "premium" : "free"))
    }
  }

  // MARK: The verdict

  @Test func `a provisional verdict says so`() throws {
    let verdict = try evaluate(provisional([row("1", from: day(-1), until: day(30), trial: true)]))
    #expect(verdict.line == "active pro renewing")
    #expect(verdict.isProvisional)
    #expect(!verdict.isStale)
    #expect(verdict.accessUntil == day(1))
    #expect(verdict.expiresAt == day(30))
    #expect(verdict.willRenew == nil)
    #expect(verdict.nextProductID == nil)
    #expect(verdict.isTrial)
    #expect(verdict.source == .signature)
    #expect(verdict.evidenceTime == Self.signed)
    #expect(verdict.explanation.policy == .init(key: "policy.provisional", value: "1d"))
    #expect(verdict.explanation.decidedBy == "1")
  }

  @Test(arguments: [
    ("a subscription ends first", row("1", until: day(0.5)), day(0.5), "active pro renewing"),
    ("the grant ends first", row("1", until: day(30)), day(1), "active pro renewing"),
    ("both at once", row("1", until: day(1)), day(1), "active pro renewing"),
    ("lifetime", row("1", forever, until: nil), day(1), "active premium lifetime"),
    ("lifetime with an end", row("1", forever, until: day(30)), day(1), "active premium lifetime"),
  ])
  func `a grant runs until its end, and then it was never there`(
    name: String, purchase: Purchase, end: Date, line: String
  ) throws {
    let evidence = try provisional([purchase])
    for moment in [noon, end.advanced(by: .milliseconds(-1))] {
      let verdict = try evaluate(evidence, at: moment)
      #expect(verdict.line == line)
      #expect(verdict.accessUntil == end)
      #expect(verdict.isProvisional)
    }
    for moment in [end, end.advanced(by: .milliseconds(1)), day(4000)] {
      #expect(try evaluate(evidence, at: moment) == evaluate([], at: moment))
      #expect(try evaluate(evidence, at: moment).line == "active free no_purchases")
    }
  }

  struct Meeting: CustomTestStringConvertible, Sendable {
    let name: String
    let proven: [SubscriptionEvidence]
    var offered = row("1", until: day(10))
    let expected: String
    var isProvisional = false
    var testDescription: String { name }
  }

  static let older = day(-5)
  @Test(arguments: [
    Meeting(
      name: "proof that is newer", proven: answer(at: signed.advanced(by: .milliseconds(1)), [row("1")]),
      expected: "expired free unknown"),
    Meeting(
      name: "proof of the same moment", proven: answer(at: signed, [row("1")]), expected: "expired free unknown"),
    Meeting(
      name: "proof that is older", proven: answer(at: signed.advanced(by: .milliseconds(-1)), [row("0")]),
      expected: "active pro renewing", isProvisional: true),
    Meeting(
      name: "an old refund of this purchase",
      proven: answer(at: older, [row("1", until: day(10), cancelled: day(-6))]), expected: "expired free refunded"),
    Meeting(
      name: "an old refund of this purchase under another ID",
      proven: answer(at: older, [row("9", of: "900", until: day(10), cancelled: day(-6), period: "77")]),
      offered: row("1", until: day(10), period: "77"), expected: "expired free refunded"),
    Meeting(
      name: "an old refund of this purchase for life under another ID",
      proven: answer(at: older, [row("9", forever, until: nil, cancelled: day(-6))]),
      offered: row("1", forever, until: nil), expected: "expired free refunded"),
    Meeting(
      name: "an old refund of another purchase",
      proven: answer(at: older, [row("0", until: day(10), cancelled: day(-6))]), expected: "active pro renewing",
      isProvisional: true),
    Meeting(
      name: "the same ID refunded in the other store",
      proven: answer(at: older, [row("1", until: day(10), cancelled: day(-6))], in: .sandbox),
      expected: "active pro renewing", isProvisional: true),
    Meeting(
      name: "known as upgraded", proven: answer(at: older, [row("1", until: day(10), upgraded: true)]),
      expected: "expired free unknown"),
    Meeting(
      name: "an account that is gone since",
      proven: answer([row("1", until: day(10))], gone: true), expected: "expired free account_gone"),
    Meeting(
      name: "a higher tier that is proven", proven: answer(at: older, [row("2", premium, of: "200", until: day(0.1))]),
      expected: "active premium renewing"),
    Meeting(
      name: "a lower tier that is proven", proven: answer(at: older, [row("2", of: "200", until: day(300))]),
      offered: row("1", premium, until: day(10)), expected: "active premium renewing", isProvisional: true),
    Meeting(
      name: "the same tier, proven for longer", proven: answer(at: older, [row("2", of: "200", until: day(2))]),
      expected: "active pro renewing"),
    Meeting(
      name: "the same tier and end", proven: answer(at: older, [row("0", of: "200", until: day(1))]),
      expected: "active pro renewing"),
    Meeting(
      name: "the same tier, proven for less", proven: answer(at: older, [row("2", of: "200", until: day(0.5))]),
      expected: "active pro renewing", isProvisional: true),
    Meeting(
      name: "a later end of the same group, of a lower tier",
      proven: answer(at: older, [row("2", of: "200", group: "G", until: day(300))]),
      offered: row("1", premium, group: "G", until: day(10)), expected: "active premium renewing",
      isProvisional: true),
    Meeting(
      name: "a refund in the same group", proven: answer([row("2", of: "200", group: "G", cancelled: day(-6))]),
      offered: row("1", group: "G", until: day(10)), expected: "active pro renewing", isProvisional: true),
    Meeting(
      name: "a held state of a lower tier",
      proven: answer(at: day(-9), [row("2", of: "200", until: day(-1))]), offered: row("1", premium, until: day(10)),
      expected: "active premium renewing", isProvisional: true),
  ])
  func `beside proof the best speaks, and proof of the same subscription before it`(meeting: Meeting) throws {
    let evidence = try provisional([meeting.offered])
    #expect(evidence.count == 1)
    for evidence in [meeting.proven + evidence, evidence + meeting.proven] {
      let verdict = try evaluate(evidence)
      #expect(verdict.line == meeting.expected)
      #expect(verdict.isProvisional == meeting.isProvisional)
    }
  }

  @Test func `a grant told beside proof of the same purchase is named once`() throws {
    // Apple moved the end out; only the receipt knows.
    let proven = answer(at: day(-9), [row("1", until: day(-1)), row("0", from: day(-70), until: day(-40))])
    let verdict = try evaluate(proven + provisional([row("1", until: day(10))]))
    #expect(verdict.isProvisional)
    #expect(verdict.explanation.decidedBy == "1")
    #expect(verdict.explanation.passedOver == [.init(transactionID: "0", productID: pro, cause: .endsEarlier)])
  }

  @Test func `two receipts of one purchase are two grants, and the longer one speaks`() throws {
    let first = try provisional([row("1", until: day(10))])
    let second = try provisional([row("1", until: day(10))], signed: noon, until: day(2))
    for evidence in [first + second, second + first] {
      let verdict = try evaluate(evidence)
      #expect(verdict.accessUntil == day(2))
      #expect(verdict.explanation.passedOverCount == 0)
    }
  }
}
