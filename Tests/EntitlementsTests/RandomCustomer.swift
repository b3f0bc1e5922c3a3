import Entitlements
import SeededRandom

import struct FoundationEssentials.Date

extension SeededRandom {
  mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

  mutating func pick<T>(_ values: [T], or fallback: T) -> T { values.randomElement(using: &self) ?? fallback }

  /// A moment near `noon`, on a coarse grid so that boundaries meet, sometimes a millisecond off it.
  mutating func moment(_ days: ClosedRange<Int>) -> Date {
    day(Double(Int.random(in: days, using: &self)), ms: chance(20) ? pick([-1, 1], or: 1) : 0)
  }
}

/// Makes small customers, denser in trouble than real ones.
struct RandomCustomer {
  var random: SeededRandom
  private var serial = 0
  /// Whether they buy non-renewing subscriptions, of which one prolongs another.
  var buysSeasons = false

  init(seed: UInt64) { random = SeededRandom(seed: seed) }

  mutating func renewalInfo(of original: OriginalTransactionID, _ product: ProductID) -> RenewalInfo {
    // Of most customers Apple has nothing to say but that the subscription goes on.
    if random.chance(35) {
      return RenewalInfo(
        originalTransactionID: original, productID: product, autoRenews: true,
        status: random.pick([nil, .active], or: nil))
    }
    return RenewalInfo(
      originalTransactionID: original, productID: product,
      autoRenewProductID: random.pick([nil, pro, premium], or: nil),
      autoRenews: random.pick([nil, true, false], or: nil),
      expirationIntent: random.pick([nil, nil, nil, nil, 1, 1, 2, 3, 4, 5, 17], or: nil),
      isInBillingRetry: random.pick([nil, true, true, false], or: nil),
      gracePeriodExpiresDate: random.chance(30) ? random.moment(-10...15) : nil,
      status: random.chance(50) ? RenewalInfo.Status(rawValue: Int.random(in: 1...5, using: &random)) : nil,
      isGraceOver: random.chance(10) ? true : nil)
  }

  mutating func purchase(of original: OriginalTransactionID, group: SubscriptionGroupID?) -> Purchase {
    serial += 1
    let product = random.pick(
      [pro, pro, pro, proYearly, premium, premium, premium, unheardOf, buysSeasons ? season : pro], or: pro)
    let begin = random.moment(-40...5)
    let end = begin.advanced(by: .seconds(86_400 * Int64(random.pick([1, 7, 30, 30, 365], or: 30))))
    return Purchase(
      productID: product, transactionID: TransactionID("\(serial)"), originalTransactionID: original,
      subscriptionGroupID: group, purchaseDate: random.chance(95) ? begin : nil,
      expiresDate: random.chance(product == season ? 5 : 95) ? end : nil,
      cancellationDate: random.chance(15) ? random.moment(-40...10) : nil,
      isUpgraded: random.chance(10), ownership: random.chance(20) ? .familyShared : .purchased,
      isTrial: random.chance(20), sale: random.chance(10) ? Purchase.Sale(terms: commitment()) : nil)
  }

  /// The payments of a year.
  private mutating func commitment() -> Purchase.Terms {
    var terms = Purchase.Terms()
    terms.billingPlan = "MONTHLY"
    terms.commitmentEndsAt = random.moment(-10...40)
    return terms
  }

  private mutating func terms() -> RenewalTerms {
    var terms = RenewalTerms()
    terms.price = 4_990
    terms.commitmentRenews = random.pick([nil, false, false, true], or: nil)
    terms.commitmentEndsAt = random.chance(80) ? random.moment(-10...40) : nil
    return terms
  }

  /// One key: some rows and, mostly, what Apple says about the next renewal.
  mutating func subscription(_ number: Int, groups: [SubscriptionGroupID?] = [nil]) -> SubscriptionEvidence {
    let original = OriginalTransactionID("k\(number)")
    let group = random.pick(groups, or: nil)
    let rows = (0..<Int.random(in: 1...4, using: &random)).map { _ in purchase(of: original, group: group) }
    let lifetime = random.chance(5)
    let moment = random.moment(-20...0)
    var evidence = SubscriptionEvidence(
      key: SubscriptionKey(environment: .production, originalTransactionID: original), source: .verifyReceipt,
      evidenceTime: moment, evaluatedAt: moment,
      purchases: rows + (lifetime ? [self.lifetime(of: original, group: group)] : []),
      renewals: random.chance(80) ? [renewalInfo(of: original, rows.last?.productID ?? pro)] : [],
      isAccountGone: random.chance(4),
      grace: random.chance(10)
        ? KnownGrace(
          until: random.chance(70) ? random.moment(-10...15) : nil,
          after: random.chance(30) ? random.moment(-20...0) : nil,
          runningAt: random.chance(50) ? random.moment(-20...0) : nil,
          overAt: random.chance(20) ? random.moment(-20...0) : nil) : nil)
    if random.chance(25) { evidence.terms = terms() }
    guard buysSeasons else { return evidence }
    for purchase in evidence.purchases where purchase.expiresDate == nil && random.chance(50) {
      evidence.purchases.append(restored(purchase))
    }
    return evidence
  }

  /// Seasons with an original ID each, some of them restored. Each transaction was signed at a time of its own.
  mutating func seasons() -> [SubscriptionEvidence] {
    let rows = (1...Int.random(in: 1...4, using: &random)).flatMap { number in
      var bought = purchase(of: OriginalTransactionID("s\(number)"), group: nil)
      bought.productID = season
      bought.expiresDate = nil
      bought.isUpgraded = false
      return [bought] + (0..<Int.random(in: 0...2, using: &random)).map { _ in restored(bought) }
    }
    let signed = rows.map { row in
      var row = row
      row.reportedAt = random.moment(-20...0)
      return row
    }
    return answer(signed, source: .signature, isPart: true)
  }

  /// Another transaction of a purchase.
  private mutating func restored(_ purchase: Purchase) -> Purchase {
    serial += 1
    var restored = purchase
    restored.transactionID = TransactionID("\(serial)")
    restored.purchaseDate = random.moment(-40...5)
    restored.cancellationDate = random.chance(15) ? random.moment(-40...10) : nil
    return restored
  }

  private mutating func lifetime(of original: OriginalTransactionID, group: SubscriptionGroupID?) -> Purchase {
    var purchase = purchase(of: original, group: group)
    purchase.productID = forever
    purchase.expiresDate = nil
    return purchase
  }

  /// Up to four keys, some of them of one group and some in the sandbox.
  mutating func customer(groups: [SubscriptionGroupID?] = [nil, nil, "A", "B"]) -> [SubscriptionEvidence] {
    (0..<Int.random(in: 0...4, using: &random)).map { number in
      let evidence = subscription(number, groups: groups)
      guard random.chance(20) else { return evidence }
      var other = evidence
      other.key = SubscriptionKey(environment: .sandbox, originalTransactionID: evidence.key.originalTransactionID)
      return other
    }
  }

  mutating func policy() -> EntitlementPolicy {
    EntitlementPolicy(
      billingRetryAccess: random.pick(
        [.zero, .milliseconds(1), .seconds(3 * 86_400), .seconds(60 * 86_400)], or: .zero),
      outageHold: random.pick([.zero, .milliseconds(1), .seconds(7 * 86_400)], or: .zero),
      lateRenewal: random.pick([.zero, .milliseconds(1), .seconds(86_400), .seconds(30 * 86_400)], or: .zero))
  }
}
