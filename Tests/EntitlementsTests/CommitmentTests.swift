import Entitlements
import Testing

import struct FoundationEssentials.Date

/// A year that the customer pays by the month, and is bound to: Apple reports the wish to stop beside the renewal status,
/// which is on until the last payment.
@Suite struct CommitmentTests {
  /// The second month of a year that ends in 300 days.
  private static func payment(commitment end: Date? = day(300)) -> Purchase {
    var payment = row("2", proYearly, from: day(-20), until: day(10))
    var terms = Purchase.Terms()
    terms.billingPlan = "MONTHLY"
    (terms.billingPeriod, terms.billingPeriods) = (2, 12)
    terms.commitmentEndsAt = end
    payment.sale = Purchase.Sale(price: 4_165, currency: "USD", terms: terms)
    return payment
  }

  private static func info(
    renews: Bool? = true, another: Bool?, commitment end: Date? = day(300), signedAt: Date = noon
  ) -> RenewalInfo {
    var info = renewal(proYearly, renews: renews)
    info.terms = RenewalTerms(signedAt: signedAt)
    info.terms?.commitmentRenews = another
    info.terms?.commitmentEndsAt = end
    return info
  }

  private func verdict(_ row: Purchase, _ info: RenewalInfo, at now: Date = noon) throws -> Entitlement {
    try evaluate(answer(at: now, [row], [info], source: .serverAPI), at: now)
  }

  @Test func `the wish to stop turns renewal off at the end of the commitment, and access stays`() throws {
    let verdict = try verdict(Self.payment(), Self.info(another: false))
    #expect(verdict.line == "active pro renewal_off")
    #expect(verdict.accessUntil == day(10) && verdict.willRenew == true)
    #expect(verdict.commitmentExpiresAt == day(300) && verdict.commitmentRenews == false)
  }

  @Test func `a commitment that goes on renews, and its end is known`() throws {
    for another in [true, nil] {
      let verdict = try verdict(Self.payment(), Self.info(another: another))
      #expect(verdict.line == "active pro renewing")
      #expect(verdict.commitmentExpiresAt == day(300) && verdict.commitmentRenews == another)
    }
    // Apple names the end in either place.
    #expect(try verdict(Self.payment(commitment: nil), Self.info(another: nil)).commitmentExpiresAt == day(300))
    #expect(try verdict(Self.payment(), Self.info(another: nil, commitment: nil)).commitmentExpiresAt == day(300))
  }

  @Test func `in the last month of a stopped commitment the status says that nothing renews`() throws {
    let last = try verdict(
      Self.payment(commitment: day(10)), Self.info(renews: false, another: false, commitment: day(10)))
    #expect(last.line == "cancelled pro renewal_off")
    #expect(last.commitmentExpiresAt == day(10))
  }

  @Test func `a failed payment within a commitment is in grace as any other`() throws {
    var info = Self.info(another: false)
    info.gracePeriodExpiresDate = day(20)
    let verdict = try verdict(Self.payment(), info, at: day(12))
    #expect(verdict.line == "grace_period pro billing_grace")
    #expect(verdict.commitmentExpiresAt == day(300) && verdict.commitmentRenews == false)
    #expect(
      try self.verdict(Self.payment(), Self.info(renews: false, another: false), at: day(12)).commitmentExpiresAt == nil
    )
  }

  @Test func `terms of an earlier commitment say nothing about a later one`() throws {
    let verdict = try verdict(Self.payment(), Self.info(another: false, commitment: day(-20)))
    #expect(verdict.line == "active pro renewing")
    #expect(verdict.commitmentExpiresAt == day(300) && verdict.commitmentRenews == nil)
  }

  @Test func `an answer that has no terms takes back none`() throws {
    let told = answer(at: day(-1), [Self.payment()], [Self.info(another: false, signedAt: day(-1))], source: .serverAPI)
    var plain = Self.payment()
    plain.sale = nil
    let later = answer(at: noon, [plain], [renewal(proYearly, renews: true)])
    for merged in [told[0].merging(later[0]), later[0].merging(told[0])] {
      #expect(try evaluate([merged]).line == "active pro renewal_off")
      #expect(merged.terms?.signedAt == day(-1) && merged.source == .verifyReceipt)
    }
    let resumed = answer(at: day(1), [Self.payment()], [Self.info(another: true, signedAt: day(1))], source: .serverAPI)
    #expect(try evaluate([resumed[0].merging(told[0]).merging(later[0])], at: day(1)).line == "active pro renewing")
  }

  @Test func `the same answer a day later differs in nothing but its time`() {
    let evidence = [noon, day(1)].map { time in
      answer(at: time, [Self.payment()], [Self.info(another: false, signedAt: time)], source: .serverAPI)[0]
    }
    #expect(evidence[0].terms == evidence[1].terms && evidence[0].renewals == evidence[1].renewals)
  }
}
