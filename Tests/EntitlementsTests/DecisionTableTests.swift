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
    let expected: String
    var accessUntil: Date?
    var testDescription: String { name }
  }

  private func check(_ item: Case) throws {
    // The answer is as old as the judgement: nothing is held.
    let verdict = try evaluate(
      answer(at: item.now, item.rows, item.renewals), at: item.now, retryAccess: item.retryAccess)
    #expect(verdict.line == item.expected)
    #expect(verdict.accessUntil == item.accessUntil)
  }

  static let running = row("1", from: day(-20), until: day(10))

  @Test(arguments: [
    Case(
      name: "lifetime, long after its purchase", rows: [row("1", forever, from: day(-4000), until: nil)],
      expected: "1 active premium lifetime"),
    Case(
      name: "lifetime with an expiry that a lifetime product should not have", rows: [row("1", forever)],
      expected: "1 active premium lifetime"),
    Case(
      name: "lifetime, judged before its purchase", rows: [row("1", forever, from: day(1), until: nil)],
      expected: "1 active premium lifetime"),
    Case(
      name: "refunded lifetime", rows: [row("1", forever, from: day(-40), until: nil, cancelled: day(-1))],
      expected: "4 expired free refunded"),
    Case(
      name: "family-shared lifetime, taken back",
      rows: [row("1", forever, from: day(-40), until: nil, cancelled: day(-1), ownership: .familyShared)],
      expected: "4 expired free revoked"),
  ])
  func `a lifetime purchase stands until it is refunded`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "auto-renew unknown", rows: [running], expected: "2 active pro renewing", accessUntil: day(10)),
    Case(
      name: "auto-renew on", rows: [running], renewals: [renewal(renews: true)], expected: "2 active pro renewing",
      accessUntil: day(10)),
    Case(
      name: "renewal told, but not whether it renews", rows: [running], renewals: [renewal(intent: 2)],
      expected: "2 active pro renewing", accessUntil: day(10)),
    Case(
      name: "auto-renew off", rows: [running], renewals: [renewal(renews: false)],
      expected: "3 cancelled pro renewal_off", accessUntil: day(10)),
    Case(
      name: "auto-renew off with an intent told ahead", rows: [running], renewals: [renewal(renews: false, intent: 1)],
      expected: "3 cancelled pro renewal_off", accessUntil: day(10)),
    Case(
      name: "on, a millisecond before the end", rows: [running], renewals: [renewal(renews: true)],
      now: day(10, ms: -1),
      expected: "2 active pro renewing", accessUntil: day(10)),
    Case(
      name: "on, at the end", rows: [running], renewals: [renewal(renews: true)], now: day(10),
      expected: "7 expired free unknown"),
    Case(
      name: "on, a millisecond after the end", rows: [running], renewals: [renewal(renews: true)], now: day(10, ms: 1),
      expected: "7 expired free unknown"),
    Case(
      name: "off, a millisecond before the end", rows: [running], renewals: [renewal(renews: false)],
      now: day(10, ms: -1), expected: "3 cancelled pro renewal_off", accessUntil: day(10)),
    Case(
      name: "off, at the end", rows: [running], renewals: [renewal(renews: false)], now: day(10),
      expected: "7 expired free unknown"),
    Case(
      name: "the paid period runs, so retry and grace do not matter yet", rows: [running],
      renewals: [renewal(renews: true, retry: true, grace: day(20))], expected: "2 active pro renewing",
      accessUntil: day(10)),
    Case(
      name: "purchase date in the future", rows: [row("1", from: day(0, ms: 33_000), until: day(30))],
      expected: "2 active pro renewing", accessUntil: day(30)),
    Case(
      name: "purchase date absent", rows: [row("1", from: nil, until: day(30))], expected: "2 active pro renewing",
      accessUntil: day(30)),
    Case(
      name: "family-shared", rows: [row("1", until: day(30), ownership: .familyShared)],
      expected: "2 active pro renewing", accessUntil: day(30)),
  ])
  func `a paid period runs while now is before its end`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "refunded while it ran", rows: [row("1", until: day(10), cancelled: day(-2))],
      expected: "4 expired free refunded"),
    Case(
      name: "refunded after it ended", rows: [row("1", until: day(-5), cancelled: day(-2))],
      expected: "4 expired free refunded"),
    Case(
      name: "refunded a moment ago", rows: [row("1", until: day(10), cancelled: noon)],
      expected: "4 expired free refunded"),
    Case(
      name: "cancellation date in the future: Apple said it, it counts now",
      rows: [row("1", until: day(10), cancelled: day(3))], expected: "4 expired free refunded"),
    Case(
      name: "refunded with auto-renew on", rows: [row("1", until: day(10), cancelled: day(-2))],
      renewals: [renewal(renews: true)], expected: "4 expired free refunded"),
    Case(
      name: "refunded, though in grace", rows: [row("1", cancelled: day(-6))],
      renewals: [renewal(retry: true, grace: day(5))], expected: "4 expired free refunded"),
    Case(
      name: "family-shared, taken back", rows: [row("1", until: day(10), cancelled: day(-2), ownership: .familyShared)],
      expected: "4 expired free revoked"),
    Case(
      name: "the period before the refunded one ran out",
      rows: [row("1", from: day(-50), until: day(-20)), row("2", from: day(-20), until: day(10), cancelled: day(-2))],
      renewals: [renewal(retry: true)], expected: "4 expired free refunded"),
    Case(
      name: "refund of an old period while a later one runs",
      rows: [row("1", from: day(-50), until: day(-20), cancelled: day(-1)), row("2", from: day(-20), until: day(10))],
      expected: "2 active pro renewing", accessUntil: day(10)),
    Case(
      name: "refund of an old period, the later one in retry",
      rows: [row("1", from: day(-65), until: day(-35), cancelled: day(-1)), row("2")],
      renewals: [renewal(retry: true)], expected: "6 grace_period pro billing_retry", accessUntil: day(55)),
    Case(
      name: "refund of an old period, the later one ran out",
      rows: [row("1", from: day(-65), until: day(-35), cancelled: day(-1)), row("2")],
      renewals: [renewal(intent: 1)], expected: "7 expired free voluntary"),
    Case(
      name: "refunded, then bought again",
      rows: [row("1", from: day(-20), until: day(40), cancelled: day(-10)), row("2", from: day(-9), until: day(21))],
      expected: "2 active pro renewing", accessUntil: day(21)),
    Case(
      name: "refunded, bought again, ran out",
      rows: [row("1", from: day(-60), until: day(300), cancelled: day(-50)), row("2")],
      renewals: [renewal(intent: 1)], expected: "7 expired free voluntary"),
    Case(
      name: "a renewal refunded before it began, while the period before it runs",
      rows: [
        row("1", from: day(-29), until: day(1)), row("2", from: day(1), until: day(31), cancelled: day(0, ms: -1)),
      ],
      expected: "2 active pro renewing", accessUntil: day(1)),
    Case(
      name: "a renewal refunded before it began, after the period before it",
      rows: [row("1", from: day(-29), until: day(1)), row("2", from: day(1), until: day(31), cancelled: day(0.5))],
      renewals: [renewal(retry: true)], now: day(1), expected: "4 expired free refunded"),
    Case(
      name: "refund after an upgrade",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), cancelled: day(-10), upgraded: true),
        row("2", premium, from: day(-10), until: day(20), cancelled: day(-3)),
      ], expected: "4 expired free refunded"),
    Case(
      name: "refund after an upgrade that came without a cancellation date",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), upgraded: true),
        row("2", premium, from: day(-10), until: day(20), cancelled: day(-3)),
      ], expected: "4 expired free refunded"),
  ])
  func `a refund ends access at once, and only that of the newest row speaks`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "the upgraded row would end later than its successor",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), cancelled: day(-10), upgraded: true),
        row("2", premium, from: day(-10), until: day(20)),
      ], expected: "2 active premium renewing", accessUntil: day(20)),
    Case(
      name: "upgraded without a cancellation date",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), upgraded: true),
        row("2", premium, from: day(-10), until: day(20)),
      ], expected: "2 active premium renewing", accessUntil: day(20)),
    Case(
      name: "the successor ran out, the upgraded row would still run",
      rows: [
        row("1", proYearly, from: day(-40), until: day(325), cancelled: day(-10), upgraded: true),
        row("2", premium, from: day(-10), until: day(-1)),
      ], renewals: [renewal(premium, intent: 1)], expected: "7 expired free voluntary"),
    Case(
      name: "only an upgraded row; its successor is not told",
      rows: [row("1", proYearly, until: day(325), cancelled: day(-10), upgraded: true)],
      expected: "7 expired free unknown"),
    Case(
      name: "the successor is of no catalogued product",
      rows: [
        row("1", proYearly, until: day(325), upgraded: true),
        row("2", unheardOf, from: day(-10), until: day(20)),
      ], expected: "7 expired free unknown"),
  ])
  func `an upgraded row grants nothing`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "retry flag on", renewals: [renewal(retry: true, grace: day(3))],
      expected: "5 grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "retry flag off", renewals: [renewal(retry: false, grace: day(3))],
      expected: "5 grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "retry flag absent", renewals: [renewal(grace: day(3))], expected: "5 grace_period pro billing_grace",
      accessUntil: day(3)),
    Case(
      name: "auto-renew off", renewals: [renewal(renews: false, grace: day(3))],
      expected: "5 grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "a millisecond before its end", renewals: [renewal(grace: day(3))], now: day(3, ms: -1),
      expected: "5 grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "at its end", renewals: [renewal(intent: 2, grace: day(3))], now: day(3),
      expected: "7 expired free billing_error"),
    Case(
      name: "a millisecond after its end", renewals: [renewal(intent: 2, grace: day(3))], now: day(3, ms: 1),
      expected: "7 expired free billing_error"),
    Case(
      name: "in the past with retry on: Apple gave a grace date, so no more than that",
      renewals: [renewal(intent: 2, retry: true, grace: day(-1))], expected: "7 expired free billing_error"),
    Case(
      name: "in the past, retry off", renewals: [renewal(intent: 1, retry: false, grace: day(-1))],
      expected: "7 expired free voluntary"),
    Case(
      name: "grace whatever the retry policy", renewals: [renewal(retry: true, grace: day(3))], retryAccess: .zero,
      expected: "5 grace_period pro billing_grace", accessUntil: day(3)),
    Case(
      name: "at the end of the paid period", renewals: [renewal(grace: day(3))], now: day(-5),
      expected: "5 grace_period pro billing_grace", accessUntil: day(3)),
  ])
  func `a grace date in the future keeps the tier, whatever the retry flag says`(item: Case) throws { try check(item) }

  @Test(arguments: [
    Case(
      name: "default of 60 days", renewals: [renewal(intent: 2, retry: true)],
      expected: "6 grace_period pro billing_retry", accessUntil: day(55)),
    Case(
      name: "a millisecond before the 60 days are over", renewals: [renewal(intent: 2, retry: true)],
      now: day(55, ms: -1), expected: "6 grace_period pro billing_retry", accessUntil: day(55)),
    Case(
      name: "at 60 days", renewals: [renewal(intent: 2, retry: true)], now: day(55),
      expected: "7 expired free billing_error"),
    Case(
      name: "a millisecond after 60 days", renewals: [renewal(intent: 2, retry: true)], now: day(55, ms: 1),
      expected: "7 expired free billing_error"),
    Case(
      name: "policy 0 is strict, even at the very end", renewals: [renewal(intent: 2, retry: true)], now: day(-5),
      retryAccess: .zero, expected: "7 expired free billing_error"),
    Case(
      name: "policy of 1 ms, at the end of the period", renewals: [renewal(retry: true)], now: day(-5),
      retryAccess: .milliseconds(1), expected: "6 grace_period pro billing_retry", accessUntil: day(-5, ms: 1)),
    Case(
      name: "policy of 1 ms, a millisecond later", renewals: [renewal(retry: true)], now: day(-5, ms: 1),
      retryAccess: .milliseconds(1), expected: "7 expired free unknown"),
    Case(
      name: "policy of 36 hours, inside", renewals: [renewal(retry: true)], now: day(-3.5, ms: -1),
      retryAccess: .seconds(36 * 3600), expected: "6 grace_period pro billing_retry", accessUntil: day(-3.5)),
    Case(
      name: "policy of 36 hours, over", renewals: [renewal(retry: true)], now: day(-3.5),
      retryAccess: .seconds(36 * 3600), expected: "7 expired free unknown"),
    Case(
      name: "a policy beyond all time does not trap", renewals: [renewal(retry: true)],
      retryAccess: .seconds(Int64.max), expected: "6 grace_period pro billing_retry",
      accessUntil: Date(millisecondsSince1970: .max)),
    Case(
      name: "retry off", renewals: [renewal(intent: 2, retry: false)], expected: "7 expired free billing_error"),
    Case(
      name: "retry not told", renewals: [renewal(intent: 2)], expected: "7 expired free billing_error"),
  ])
  func `billing retry without a grace date keeps the tier as long as the policy says`(item: Case) throws {
    try check(item)
  }

  @Test(arguments: [
    (1, "voluntary"), (2, "billing_error"), (3, "price_increase"), (4, "product_unavailable"), (5, "unknown"),
    (0, "unknown"), (6, "unknown"), (-1, "unknown"), (99, "unknown"), (nil, "unknown"),
  ])
  func `the expiration intent names the reason`(intent: Int?, reason: String) throws {
    let verdict = try evaluate(answer([row("1")], [renewal(intent: intent)]))
    #expect(verdict.line == "7 expired free \(reason)")
    #expect(verdict.expiresAt == day(-5))
    #expect(verdict.accessUntil == nil)
    #expect(verdict.productID == pro)
  }

  @Test func `without renewal info an ended period is expired for an unknown reason`() throws {
    let verdict = try evaluate(answer([row("1")]))
    #expect(verdict.line == "7 expired free unknown")
    #expect(verdict.willRenew == nil)
  }

  @Test(arguments: [
    Case(
      name: "no expiry at all", rows: [row("1", from: day(-1), until: nil)], expected: "7 expired free unknown"),
    Case(
      name: "no expiry beside one that runs",
      rows: [row("1", premium, from: day(-1), until: nil), row("2", until: day(10))],
      expected: "2 active pro renewing", accessUntil: day(10)),
    Case(
      name: "no expiry, in retry", rows: [row("1", until: nil)], renewals: [renewal(retry: true, grace: day(3))],
      expected: "7 expired free unknown"),
  ])
  func `a subscription row without an expiry grants nothing`(item: Case) throws { try check(item) }
}
