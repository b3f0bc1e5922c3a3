import Entitlements
import Testing

import struct FoundationEssentials.Date

/// The verdicts of reads between an end and the next fresh answer. The answer is of `noon` everywhere.
@Suite struct OutageHoldTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let name: String
    var rows = [row("1", from: day(-20), until: day(10))]
    var renewals: [RenewalInfo] = []
    let now: Date
    var retryAccess: Duration = .seconds(60 * 86_400)
    var hold: Duration = .seconds(7 * 86_400)
    let expected: String
    var accessUntil: Date?
    var testDescription: String { name }
  }

  @Test(arguments: [
    Case(name: "before the end", now: day(10, ms: -1), expected: "active pro renewing", accessUntil: day(10)),
    Case(name: "at the end", now: day(10), expected: "active pro renewing stale", accessUntil: day(10)),
    Case(
      name: "last moment of the hold", now: day(17, ms: -1), expected: "active pro renewing stale",
      accessUntil: day(10)),
    Case(name: "hold over", now: day(17), expected: "expired free unproven stale"),
    Case(name: "long after", now: day(4000), expected: "expired free unproven stale"),
    Case(
      name: "renewal off is held as well: it may have been turned on again", renewals: [renewal(renews: false)],
      now: day(16), expected: "cancelled pro renewal_off stale", accessUntil: day(10)),
    Case(
      name: "no hold, before", now: day(10, ms: -1), hold: .zero, expected: "active pro renewing",
      accessUntil: day(10)),
    Case(name: "no hold, at the end", now: day(10), hold: .zero, expected: "expired free unproven stale"),
    Case(
      name: "a hold of 1 ms, inside", now: day(10), hold: .milliseconds(1), expected: "active pro renewing stale",
      accessUntil: day(10)),
    Case(
      name: "a hold of 1 ms, over", now: day(10, ms: 1), hold: .milliseconds(1),
      expected: "expired free unproven stale"),
    Case(
      name: "grace known ahead is proof, not hold", renewals: [renewal(renews: true, grace: day(16))],
      now: day(16, ms: -1),
      expected: "grace_period pro billing_grace", accessUntil: day(16)),
    Case(
      name: "the hold begins when the grace known ahead ends", renewals: [renewal(renews: true, grace: day(16))],
      now: day(16), expected: "grace_period pro billing_grace stale", accessUntil: day(16)),
    Case(
      name: "last moment after grace", renewals: [renewal(renews: true, grace: day(16))], now: day(23, ms: -1),
      expected: "grace_period pro billing_grace stale", accessUntil: day(16)),
    Case(
      name: "unproven after grace", renewals: [renewal(renews: true, grace: day(16))], now: day(23),
      expected: "expired free unproven stale"),
    Case(
      name: "in grace already", rows: [row("1")], renewals: [renewal(grace: day(3))], now: day(3),
      expected: "grace_period pro billing_grace stale", accessUntil: day(3)),
    Case(
      name: "in retry already", rows: [row("1")], renewals: [renewal(retry: true)], now: day(55, ms: -1),
      expected: "grace_period pro billing_retry", accessUntil: day(55)),
    Case(
      name: "retry is over", rows: [row("1")], renewals: [renewal(retry: true)], now: day(55),
      expected: "grace_period pro billing_retry stale", accessUntil: day(55)),
    Case(
      name: "retry is over and the hold too", rows: [row("1")], renewals: [renewal(retry: true)], now: day(62),
      expected: "expired free unproven stale"),
    Case(
      name: "retry of no access was proven expired: nothing to hold", rows: [row("1")],
      renewals: [renewal(retry: true)],
      now: day(1), retryAccess: .zero, expected: "expired free unknown"),
    Case(
      name: "proven expired stays so", rows: [row("1")], renewals: [renewal(intent: 1)], now: day(1),
      expected: "expired free voluntary"),
    Case(
      name: "ended in the very moment of the answer", rows: [row("1", until: noon)], now: day(1),
      expected: "expired free unknown"),
    Case(
      name: "proven refunded stays so", rows: [row("1", until: day(10), cancelled: day(-1))], now: day(11),
      expected: "expired free refunded"),
    Case(
      name: "a refunded renewal that was to follow is proof of the end",
      rows: [row("1", from: day(-29), until: day(1)), row("2", from: day(1), until: day(31), cancelled: noon)],
      now: day(1), expected: "expired free refunded"),
    Case(
      name: "lifetime needs no hold", rows: [row("1", forever, until: nil)], now: day(9000),
      expected: "active premium lifetime"),
  ])
  func `a state that ended by time alone stands for the hold, marked stale`(item: Case) throws {
    let verdict = try evaluate(
      answer(item.rows, item.renewals), at: item.now, retryAccess: item.retryAccess, hold: item.hold)
    #expect(verdict.line == item.expected)
    #expect(verdict.accessUntil == item.accessUntil)
    #expect(verdict.explanation.evaluatedAt == item.now)
    if verdict.isStale {
      #expect(verdict.explanation.policy == .init(key: "policy.outage_hold", value: item.hold.configurationText))
      #expect(verdict.evidenceTime == noon)
    }
  }

  @Test func `a clock that runs behind the evidence proves nothing`() throws {
    let ended = answer([row("1")], [renewal(intent: 1)])
    let verdict = try evaluate(ended, at: day(-6))
    #expect(verdict.line == "expired free voluntary")
    #expect(verdict.explanation.evaluatedAt == noon)
    #expect(try evaluate(answer([row("1", until: day(10))]), at: day(-4000)).line == "active pro renewing")
  }

  @Test func `a fresh answer ends the hold either way`() throws {
    let first = row("1", from: day(-20), until: day(10))
    let now = day(12)
    #expect(try evaluate(answer([first]), at: now).isStale)
    #expect(try evaluate(answer(at: now, [first], [renewal(intent: 1)]), at: now).line == "expired free voluntary")
    #expect(
      try evaluate(answer(at: now, [first, row("2", from: day(10), until: day(40))]), at: now).line
        == "active pro renewing")
  }

  @Test func `a held tier is not lost to another subscription, and a proven one of the same tier speaks before it`()
    throws
  {
    let held = answer([row("1", premium, of: "1", until: day(10))])
    let running = answer([row("2", pro, of: "2", until: day(100))])
    #expect(try evaluate(held + running, at: day(11)).line == "active premium renewing stale")
    #expect(try evaluate(held + running, at: day(17)).line == "active pro renewing")
    let same = answer([row("3", premium, of: "3", until: day(12))])
    #expect(try evaluate(held + same, at: day(11)).line == "active premium renewing")
  }

  @Test func `an unproven state keeps the end of the paid period and loses the access`() throws {
    let verdict = try evaluate(answer([row("1", until: day(10))], [renewal(renews: true)]), at: day(30))
    #expect(verdict.reason == .unproven)
    #expect(verdict.expiresAt == day(10))
    #expect(verdict.accessUntil == nil)
    #expect(verdict.productID == pro)
  }
}
