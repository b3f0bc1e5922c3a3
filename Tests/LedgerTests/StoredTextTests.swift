import Entitlements
import Foundation
import LedgerFixtures
import SeededRandom
import Testing

@testable import Ledger

/// The texts that are kept as JSON. Verdicts are held against Foundation: `Codable` says what the text is. Evidence has
/// a form of its own, which is read as it was written or not at all.
@Suite(.computing) struct StoredTextTests {
  @Test func `a text is the one that Foundation writes`() throws {
    var random = SeededRandom(seed: 1)
    for _ in 0..<2_000 {
      let verdict = random.entitlement()
      #expect(try StoredForm.text(verdict) == StoredForm.encoded(verdict))
    }
  }

  @Test func `a text is read as Foundation reads it, by the fast reader where nothing is escaped`() throws {
    var random = SeededRandom(seed: 2)
    for _ in 0..<2_000 {
      let verdict = try StoredForm.encoded(random.entitlement())
      let read = try StoredForm.decoded(Entitlement.self, verdict)
      #expect(try StoredForm.value(Entitlement.self, verdict) == read)
      if !verdict.contains("\\") {
        #expect(try StoredTextReader.value(of: verdict, Entitlement.init(from:)) == read)
      }
    }
  }

  @Test func `evidence is read as it was written`() throws {
    var random = SeededRandom(seed: 5)
    for _ in 0..<2_000 {
      let evidence = random.evidence()
      let text = try StoredForm.text(evidence)
      #expect(try read(text, as: evidence) == evidence, "\(text)")
      // Any reader of JSON takes the text, whatever the names are.
      #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(text.utf8)) }
    }
  }

  @Test func `each name is written once, and nothing of what is absent`() throws {
    var one = evidence("1")
    one.purchases += [Purchase(productID: pro, transactionID: "t2", originalTransactionID: "0")]
    one.purchases[1].ownership = .familyShared
    one.purchases[1].isUpgraded = true
    one.renewals = []
    #expect(
      try StoredForm.text(one) == """
        {"names":["com.example.app.pro.monthly","0"],\
        "purchases":[[0,"t-1-1000.0",1749999900000,1750001000000,16],[0,"t2",null,null,3,null,null,null,null,1]],\
        "renewals":[]}
        """)
  }

  /// Whoever adds a property has to write and read it, too: one that is optional would be forgotten in silence.
  @Test func `every property is known`() throws {
    let explanation = Explanation(decidedBy: nil, passedOver: [], evaluatedAt: nil)
    let values: [(Any, Int)] = [
      (Purchase(productID: pro, transactionID: "1", originalTransactionID: "1"), 19),
      (try #require(Purchase.Sale(price: 1)), 8), (Purchase.Terms(), 11), (RenewalInfo(), 13), (RenewalTerms(), 15),
      (AdvancedCommerceItem(sku: "1"), 4),
      (Entitlement.none(tier: "free", reason: .unknown, explanation: explanation), 19), (explanation, 8),
      (Explanation.PassedOver(transactionID: "1", productID: pro, cause: .upgraded), 3),
      (Explanation.PolicyValue(key: "k", value: "v"), 2),
      (StoredForm.Rows(parts: nil, purchases: [], renewals: []), 6),
      (KnownGrace(), 4), (StoredForm.Rows.Parts(), 3), (KnownRefund(transactionID: "1", date: .distantPast), 2),
      // The entitlements at RevenueCat are in a column of their own, and the ends that were bought in the events.
      (evidence("1"), 16),
    ]
    for (value, count) in values { #expect(Mirror(reflecting: value).children.count == count, "\(type(of: value))") }
  }

  /// Bytes of a text taken out, doubled, or changed into one that means something in JSON.
  @Test func `a verdict that was tampered with is read, or refused, as Foundation does`() throws {
    var random = SeededRandom(seed: 3)
    var refused = 0
    for _ in 0..<4 {
      let verdict = Array(try StoredForm.encoded(random.entitlement()).utf8)
      for place in verdict.indices.shuffled(using: &random).prefix(SeededRandom.cases(verdict.count)) {
        for change in Self.changes {
          let text = String(decoding: change(verdict, place), as: UTF8.self)
          let read = try? StoredForm.decoded(Entitlement.self, text)
          #expect((try? StoredForm.value(Entitlement.self, text)) == read, "\(text)")
          if read == nil { refused += 1 }
        }
      }
    }
    #expect(refused > SeededRandom.cases(10_000))
  }

  @Test func `evidence that was tampered with is refused, or is what its text says`() throws {
    var random = SeededRandom(seed: 4)
    var (refused, accepted) = (0, 0)
    for _ in 0..<6 {
      let whole = random.evidence()
      let bytes = Array(try StoredForm.text(whole).utf8)
      for place in bytes.indices.shuffled(using: &random).prefix(SeededRandom.cases(bytes.count)) {
        for change in Self.changes {
          let text = String(decoding: change(bytes, place), as: UTF8.self)
          guard let evidence = try? read(text, as: whole) else {
            refused += 1
            continue
          }
          accepted += 1
          #expect(throws: Never.self, "\(text)") { try JSONSerialization.jsonObject(with: Data(text.utf8)) }
          // Nothing of the text was left out: written anew it says the same.
          #expect(try Values(of: StoredForm.text(evidence)) == Values(of: text), "\(text)")
        }
      }
    }
    #expect(min(refused, accepted) > SeededRandom.cases(10_000))
  }

  @Test(arguments: [
    #"{"names":[],"purchases":[[0,"1",null,null,0]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[1,"1",null,null,0]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[-1,"1",null,null,0]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[["p","1",null,null,0]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,1,null,null,0]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,null,null,null,0]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,"1",null,null,34]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,"1",null,null,-1]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,"1",null,null,null]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,"1",null,null]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,"1",1.5,null,0]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,"1",null,null,0,]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,"1",null,null,0,0,"",1,1,0,0,1,1,0,0,1,0,1]],"renewals":[]}"#,
    #"{"names":["p",""],"purchases":[[0,"1",null,null,0,0,"",1,1,0,0,1,1,1]],"renewals":[]}"#,
    #"{"names":["\ud83d"],"purchases":[],"renewals":[],"more":1}"#, #"{"names":["p"],"purchases":[[]],"renewals":[]}"#,
    #"{"names":["p"],"purchases":[[0,"1",null,null,0]]}"#, #"{"names":["p"],"renewals":[]}"#,
    #"{"purchases":[[0,"1",null,null,0]],"renewals":[]}"#, #"{"purchases":[],"renewals":[]}"#,
    #"{"names":[],"purchases":[],"renewals":[],"parts":{}}"#, #"{"names":[],"purchases":[],"renewals":[{},]}"#,
    #"{"names":[],"parts":{"since":1.0},"purchases":[],"renewals":[]}"#,
    #"{"names":[],"parts":{"since":9223372036854775808},"purchases":[],"renewals":[]}"#,
    #"{"names":[],"parts":{"since":01},"purchases":[],"renewals":[]}"#,
    #"{"names":[],"parts":{"since":-},"purchases":[],"renewals":[]}"#,
    #"{"names":[],"purchases":[],"renewals":[{"autoRenews":1}]}"#,
    #"{"names":[],"purchases":[],"renewals":[{"productID":"\ud83d"}]}"#, #"{"names":[],"purchases":[],"renewals":[]}}"#,
    "", "null", "[]", "{}",
  ])
  func `a text that is not of the present form is refused`(text: String) {
    #expect(throws: (any Error).self) { try StoredForm.rows(text, of: key("1")) }
  }

  @Test func `a date that no count of milliseconds holds is not written`() {
    var evidence = evidence("1")
    evidence.purchases[0].purchaseDate = Date(timeIntervalSince1970: .infinity)
    #expect(throws: StoredForm.Unstorable.self) { try StoredForm.text(evidence) }
  }

  /// The text as the evidence whose other columns these are.
  private func read(_ text: String, as evidence: SubscriptionEvidence) throws -> SubscriptionEvidence {
    try StoredForm.evidence(
      text, of: evidence.key, source: evidence.source,
      evidenceAt: StoredForm.milliseconds(evidence.evidenceTime),
      evaluatedAt: StoredForm.milliseconds(evidence.evaluatedAt), isAccountGone: evidence.isAccountGone)
  }

  private static let changes: [@Sendable ([UInt8], Int) -> [UInt8]] =
    [
      { text, place in Array(text[..<place]) },
      { text, place in Array(text[..<place] + text[(place + 1)...]) },
      { text, place in Array(text[...place] + text[place...]) },
    ]
    + "\"\\,:{}[]0-. 9ex\u{1}".utf8.map { byte in
      { text, place in
        var text = text
        text[place] = byte
        return text
      }
    }
}

/// All that a text in the present form says, by Foundation's reader: names put in the place of their numbers, and what is
/// absent left out.
private struct Values: Hashable {
  private var purchases: [[String]] = []
  private var rest: NSDictionary = [:]

  init(of text: String) throws {
    var object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] ?? [:]
    let names = object["names"] as? [String] ?? []
    let named: Set = [0, 5, 9, 10, 13, 14, 16, 17, 18, 20, 21, 22, 23, 24, 29, 30]
    for columns in object["purchases"] as? [[Any]] ?? [] {
      var values: [String] = []
      for (column, value) in columns.enumerated() where !(value is NSNull) {
        let name = named.contains(column) ? (value as? Int).map { names[$0] } : nil
        values.append("\(column) \(name ?? "\(value)")")
      }
      purchases.append(values)
    }
    object["names"] = nil
    object["purchases"] = nil
    rest = object as NSDictionary
  }
}

/// Values with anything in them that their types can hold.
extension SeededRandom {
  fileprivate mutating func flag() -> Bool { next() & 1 == 0 }
  fileprivate mutating func maybe<Value>(_ make: (inout SeededRandom) -> Value) -> Value? { flag() ? make(&self) : nil }
  fileprivate mutating func one<Value>(of values: [Value]) -> Value { values[below(values.count)] }
  fileprivate mutating func many<Value>(_ make: (inout SeededRandom) -> Value) -> [Value] {
    (0..<below(4)).map { _ in make(&self) }
  }

  fileprivate mutating func text() -> String {
    guard below(8) == 0 else { return "id-\(below(1_000_000))" }
    return String(
      String.UnicodeScalarView((0..<below(6)).map { _ in Unicode.Scalar(UInt32(below(0xd800))) ?? "?" }))
      + one(of: ["", "\"", "\\", "/", "\n", "\u{0}", "\u{1f}", "\u{7f}", "\u{2028}", "é", "😀", "\u{8}\u{c}\r\t"])
  }

  fileprivate mutating func date() -> Date {
    below(8) == 0
      ? Date(timeIntervalSince1970: Double(Int64(bitPattern: next()) >> below(60)) / 1_000)
      : at(Double(below(10_000_000)) / 7)
  }

  /// A few products and groups, as a name is written once.
  fileprivate mutating func name() -> String { flag() ? "name-\(below(3))" : text() }

  mutating func purchase(_ key: SubscriptionKey) -> Purchase {
    Purchase(
      productID: ProductID(name()), transactionID: TransactionID(text()),
      originalTransactionID: flag() ? key.originalTransactionID : OriginalTransactionID(name()),
      webOrderLineItemID: maybe { $0.text() }, subscriptionGroupID: maybe { SubscriptionGroupID($0.name()) },
      purchaseDate: maybe { $0.moment() }, expiresDate: maybe { $0.moment() }, cancellationDate: maybe { $0.moment() },
      cancellationReason: maybe { Int(Int64(bitPattern: $0.next())) }, isUpgraded: flag(),
      ownership: one(of: [Purchase.Ownership.purchased, .familyShared, .unknown]), isTrial: flag(),
      isIntroductoryOffer: flag(), isPrepaid: flag(), isFirst: flag(),
      appAccountToken: maybe { $0.name() }, reportedAt: maybe { $0.moment() },
      sale: Purchase.Sale(
        price: maybe { Int64($0.below(1 << 40)) }, currency: maybe { $0.text() }, storefront: maybe { $0.text() },
        offerType: maybe { $0.below(9) - 4 }, offerPeriod: maybe { $0.text() }, offerID: maybe { $0.name() },
        revocationPercentage: maybe { Int64($0.below(100_001)) }, terms: maybe { $0.terms() }),
      appVersion: maybe { $0.name() })
  }

  private mutating func terms() -> Purchase.Terms {
    var terms = Purchase.Terms()
    terms.reason = maybe { $0.name() }
    terms.discountType = maybe { $0.name() }
    terms.appTransactionID = maybe { $0.name() }
    terms.revocationType = maybe { $0.name() }
    terms.billingPlan = maybe { $0.name() }
    terms.billingPeriod = maybe { Int64($0.below(24)) }
    terms.billingPeriods = maybe { Int64($0.below(24)) }
    terms.commitmentEndsAt = maybe { $0.moment() }
    terms.commitmentPrice = maybe { Int64($0.below(1 << 40)) }
    terms.previousOriginalTransactionID = maybe { OriginalTransactionID($0.name()) }
    terms.items = many { $0.item() }
    return terms
  }

  private mutating func item() -> AdvancedCommerceItem {
    AdvancedCommerceItem(
      sku: text(), name: maybe { $0.text() }, price: maybe { Int64($0.below(1 << 40)) },
      revokedAt: maybe { $0.moment() })
  }

  private mutating func renewalTerms() -> RenewalTerms {
    var terms = RenewalTerms(signedAt: maybe { $0.moment() })
    terms.priceIncreaseStatus = maybe { $0.below(3) - 1 }
    terms.price = maybe { Int64($0.below(1 << 40)) }
    terms.currency = maybe { $0.text() }
    terms.offerType = maybe { $0.below(9) - 4 }
    terms.offerID = maybe { $0.text() }
    terms.discountType = maybe { $0.text() }
    terms.billingPlan = maybe { $0.text() }
    terms.commitmentRenews = maybe { $0.flag() }
    terms.commitmentEndsAt = maybe { $0.moment() }
    terms.commitmentProductID = maybe { ProductID($0.text()) }
    terms.commitmentBillingPlan = maybe { $0.text() }
    terms.commitmentPrice = maybe { Int64($0.below(1 << 40)) }
    terms.winBackOfferIDs = maybe { $0.many { $0.text() } }
    terms.items = many { $0.item() }
    return terms
  }

  mutating func renewal() -> RenewalInfo {
    RenewalInfo(
      originalTransactionID: maybe { OriginalTransactionID($0.text()) }, productID: maybe { ProductID($0.text()) },
      autoRenewProductID: maybe { ProductID($0.text()) }, autoRenews: maybe { $0.flag() },
      expirationIntent: maybe { $0.below(9) - 4 }, isInBillingRetry: maybe { $0.flag() },
      gracePeriodExpiresDate: maybe { $0.moment() }, periodEnd: maybe { $0.moment() },
      status: maybe { $0.one(of: [.active, .expired, .billingRetry, .billingGracePeriod, .revoked]) },
      isGraceOver: maybe { $0.flag() }, graceAfter: maybe { $0.moment() }, reportedAt: maybe { $0.moment() })
  }

  /// Evidence as it is read: in whole milliseconds that a `Date` holds exactly.
  mutating func evidence() -> SubscriptionEvidence {
    let key = SubscriptionKey(
      environment: one(of: StoreEnvironment.allCases), originalTransactionID: OriginalTransactionID(text()))
    var evidence = SubscriptionEvidence(
      key: key, source: one(of: EvidenceSource.allCases), evidenceTime: moment(), evaluatedAt: moment(),
      purchases: many { $0.purchase(key) }, renewals: many { $0.renewal() }, isAccountGone: flag())
    if flag() {
      evidence.coverage = .partial(since: maybe { $0.moment() })
      evidence.answeredAt = maybe { $0.moment() }
      evidence.ahead = maybe { TransactionID($0.text()) }
    }
    evidence.terms = maybe { $0.renewalTerms() }
    evidence.refund = maybe { KnownRefund(transactionID: TransactionID($0.text()), date: $0.moment()) }
    if flag() {
      evidence.grace = KnownGrace(
        until: maybe { $0.moment() }, after: maybe { $0.moment() }, runningAt: maybe { $0.moment() },
        overAt: maybe { $0.moment() })
    }
    return evidence
  }

  mutating func moment() -> Date {
    let milliseconds =
      below(8) == 0 ? Int64(bitPattern: next()) >> (14 + below(46)) : 1_750_000_000_000 + Int64(below(1 << 40))
    return StoredForm.date(milliseconds)
  }

  private static let causes: [Explanation.PassedOver.Cause] = [
    .upgraded, .cancelled, .notCatalogued, .noExpiry, .endsEarlier, .accountGone, .otherSubscription,
  ]

  mutating func entitlement() -> Entitlement {
    var explanation = Explanation(
      decidedBy: maybe { TransactionID($0.text()) },
      periodKnownBy: maybe { _ in .renewalInfo }, goesOnAs: maybe { ProductID($0.text()) },
      passedOver: many { random in
        Explanation.PassedOver(
          transactionID: TransactionID(random.text()), productID: ProductID(random.text()),
          cause: random.one(of: Self.causes))
      },
      policy: maybe { Explanation.PolicyValue(key: $0.text(), value: $0.text()) }, evaluatedAt: maybe { $0.date() })
    explanation.givenBy = maybe { Int64($0.below(1_000_000)) }
    explanation.passedOverCount += below(3)
    var verdict = Entitlement.none(
      tier: Tier(text()), reason: one(of: EntitlementReason.allCases), explanation: explanation)
    verdict.status = one(of: SubscriptionStatus.allCases)
    verdict.expiresAt = maybe { $0.date() }
    verdict.accessUntil = maybe { $0.date() }
    verdict.commitmentExpiresAt = maybe { $0.date() }
    verdict.commitmentRenews = maybe { $0.flag() }
    verdict.productID = maybe { ProductID($0.text()) }
    verdict.originalTransactionID = maybe { OriginalTransactionID($0.text()) }
    verdict.environment = maybe { $0.one(of: StoreEnvironment.allCases) }
    verdict.willRenew = maybe { $0.flag() }
    verdict.nextProductID = maybe { ProductID($0.text()) }
    verdict.isTrial = flag()
    verdict.ownership = maybe { $0.one(of: [Purchase.Ownership.purchased, .familyShared, .unknown]) }
    verdict.evidenceTime = maybe { $0.date() }
    verdict.source = maybe { $0.one(of: EvidenceSource.allCases) }
    verdict.isStale = flag()
    verdict.isProvisional = flag()
    return verdict
  }
}
