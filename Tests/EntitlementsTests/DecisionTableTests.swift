import Entitlements
import Testing

import struct FoundationEssentials.Date

/// Each line of the decision table, a millisecond before, at and after each of its ends.
@Suite struct DecisionTableTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let name: String
    var rows: [Purchase] = [row("1")]
    var renewals: [RenewalInfo] = []
    var now = noon
    var retryAccess: Duration = .seconds(60 * 86_400)
    var lateRenewal: Duration = .seconds(86_400)
    let expected: String
    var accessUntil: Date?
    var testDescription: String { name }
  }

  private func check(_ item: Case) throws {
    // The answer is as old as the judgement: nothing is held.
    let verdict = try evaluate(
      answer(at: item.now, item.rows, item.renewals), at: item.now, retryAccess: item.retryAccess,
      late: item.lateRenewal)
    #expect(verdict.line == item.expected)
    #expect(verdict.accessUntil == item.accessUntil)
  }

  static let running = row("1", from: day(-20), until: day(10))

  @Test(arguments: [
    Case(
      name: "lifetime, long after its purchase", rows: [row("1", forever, from: day(-4000), until: nil)],
      expected: "active premium lifetime"),
    Case(
      name: "lifetime with an expiry that a lifetime product should not have", rows: [row("1", forever)],
      expected: "active premium lifetime"),
    Case(
      name: "lifetime, judged before its purchase", rows: [row("1", forever, from: day(1), until: nil)],
      expected: "active premium lifetime"),
    Case(
      name: "refunded lifetime", rows: [row("1", forever, from: day(-40), until: nil, cancelled: day(-1))],
      expected: "expired free refunded"),
    Case(
      name: "family-shared lifetime, taken back",
      rows: [row("1", forever, from: day(-40), until: nil, cancelled: day(-1), ownership: .familyShared)],
      expected: "expired free revoked"),
  ])
  func `a lifetime purchase stands until it is refunded`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "auto-renew unknown", rows: [running], expected: "active pro renewing", accessUntil: day(10)),
    Case(
      name: "auto-renew on", rows: [running], renewals: [renewal(renews: true)], expected: "active pro renewing",
      accessUntil: day(10)),
    Case(
      name: "renewal told, but not whether it renews", rows: [running], renewals: [renewal(intent: 2)],
      expected: "active pro renewing", accessUntil: day(10)),
    Case(
      name: "auto-renew off", rows: [running], renewals: [renewal(renews: false)],
      expected: "cancelled pro renewal_off", accessUntil: day(10)),
    Case(
      name: "auto-renew off with an intent told ahead", rows: [running], renewals: [renewal(renews: false, intent: 1)],
      expected: "cancelled pro renewal_off", accessUntil: day(10)),
    Case(
      name: "on, a millisecond before the end", rows: [running], renewals: [renewal(renews: true)],
      now: day(10, ms: -1),
      expected: "active pro renewing", accessUntil: day(10)),
    Case(
      name: "off, a millisecond before the end", rows: [running], renewals: [renewal(renews: false)],
      now: day(10, ms: -1), expected: "cancelled pro renewal_off", accessUntil: day(10)),
    Case(
      name: "off, at the end", rows: [running], renewals: [renewal(renews: false)], now: day(10),
      expected: "expired free unknown"),
    Case(
      name: "the paid period runs, so retry and grace do not matter yet", rows: [running],
      renewals: [renewal(renews: true, retry: true, grace: day(20))], expected: "active pro renewing",
      accessUntil: day(10)),
    Case(
      name: "purchase date in the future", rows: [row("1", from: day(0, ms: 33_000), until: day(30))],
      expected: "active pro renewing", accessUntil: day(30)),
    Case(
      name: "purchase date absent", rows: [row("1", from: nil, until: day(30))], expected: "active pro renewing",
      accessUntil: day(30)),
    Case(
      name: "family-shared", rows: [row("1", until: day(30), ownership: .familyShared)],
      expected: "active pro renewing", accessUntil: day(30)),
  ])
  func `a paid period runs while now is before its end`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "refunded while it ran", rows: [row("1", until: day(10), cancelled: day(-2))],
      expected: "expired free refunded"),
    Case(
      name: "refunded after it ended", rows: [row("1", until: day(-5), cancelled: day(-2))],
      expected: "expired free refunded"),
    Case(
      name: "refunded a moment ago", rows: [row("1", until: day(10), cancelled: noon)],
      expected: "expired free refunded"),
    Case(
      name: "cancellation date in the future: Apple said it, it counts now",
      rows: [row("1", until: day(10), cancelled: day(3))], expected: "expired free refunded"),
    Case(
      name: "refunded with auto-renew on", rows: [row("1", until: day(10), cancelled: day(-2))],
      renewals: [renewal(renews: true)], expected: "expired free refunded"),
    Case(
      name: "refunded, though in grace", rows: [row("1", cancelled: day(-6))],
      renewals: [renewal(retry: true, grace: day(5))], expected: "expired free refunded"),
    Case(
      name: "family-shared, taken back", rows: [row("1", until: day(10), cancelled: day(-2), ownership: .familyShared)],
      expected: "expired free revoked"),
    Case(
      name: "the period before the refunded one ran out",
      rows: [row("1", from: day(-50), until: day(-20)), row("2", from: day(-20), until: day(10), cancelled: day(-2))],
      renewals: [renewal(retry: true)], expected: "expired free refunded"),
    Case(
      name: "refund of an old period while a later one runs",
      rows: [row("1", from: day(-50), until: day(-20), cancelled: day(-1)), row("2", from: day(-20), until: day(10))],
      expected: "active pro renewing", accessUntil: day(10)),
    Case(
      name: "refund of an old period, the later one in retry",
      rows: [row("1", from: day(-65), until: day(-35), cancelled: day(-1)), row("2")],
      renewals: [renewal(retry: true)], expected: "grace_period pro billing_retry", accessUntil: day(55)),
    Case(
      name: "refund of an old period, the later one ran out",
      rows: [row("1", from: day(-65), until: day(-35), cancelled: day(-1)), row("2")],
      renewals: [renewal(intent: 1)], expected: "expired free voluntary"),
    Case(
      name: "refunded, then bought again",
      rows: [row("1", from: day(-20), until: day(40), cancelled: day(-10)), row("2", from: day(-9), until: day(21))],
      expected: "active pro renewing", accessUntil: day(21)),
    Case(
      name: "refunded, bought again, ran out",
      rows: [row("1", from: day(-60), until: day(300), cancelled: day(-50)), row("2")],
      renewals: [renewal(intent: 1)], expected: "expired free voluntary"),
    Case(
      name: "a renewal refunded before it began, while the period before it runs",
      rows: [
        row("1", from: day(-29), until: day(1)), row("2", from: day(1), until: day(31), cancelled: day(0, ms: -1)),
      ],
      expected: "active pro renewing", accessUntil: day(1)),
    Case(
      name: "a renewal refunded before it began, after the period before it",
      rows: [row("1", from: day(-29), until: day(1)), row("2", from: day(1), until: day(31), cancelled: day(0.5))],
      renewals: [renewal(retry: true)], now: day(1), expected: "expired free refunded"),
    Case(
      name: "refund after an upgrade",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), cancelled: day(-10), upgraded: true),
        row("2", premium, from: day(-10), until: day(20), cancelled: day(-3)),
      ], expected: "expired free refunded"),
    Case(
      name: "refund after an upgrade that came without a cancellation date",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), upgraded: true),
        row("2", premium, from: day(-10), until: day(20), cancelled: day(-3)),
      ], expected: "expired free refunded"),
  ])
  func `a refund ends access at once, and only that of the newest row speaks`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "the upgraded row would end later than its successor",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), cancelled: day(-10), upgraded: true),
        row("2", premium, from: day(-10), until: day(20)),
      ], expected: "active premium renewing", accessUntil: day(20)),
    Case(
      name: "upgraded without a cancellation date",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), upgraded: true),
        row("2", premium, from: day(-10), until: day(20)),
      ], expected: "active premium renewing", accessUntil: day(20)),
    Case(
      name: "the successor ran out, the upgraded row would still run",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), cancelled: day(-10), upgraded: true),
        row("2", premium, from: day(-10), until: day(-1)),
      ], renewals: [renewal(premium, intent: 1)], expected: "expired free voluntary"),
    Case(
      name: "only an upgraded row; its successor is not told",
      rows: [row("1", proYearly, until: day(325), cancelled: day(-10), upgraded: true)],
      expected: "expired free unknown"),
    Case(
      name: "the successor is of no catalogued product",
      rows: [
        row("1", proYearly, until: day(325), upgraded: true),
        row("2", unheardOf, from: day(-10), until: day(20)),
      ], expected: "expired free unknown"),
  ])
  func `an upgraded row grants nothing`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "retry flag on", renewals: [renewal(retry: true, grace: day(3))],
      expected: "grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "retry flag off", renewals: [renewal(retry: false, grace: day(3))],
      expected: "grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "retry flag absent", renewals: [renewal(grace: day(3))], expected: "grace_period pro billing_grace",
      accessUntil: day(3)),
    Case(
      name: "auto-renew off", renewals: [renewal(renews: false, grace: day(3))],
      expected: "grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "a millisecond before its end", renewals: [renewal(grace: day(3))], now: day(3, ms: -1),
      expected: "grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "at its end", renewals: [renewal(intent: 2, grace: day(3))], now: day(3),
      expected: "expired free billing_error"),
    Case(
      name: "a millisecond after its end", renewals: [renewal(intent: 2, grace: day(3))], now: day(3, ms: 1),
      expected: "expired free billing_error"),
    Case(
      name: "in the past with retry on: Apple gave a grace date, so no more than that",
      renewals: [renewal(intent: 2, retry: true, grace: day(-1))], expected: "expired free billing_error"),
    Case(
      name: "in the past, retry off", renewals: [renewal(intent: 1, retry: false, grace: day(-1))],
      expected: "expired free voluntary"),
    Case(
      name: "in the past, and no intent", renewals: [renewal(renews: true, grace: day(-1))],
      expected: "expired free billing_error"),
    Case(
      name: "a date at the row's end is another period's", renewals: [renewal(retry: true, grace: day(-5))],
      expected: "grace_period pro billing_retry", accessUntil: day(55)),
    Case(
      name: "grace whatever the retry policy", renewals: [renewal(retry: true, grace: day(3))], retryAccess: .zero,
      expected: "grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "at the end of the paid period", renewals: [renewal(grace: day(3))], now: day(-5),
      expected: "grace_period pro billing_grace", accessUntil: day(3)),
  ])
  func `a grace date in the future keeps the tier, whatever the retry flag says`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "default of 60 days", renewals: [renewal(intent: 2, retry: true)],
      expected: "grace_period pro billing_retry", accessUntil: day(55)),
    Case(
      name: "a millisecond before the 60 days are over", renewals: [renewal(intent: 2, retry: true)],
      now: day(55, ms: -1), expected: "grace_period pro billing_retry", accessUntil: day(55)),
    Case(
      name: "at 60 days", renewals: [renewal(intent: 2, retry: true)], now: day(55),
      expected: "expired free billing_error"),
    Case(
      name: "a millisecond after 60 days", renewals: [renewal(intent: 2, retry: true)], now: day(55, ms: 1),
      expected: "expired free billing_error"),
    Case(
      name: "policy 0 is strict, even at the very end", renewals: [renewal(intent: 2, retry: true)], now: day(-5),
      retryAccess: .zero, expected: "expired free billing_error"),
    Case(
      name: "policy of 1 ms, at the end of the period", renewals: [renewal(retry: true)], now: day(-5),
      retryAccess: .milliseconds(1), expected: "grace_period pro billing_retry", accessUntil: day(-5, ms: 1)),
    Case(
      name: "policy of 1 ms, a millisecond later", renewals: [renewal(retry: true)], now: day(-5, ms: 1),
      retryAccess: .milliseconds(1), expected: "expired free unknown"),
    Case(
      name: "policy of 36 hours, inside", renewals: [renewal(retry: true)], now: day(-3.5, ms: -1),
      retryAccess: .seconds(36 * 3600), expected: "grace_period pro billing_retry", accessUntil: day(-3.5)),
    Case(
      name: "policy of 36 hours, over", renewals: [renewal(retry: true)], now: day(-3.5),
      retryAccess: .seconds(36 * 3600), expected: "expired free unknown"),
    Case(
      name: "a policy beyond all time does not trap", renewals: [renewal(retry: true)],
      retryAccess: .seconds(Int64.max), expected: "grace_period pro billing_retry",
      accessUntil: Date(millisecondsSince1970: .max)),
    Case(
      name: "retry off", renewals: [renewal(intent: 2, retry: false)], expected: "expired free billing_error"),
    Case(
      name: "the customer ended it, whatever the flag says", renewals: [renewal(renews: false, intent: 1, retry: true)],
      expected: "expired free voluntary"),
    Case(
      name: "retry not told", renewals: [renewal(intent: 2)], expected: "expired free billing_error"),
  ])
  func `billing retry without a grace date keeps the tier as long as the policy says`(item: Case) throws {
    try check(item)
  }

  private static let late = row("1", from: day(-30), until: day(-0.25))

  @Test(arguments: [
    Case(
      name: "at the end", rows: [running], renewals: [renewal(renews: true)], now: day(10),
      expected: "active pro renewal_due stale", accessUntil: day(11)),
    Case(
      name: "a millisecond before the day is over", rows: [running], renewals: [renewal(renews: true)],
      now: day(11, ms: -1), expected: "active pro renewal_due stale", accessUntil: day(11)),
    Case(
      name: "when the day is over", rows: [running], renewals: [renewal(renews: true)], now: day(11),
      expected: "expired free unknown"),
    Case(
      name: "policy 0 is strict", rows: [running], renewals: [renewal(renews: true)], now: day(10),
      lateRenewal: .zero, expected: "expired free unknown"),
    Case(name: "auto-renew not told", rows: [late], renewals: [renewal()], expected: "expired free unknown"),
    Case(name: "auto-renew off", rows: [late], renewals: [renewal(renews: false)], expected: "expired free unknown"),
    Case(
      name: "an end is named", rows: [late], renewals: [renewal(renews: true, intent: 2)],
      expected: "expired free billing_error"),
    Case(
      name: "in retry", rows: [late], renewals: [renewal(renews: true, retry: true)],
      expected: "grace_period pro billing_retry", accessUntil: day(59.75)),
    Case(
      name: "Apple's status is active, and the flags say nothing", rows: [late], renewals: [renewal(status: .active)],
      expected: "active pro renewal_due stale", accessUntil: day(0.75)),
    Case(
      name: "Apple's status is active, and the flags say otherwise", rows: [late],
      renewals: [renewal(renews: false, intent: 2, retry: true, status: .active)],
      expected: "active pro renewal_due stale", accessUntil: day(0.75)),
    Case(
      name: "Apple's status is active, and the customer ended it", rows: [late],
      renewals: [renewal(intent: 1, status: .active)], expected: "expired free voluntary"),
    Case(
      name: "a grace period was granted before", rows: [late],
      renewals: [renewal(renews: true, grace: day(-0.1), status: .active)], expected: "expired free billing_error"),
  ])
  func `an access that nobody has ended stands for the time that the policy gives`(item: Case) throws {
    try check(item)
  }

  @Test(arguments: [
    Case(
      name: "2 ends it, whatever the flags say", renewals: [renewal(renews: true, retry: true, status: .expired)],
      expected: "expired free unknown"),
    Case(
      name: "3 is billing retry without the flag", renewals: [renewal(intent: 2, retry: false, status: .billingRetry)],
      expected: "grace_period pro billing_retry", accessUntil: day(55)),
    Case(
      name: "3, and the customer ended it", renewals: [renewal(intent: 1, retry: true, status: .billingRetry)],
      expected: "expired free voluntary"),
    Case(
      name: "4 is grace without a date", renewals: [renewal(intent: 2, retry: false, status: .billingGracePeriod)],
      expected: "grace_period pro billing_grace", accessUntil: day(1)),
    Case(
      name: "4 under a strict policy", renewals: [renewal(retry: true, status: .billingGracePeriod)],
      retryAccess: .zero, expected: "grace_period pro billing_grace", accessUntil: day(1)),
    Case(
      name: "4 with a date", renewals: [renewal(grace: day(3), status: .billingGracePeriod)],
      expected: "grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "4, a moment before the longest grace period is over",
      renewals: [renewal(status: .billingGracePeriod)], now: day(23, ms: -1),
      expected: "grace_period pro billing_grace", accessUntil: day(23)),
    Case(
      name: "4 for longer than the longest grace period", renewals: [renewal(status: .billingGracePeriod)],
      now: day(23), expected: "expired free billing_error"),
    Case(
      name: "4, and the customer ended it", renewals: [renewal(intent: 1, status: .billingGracePeriod)],
      expected: "expired free voluntary"),
    Case(
      name: "5 is taken back", renewals: [renewal(renews: true, status: .revoked)], expected: "expired free refunded"),
    Case(
      name: "5 of a family", rows: [row("1", ownership: .familyShared)], renewals: [renewal(status: .revoked)],
      expected: "expired free revoked"),
    Case(
      name: "told before the end, it says nothing of what follows", rows: [running],
      renewals: [renewal(renews: false, status: .expired)], expected: "cancelled pro renewal_off",
      accessUntil: day(10)),
  ])
  func `Apple's own status stands above the flags, and below the customer's own end`(item: Case) throws {
    try check(item)
  }

  @Test(arguments: [
    Case(
      name: "a month", rows: [row("1", season, from: day(-10), until: nil)], expected: "active pro non_renewing",
      accessUntil: day(20)),
    Case(
      name: "a millisecond before its end", rows: [row("1", season, from: day(-10), until: nil)], now: day(20, ms: -1),
      expected: "active pro non_renewing", accessUntil: day(20)),
    Case(
      name: "at its end", rows: [row("1", season, from: day(-10), until: nil)], now: day(20),
      expected: "expired free period_over"),
    Case(
      name: "bought again while it ran",
      rows: [row("1", season, from: day(-10), until: nil), row("2", season, of: "200", from: day(-3), until: nil)],
      now: day(45), expected: "active pro non_renewing", accessUntil: day(51)),
    Case(
      name: "bought again, and the first one refunded",
      rows: [
        row("1", season, from: day(-10), until: nil, cancelled: day(-5)),
        row("2", season, of: "200", from: day(-3), until: nil),
      ], expected: "active pro non_renewing", accessUntil: day(27)),
    Case(
      name: "bought again after it was over",
      rows: [row("1", season, from: day(-60), until: nil), row("2", season, of: "200", from: day(-3), until: nil)],
      expected: "active pro non_renewing", accessUntil: day(27)),
    Case(
      name: "restored: it began when it was bought",
      rows: [row("1", season, from: day(-40), until: nil), row("2", season, from: day(-0.2), until: nil)],
      expected: "expired free period_over"),
    Case(
      name: "restored, and bought again",
      rows: [
        row("1", season, from: day(-10), until: nil), row("2", season, from: day(-5), until: nil),
        row("3", season, of: "200", from: day(-3), until: nil),
      ], now: day(45), expected: "active pro non_renewing", accessUntil: day(51)),
    Case(
      name: "restored, and the first transaction refunded",
      rows: [
        row("1", season, from: day(-10), until: nil, cancelled: day(-5)), row("2", season, from: day(-8), until: nil),
      ], expected: "expired free refunded"),
    Case(
      name: "refunded", rows: [row("1", season, from: day(-10), until: nil, cancelled: day(-5))],
      expected: "expired free refunded"),
    Case(
      name: "whatever is said of a renewal", rows: [row("1", season, from: day(-10), until: nil)],
      renewals: [renewal(season, renews: false, intent: 1)], expected: "active pro non_renewing", accessUntil: day(20)),
  ])
  func `a non-renewing subscription runs for its period`(item: Case) throws { try check(item) }

  @Test(arguments: [
    (1, "voluntary"), (2, "billing_error"), (3, "price_increase"), (4, "product_unavailable"), (5, "unknown"),
    (0, "unknown"), (6, "unknown"), (-1, "unknown"), (99, "unknown"), (nil, "unknown"),
  ])
  func `the expiration intent names the reason`(intent: Int?, reason: String) throws {
    let verdict = try evaluate(answer([row("1")], [renewal(intent: intent)]))
    #expect(verdict.line == "expired free \(reason)")
    #expect(verdict.expiresAt == day(-5))
    #expect(verdict.accessUntil == nil)
    #expect(verdict.productID == pro)
  }

  @Test func `without renewal info an ended period is expired for an unknown reason`() throws {
    let verdict = try evaluate(answer([row("1")]))
    #expect(verdict.line == "expired free unknown")
    #expect(verdict.willRenew == nil)
  }

  @Test(arguments: [
    Case(
      name: "no expiry at all", rows: [row("1", from: day(-1), until: nil)], expected: "expired free unknown"),
    Case(
      name: "no expiry beside one that runs",
      rows: [row("1", premium, from: day(-1), until: nil), row("2", until: day(10))],
      expected: "active pro renewing", accessUntil: day(10)),
    Case(
      name: "no expiry, in retry", rows: [row("1", until: nil)], renewals: [renewal(retry: true, grace: day(3))],
      expected: "expired free unknown"),
  ])
  func `a subscription row without an expiry grants nothing`(item: Case) throws { try check(item) }
}
