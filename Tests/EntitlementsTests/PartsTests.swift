import Entitlements
import Testing

import struct FoundationEssentials.Date

/// The verdicts on a subscription that Apple told of in parts. Each case is merged in every order.
@Suite struct PartsTests {
  struct Part: Sendable {
    let at: Date
    var row: Purchase?
    var renewal: RenewalInfo?
    /// An answer that tells all, in place of the row.
    var whole: [Purchase]?
    var gone = false

    var evidence: SubscriptionEvidence? {
      if let whole {
        return answer(at: at, whole, [renewal].compactMap { $0 }, gone: gone).first
      }
      var (row, renewal) = (row, renewal)
      row?.reportedAt = at
      renewal?.reportedAt = at
      return answer(
        at: at, [row].compactMap { $0 }, [renewal].compactMap { $0 }, source: .notification, isPart: true
      ).first
    }
  }

  struct Case: CustomTestStringConvertible, Sendable {
    let name: String
    let parts: [Part]
    var now = noon
    let expected: String
    var accessUntil: Date?
    var decidedBy: TransactionID?
    var known: Explanation.PeriodSource?
    var testDescription: String { name }
  }

  /// A month of pro that ended five days ago, and the one after it.
  static let first = row("1", from: day(-35), until: day(-5))
  static let second = row("2", from: day(-5), until: day(25))
  static let running = row("1", from: day(-20), until: day(10))

  static func refunded(_ row: Purchase, at moment: Date) -> Purchase {
    var row = row
    row.cancellationDate = moment
    return row
  }

  static func info(
    _ product: ProductID = pro, next: ProductID? = nil, renews: Bool? = true, intent: Int? = nil, retry: Bool? = nil,
    grace: Date? = nil, end: Date? = nil
  ) -> RenewalInfo {
    var info = renewal(product, next: next, renews: renews, intent: intent, retry: retry, grace: grace)
    info.periodEnd = end
    return info
  }

  private func check(_ item: Case) throws {
    for order in item.parts.compactMap(\.evidence).orders {
      let merged = try #require(order.dropFirst().reduce(order.first) { $0?.merging($1) })
      let verdict = try evaluate([merged], at: item.now)
      #expect(verdict.line == item.expected)
      #expect(verdict.accessUntil == item.accessUntil)
      #expect(verdict.explanation.periodKnownBy == item.known)
      if let decidedBy = item.decidedBy { #expect(verdict.explanation.decidedBy == decidedBy) }
    }
  }

  @Test(arguments: [
    Case(
      name: "a newer period runs",
      parts: [
        Part(at: day(-35), row: first, renewal: info(end: day(-5))),
        Part(at: day(-5), row: second, renewal: info(end: day(25))),
        Part(at: day(-2), row: refunded(first, at: day(-2)), renewal: info(end: day(25))),
      ], expected: "active pro renewing", accessUntil: day(25), decidedBy: "2"),
    Case(
      name: "a newer period runs, which only the renewal info tells of",
      parts: [
        Part(at: day(-35), row: first, renewal: info(end: day(-5))),
        Part(at: day(-2), row: refunded(first, at: day(-2)), renewal: info(end: day(25))),
      ], expected: "active pro renewing", accessUntil: day(25), decidedBy: "1", known: .renewalInfo),
    Case(
      name: "a newer period, untold, whose end is not told either: held",
      parts: [
        Part(at: day(-35), row: first, renewal: info()),
        Part(at: day(-2), row: refunded(first, at: day(-2)), renewal: info()),
      ], expected: "active pro renewing stale", accessUntil: day(-5)),
    Case(
      name: "the same, when the hold is over",
      parts: [
        Part(at: day(-35), row: first, renewal: info()),
        Part(at: day(-2), row: refunded(first, at: day(-2)), renewal: info()),
      ], now: day(2), expected: "expired free unproven stale"),
    Case(
      name: "the same, but the subscription ended",
      parts: [
        Part(at: day(-35), row: first, renewal: info()),
        Part(at: day(-2), row: refunded(first, at: day(-2)), renewal: info(renews: false, intent: 1)),
      ], expected: "expired free refunded"),
    Case(
      name: "nothing tells of a newer one",
      parts: [Part(at: day(-35), row: first), Part(at: day(-2), row: refunded(first, at: day(-2)))],
      expected: "expired free refunded"),
    Case(
      name: "an answer that tells all knows of no newer one",
      parts: [
        Part(at: day(-3), renewal: info(), whole: [first]), Part(at: day(-2), row: refunded(first, at: day(-2))),
      ], expected: "expired free refunded"),
    Case(
      name: "of the period that runs",
      parts: [
        Part(at: day(-20), row: running, renewal: info(end: day(10))),
        Part(at: day(-1), row: refunded(running, at: day(-1)), renewal: info(end: day(10))),
      ], expected: "expired free refunded", decidedBy: "1"),
    Case(
      name: "of the period that runs, and taken back",
      parts: [
        Part(at: day(-20), row: running), Part(at: day(-2), row: refunded(running, at: day(-2))),
        Part(at: day(-1), row: running),
      ], expected: "active pro renewing", accessUntil: day(10)),
    Case(
      name: "a copy that was signed before it",
      parts: [Part(at: day(-3), row: running), Part(at: day(-2), row: refunded(running, at: day(-2)))],
      expected: "expired free refunded"),
    Case(
      name: "a family member shares no more",
      parts: [
        Part(at: day(-20), row: row("1", from: day(-20), until: day(10), ownership: .familyShared)),
        Part(
          at: day(-1), row: row("1", from: day(-20), until: day(10), cancelled: day(-1), ownership: .familyShared)),
      ], expected: "expired free revoked"),
    Case(
      name: "by Apple's status alone, while it runs",
      parts: [
        Part(at: day(-20), row: running), Part(at: day(-1), row: running, renewal: renewal(status: .revoked)),
      ], expected: "expired free refunded"),
    Case(
      name: "by the status in an answer",
      parts: [Part(at: day(-1), renewal: renewal(status: .revoked), whole: [running])],
      expected: "expired free refunded"),
    Case(
      name: "not by a status that is older than a report of the row without it",
      parts: [
        Part(at: day(-2), row: running, renewal: renewal(status: .revoked)), Part(at: day(-1), row: running),
      ], expected: "active pro renewing", accessUntil: day(10)),
    Case(
      name: "not by the status of the next period, which was paid ahead and taken back",
      parts: [
        Part(at: day(-20), row: running),
        Part(
          at: day(-0.1), row: row("2", from: day(10), until: day(40), cancelled: day(-0.1)),
          renewal: renewal(renews: false, status: .revoked)),
      ], expected: "cancelled pro renewal_off", accessUntil: day(10)),
    Case(
      name: "a purchase for life", parts: [Part(at: day(-20), row: row("1", forever, from: day(-20), until: nil))],
      expected: "active premium lifetime"),
    Case(
      name: "a purchase for life, refunded",
      parts: [
        Part(at: day(-20), row: row("1", forever, from: day(-20), until: nil)),
        Part(at: day(-1), row: row("1", forever, from: day(-20), until: nil, cancelled: day(-1))),
      ], expected: "expired free refunded"),
  ])
  func `a refund takes back its own transaction`(item: Case) throws { try check(item) }

  @Test func `a period that Apple's status alone took back ended when that was told`() throws {
    let told = answer(at: day(-1), [Self.running], [renewal(status: .revoked)])
    for now in [noon, day(20)] { #expect(try evaluate(told, at: now).expiresAt == day(-1)) }
  }

  static let year = row("1", proYearly, from: day(-100), until: day(265))
  static let upgrade = row("2", premium, from: day(-10), until: day(20))
  static let month = row("1", from: day(-15), until: day(15))

  @Test(arguments: [
    Case(
      name: "its successor runs", parts: [Part(at: day(-100), row: year), Part(at: day(-10), row: upgrade)],
      expected: "active premium renewing", accessUntil: day(20), decidedBy: "2"),
    Case(
      name: "its successor is over",
      parts: [
        Part(at: day(-100), row: year), Part(at: day(-10), row: upgrade),
        Part(at: day(20), row: upgrade, renewal: info(premium, renews: false, intent: 1)),
      ], now: day(21), expected: "expired free voluntary", decidedBy: "2"),
    Case(
      name: "its successor, which would have ended later, was refunded",
      parts: [
        Part(at: day(-15), row: month), Part(at: day(-10), row: upgrade),
        Part(at: day(-1), row: refunded(upgrade, at: day(-1))),
      ], expected: "expired free refunded", decidedBy: "2"),
    Case(
      name: "not what was refunded before the later purchase",
      parts: [
        Part(at: day(-12), row: refunded(year, at: day(-12))), Part(at: day(-10), row: refunded(upgrade, at: day(-9))),
      ], expected: "expired free refunded", decidedBy: "2"),
    Case(
      name: "also for the hours that were left to it",
      parts: [
        Part(at: day(-29), row: row("1", from: day(-29), until: day(1))),
        Part(
          at: day(0.4), row: row("2", premium, from: day(0.2), until: day(31), cancelled: day(0.3))),
      ], now: day(0.5), expected: "expired free refunded", decidedBy: "2"),
    Case(
      name: "an answer that tells all says itself what was upgraded",
      parts: [Part(at: day(-1), whole: [year, upgrade])], expected: "active pro renewing", accessUntil: day(265),
      decidedBy: "1"),
    Case(
      name: "between an answer and a part",
      parts: [
        Part(at: day(-50), whole: [year]), Part(at: day(-10), row: upgrade),
        Part(at: day(20), row: upgrade, renewal: info(premium, renews: false, intent: 1)),
      ], now: day(21), expected: "expired free voluntary"),
    Case(
      name: "a renewal info of before the upgrade names no period of its successor",
      parts: [
        Part(at: day(-100), row: year, renewal: info(proYearly, end: day(265))), Part(at: day(-10), row: upgrade),
      ], now: day(21), expected: "active premium renewing stale", accessUntil: day(20)),
  ])
  func `a row that overlaps a later purchase was upgraded`(item: Case) throws { try check(item) }

  static let plan = row("1", premium, from: day(-20), until: day(10))

  @Test(arguments: [
    Case(
      name: "a downgrade waits for the end of the period",
      parts: [
        Part(at: day(-20), row: plan), Part(at: day(-1), row: plan, renewal: info(premium, next: pro, end: day(10))),
      ], expected: "active premium renewing", accessUntil: day(10)),
    Case(
      name: "and comes then",
      parts: [
        Part(at: day(-20), row: plan), Part(at: day(-1), row: plan, renewal: info(premium, next: pro, end: day(10))),
        Part(at: day(10), row: row("2", from: day(10), until: day(40)), renewal: info(end: day(40))),
      ], now: day(11), expected: "active pro renewing", accessUntil: day(40), decidedBy: "2"),
    Case(
      name: "of another product, untold but for its end",
      parts: [
        Part(at: day(-20), row: plan), Part(at: day(11), renewal: info(renews: false, end: day(40))),
      ], now: day(12), expected: "cancelled pro renewal_off", accessUntil: day(40), decidedBy: "1",
      known: .renewalInfo),
    Case(
      name: "an untold period ends like another, and is held",
      parts: [Part(at: day(-35), row: first), Part(at: day(-4), renewal: info(end: day(25)))], now: day(26),
      expected: "active pro renewing stale", accessUntil: day(25), known: .renewalInfo),
    Case(
      name: "grace by the renewal info",
      parts: [
        Part(at: day(-35), row: first),
        Part(at: day(-5), row: first, renewal: info(retry: true, grace: day(11), end: day(-5))),
      ], expected: "grace_period pro billing_grace", accessUntil: day(11)),
    Case(
      name: "the end of the grace period is no end of a paid one",
      parts: [
        Part(at: day(-35), row: first), Part(at: day(-5), renewal: info(retry: true, grace: day(11), end: day(11))),
      ], expected: "grace_period pro billing_grace", accessUntil: day(11)),
    Case(
      name: "retry after an untold period counts from its end",
      parts: [
        Part(at: day(-65), row: row("0", from: day(-65), until: day(-35))),
        Part(at: day(-4), renewal: info(retry: true, end: day(-5))),
      ], expected: "grace_period pro billing_retry", accessUntil: day(55), known: .renewalInfo),
    Case(
      name: "recovery",
      parts: [
        Part(at: day(-35), row: first), Part(at: day(-5), renewal: info(retry: true, grace: day(11))),
        Part(at: day(-1), row: row("2", from: day(-1), until: day(29)), renewal: info(end: day(29))),
      ], expected: "active pro renewing", accessUntil: day(29)),
    Case(
      name: "recovery of which the row alone is known: the old trouble is not of its end",
      parts: [
        Part(at: day(-35), row: first), Part(at: day(-5), renewal: info(retry: true)),
        Part(at: day(-1), row: row("2", from: day(-1), until: day(29))),
      ], now: day(40), expected: "expired free unproven stale"),
    Case(
      name: "turned off before it was bought anew",
      parts: [
        Part(at: day(-35), row: first, renewal: info(renews: false)),
        Part(at: day(-1), row: row("2", from: day(-1), until: day(29))),
      ], expected: "active pro renewing", accessUntil: day(29)),
    Case(
      name: "a renewal that was bought ahead, and its renewal info",
      parts: [
        Part(at: day(-29), row: row("1", from: day(-29), until: day(1))),
        Part(
          at: day(-0.5), row: row("2", from: day(1), until: day(31)), renewal: info(renews: false, end: day(31))),
      ], expected: "cancelled pro renewal_off", accessUntil: day(31)),
    Case(
      name: "the same, and its row told again when it had begun",
      parts: [
        Part(
          at: day(-0.5), row: row("2", from: day(0.4), until: day(31)), renewal: info(renews: false, end: day(31))),
        Part(at: day(0.5), row: row("2", from: day(0.4), until: day(31))),
      ], now: day(1), expected: "cancelled pro renewal_off", accessUntil: day(31)),
    Case(
      name: "a renewal info older than the one that is known",
      parts: [
        Part(at: day(-20), row: running), Part(at: day(-2), renewal: info(renews: false)),
        Part(at: day(-3), renewal: info(renews: true)),
      ], expected: "cancelled pro renewal_off", accessUntil: day(10)),
  ])
  func `each way in which a period may be followed has its verdict`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "a part that a newer answer left out is over",
      parts: [
        Part(at: day(-1), whole: [first]), Part(at: day(-3), row: row("9", from: day(-3), until: day(300))),
      ], expected: "expired free unknown", decidedBy: "1"),
    Case(
      name: "a part that was told after the answer counts",
      parts: [
        Part(at: day(-1), whole: [first]), Part(at: day(-0.5), row: row("9", from: day(-0.5), until: day(300))),
      ], expected: "active pro renewing", accessUntil: day(300), decidedBy: "9"),
    Case(
      name: "a part that says nothing of the end does not take back what an answer said of it",
      parts: [
        Part(at: day(-1), renewal: info(), whole: [first]),
        Part(at: day(-0.5), row: row("0", from: day(-65), until: day(-35))),
      ], expected: "expired free unknown"),
    Case(
      name: "an account that is gone", parts: [Part(at: day(-1), whole: [running], gone: true)],
      expected: "expired free account_gone"),
    Case(
      name: "an account that is not gone, by what was told since",
      parts: [
        Part(at: day(-2), whole: [running], gone: true), Part(at: day(-1), row: running),
      ], expected: "active pro renewing", accessUntil: day(10)),
  ])
  func `an answer that tells all decides what is over, and later parts count`(item: Case) throws { try check(item) }

  /// A subscription that was over, bought again five minutes ago, and Apple's last word on the former period.
  static let lapsed = row("1", from: day(-60), until: day(-30))
  static let again = row("2", from: minute(-5), until: day(30))
  static let signed = Part(at: minute(-4), row: again)
  static let behind = Part(
    at: minute(-1), renewal: renewal(renews: false, intent: 1, status: .expired), whole: [lapsed])

  @Test(arguments: [
    Case(
      name: "a subscription bought again", parts: [signed, behind], expected: "active pro renewing",
      accessUntil: day(30), decidedBy: "2"),
    Case(
      name: "the same, with its renewal info",
      parts: [Part(at: minute(-4), row: again, renewal: info(end: day(30))), behind],
      expected: "active pro renewing", accessUntil: day(30), decidedBy: "2"),
    Case(
      name: "the same, by an older answer", parts: [Part(at: minute(-4), whole: [lapsed, again]), behind],
      expected: "active pro renewing", accessUntil: day(30), decidedBy: "2"),
    Case(
      name: "bought again after a refund, which Apple's status still tells of",
      parts: [
        signed,
        Part(at: minute(-1), renewal: renewal(status: .revoked), whole: [refunded(running, at: day(-1))]),
      ], expected: "active pro renewing", accessUntil: day(30), decidedBy: "2"),
    Case(
      name: "an upgrade",
      parts: [
        Part(at: minute(-4), row: row("2", premium, from: minute(-5), until: day(30))),
        Part(at: minute(-1), renewal: info(end: day(10)), whole: [running]),
      ], expected: "active premium renewing", accessUntil: day(30), decidedBy: "2"),
    Case(
      name: "an upgrade of a year, which would have ended later",
      parts: [
        Part(at: minute(-4), row: row("2", premium, from: minute(-5), until: day(30))),
        Part(at: minute(-1), renewal: info(proYearly, end: day(265)), whole: [year]),
      ], expected: "active premium renewing", accessUntil: day(30), decidedBy: "2"),
    Case(
      name: "dated after its signature, and after the answer",
      parts: [Part(at: minute(-1.5), row: row("2", from: minute(-0.75), until: day(30))), behind],
      expected: "active pro renewing", accessUntil: day(30), decidedBy: "2"),
    Case(
      name: "bought an hour before the answer",
      parts: [Part(at: minute(-60), row: row("2", from: minute(-61), until: day(30))), behind],
      expected: "active pro renewing", accessUntil: day(30), decidedBy: "2"),
    Case(
      name: "an answer of now decides again", parts: [signed, behind, Part(at: noon, whole: [lapsed, again])],
      expected: "active pro renewing", accessUntil: day(30), decidedBy: "2"),
  ])
  func `a purchase that an answer does not have yet counts`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "bought over an hour before the answer",
      parts: [Part(at: minute(-60), row: row("2", from: minute(-61, ms: -1), until: day(30))), behind],
      expected: "expired free voluntary", decidedBy: "1"),
    Case(
      name: "refunded meanwhile", parts: [signed, Part(at: minute(-3), row: refunded(again, at: minute(-3))), behind],
      expected: "expired free refunded", decidedBy: "2"),
    Case(
      name: "an upgrade that was refunded meanwhile: the former plan does not come back",
      parts: [
        Part(at: minute(-4), row: row("2", premium, from: minute(-5), until: day(30))),
        Part(at: minute(-3), row: refunded(row("2", premium, from: minute(-5), until: day(30)), at: minute(-3))),
        Part(at: minute(-1), renewal: info(end: day(10)), whole: [running]),
      ], expected: "expired free refunded", decidedBy: "2"),
    Case(
      name: "upgraded meanwhile",
      parts: [
        signed, Part(at: minute(-3), row: row("2", from: minute(-5), until: day(30), upgraded: true)), behind,
      ], expected: "expired free voluntary", decidedBy: "1"),
    Case(
      name: "over at the answer",
      parts: [Part(at: minute(-4), row: row("2", from: minute(-5), until: minute(-2))), behind],
      expected: "expired free voluntary", decidedBy: "1"),
    Case(
      name: "to begin over a minute after its signature",
      parts: [Part(at: minute(-6, ms: -1), row: again), behind], expected: "expired free voluntary", decidedBy: "1"),
    Case(
      name: "the answer has it, refunded",
      parts: [signed, Part(at: minute(-1), whole: [lapsed, refunded(again, at: minute(-2))])],
      expected: "expired free refunded", decidedBy: "2"),
    Case(
      name: "the answer has a later one",
      parts: [signed, Part(at: minute(-1), whole: [lapsed, row("3", from: minute(-2), until: day(20))])],
      expected: "active pro renewing", accessUntil: day(20), decidedBy: "3"),
    Case(
      name: "without an end",
      parts: [
        Part(at: minute(-4), row: row("2", forever, from: minute(-5), until: nil)),
        Part(at: minute(-1), whole: [row("1", forever, until: nil, cancelled: day(-1))]),
      ], expected: "expired free refunded", decidedBy: "1"),
    Case(
      name: "the account is gone", parts: [signed, Part(at: minute(-1), whole: [lapsed], gone: true)],
      expected: "expired free account_gone"),
  ])
  func `an answer decides alone about a purchase that it leaves out`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "ended by time alone", parts: [Part(at: day(-20), row: running)], now: day(12),
      expected: "active pro renewing stale", accessUntil: day(10)),
    Case(
      name: "long ago", parts: [Part(at: day(-20), row: running)], now: day(17),
      expected: "expired free unproven stale"),
    Case(
      name: "nor is the row itself, signed after its end: it does not say that it was not renewed",
      parts: [Part(at: day(-2), row: first)], expected: "active pro renewing stale", accessUntil: day(-5)),
    Case(
      name: "the same, when the hold is over", parts: [Part(at: day(-2), row: first)], now: day(2),
      expected: "expired free unproven stale"),
    Case(
      name: "the same, signed when the hold was over",
      parts: [Part(at: day(1), row: row("1", from: day(-90), until: day(-60)))],
      now: day(1), expected: "expired free unproven stale"),
    Case(
      name: "an older row told anew is no proof of the end",
      parts: [Part(at: day(-35), row: first), Part(at: day(-2), row: row("0", from: day(-65), until: day(-35)))],
      expected: "active pro renewing stale", accessUntil: day(-5)),
    Case(
      name: "nor is the row itself told anew, where it was to renew",
      parts: [Part(at: day(-35), row: first, renewal: info(end: day(-5))), Part(at: day(-2), row: first)],
      expected: "active pro renewing stale", accessUntil: day(-5)),
    Case(
      name: "a reason told is proof of the end",
      parts: [Part(at: day(-35), row: first), Part(at: day(-5), row: first, renewal: info(renews: false, intent: 2))],
      expected: "expired free billing_error"),
  ])
  func `time alone is no proof of an end`(item: Case) throws { try check(item) }

  @Test func `the explanation names the rows, and how the period is known`() throws {
    let parts = [
      Part(at: day(-35), row: Self.first),
      Part(at: day(-2), row: Self.refunded(Self.first, at: day(-2)), renewal: Self.info(end: day(25))),
    ].compactMap(\.evidence)
    let verdict = try evaluate([parts[0].merging(parts[1])])
    #expect(verdict.explanation.decidedBy == "1")
    #expect(verdict.explanation.passedOver.map(\.cause) == [.cancelled])
    #expect(verdict.words().contains { $0.contains("but not its payment") })
    #expect(verdict.evidenceTime == day(-2))
    #expect(verdict.source == .notification)
    let upgraded = [Part(at: day(-100), row: Self.year), Part(at: day(-10), row: Self.upgrade)].compactMap(\.evidence)
    let after = try evaluate([upgraded[0].merging(upgraded[1])])
    #expect(after.explanation.passedOver.map(\.cause) == [.upgraded])
    #expect(!after.words().contains { $0.contains("but not its payment") })
  }

  /// A renewal is charged up to a day before its date of purchase; its row may be told again long after.
  @Test func `renewal info from just before the period is still true of it`() throws {
    let next = row("2", from: day(-5), until: day(25))
    func willRenew(_ info: RenewalInfo, at moment: Date, whole: Bool = false) throws -> Bool? {
      let reported = Part(at: moment, row: whole ? nil : next, renewal: info, whole: whole ? [Self.first, next] : nil)
      let parts = [reported, Part(at: day(-1), row: next)].compactMap(\.evidence)
      return try evaluate([parts[0].merging(parts[1])]).willRenew
    }
    #expect(try willRenew(Self.info(end: day(25)), at: day(-5.9)) == true)
    #expect(try willRenew(Self.info(renews: false, end: day(25)), at: day(-5.9)) == false)
    // verifyReceipt names no end.
    #expect(try willRenew(Self.info(), at: day(-5.9), whole: true) == true)
    // It may have been of the period before, and the customer has bought anew.
    #expect(try willRenew(Self.info(renews: false), at: day(-5.9)) == nil)
    #expect(try willRenew(Self.info(retry: true), at: day(-5.9)) == nil)
    #expect(try willRenew(Self.info(premium), at: day(-5.9)) == nil)
    #expect(try willRenew(Self.info(), at: day(-6.1)) == nil)
  }

  @Test func `Apple is asked when an untold period ends, and at once where an end is not proven`() throws {
    let catalog = try makeCatalog()
    func next(_ parts: [Part], at now: Date = noon) throws -> Date? {
      let evidence = parts.compactMap(\.evidence)
      let merged = try #require(evidence.dropFirst().reduce(evidence.first) { $0?.merging($1) })
      return merged.nextCheck(at: now, catalog: catalog, policy: EntitlementPolicy())
    }
    #expect(
      try next([Part(at: day(-35), row: Self.first), Part(at: day(-4), renewal: Self.info(end: day(25)))]) == day(25))
    #expect(try next([Part(at: day(-20), row: Self.running)], at: day(12)) == day(12))
    #expect(
      try next([
        Part(at: day(-35), row: Self.first), Part(at: day(-5), row: Self.first, renewal: Self.info(intent: 1)),
      ]) == nil)
  }

  @Test func `a purchase names the user of its newest row, whatever evidence came last`() throws {
    let (anna, ben) = (AppAccountTests.anna, AppAccountTests.ben)
    var (old, new) = (Self.first, Self.second)
    old.appAccountToken = ben
    new.appAccountToken = anna.uppercased()
    for order in [Part(at: day(-1), row: old), Part(at: day(-5), row: new)].compactMap(\.evidence).orders {
      let merged = order[0].merging(order[1])
      #expect(merged.accountToken == anna)
      #expect(merged.namesAnother(than: UserID(ben)))
      #expect(!merged.namesAnother(than: UserID(anna)))
    }
    #expect(UserID(anna.uppercased()).accountToken == anna)
    #expect(UserID("anna").accountToken == nil)
    #expect(Part(at: day(-5), row: Self.second).evidence?.accountToken == nil)
  }
}

extension Array {
  /// Every order of the elements.
  fileprivate var orders: [[Element]] {
    guard count > 1 else { return [self] }
    return indices.flatMap { index in
      var rest = self
      let one = rest.remove(at: index)
      return rest.orders.map { [one] + $0 }
    }
  }
}
