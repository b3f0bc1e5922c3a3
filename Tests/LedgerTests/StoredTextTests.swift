import Entitlements
import Foundation
import Testing

@testable import Ledger

/// What is kept as JSON, held against Foundation: `Codable` says what the text is.
@Suite struct StoredTextTests {
  @Test func `a text is the one that Foundation writes`() throws {
    var random = SplitMix(state: 1)
    for _ in 0..<2_000 {
      let rows = random.rows()
      #expect(try StoredForm.text(rows) == StoredForm.encoded(rows))
      let verdict = random.entitlement()
      #expect(try StoredForm.text(verdict) == StoredForm.encoded(verdict))
    }
  }

  @Test func `a text is read as Foundation reads it, by the fast reader where nothing is escaped`() throws {
    var random = SplitMix(state: 2)
    for _ in 0..<2_000 {
      let rows = try StoredForm.encoded(random.rows())
      #expect(
        try sameRows(StoredForm.value(StoredForm.Rows.self, rows), StoredForm.decoded(StoredForm.Rows.self, rows)))
      let verdict = try StoredForm.encoded(random.entitlement())
      let read = try StoredForm.decoded(Entitlement.self, verdict)
      #expect(try StoredForm.value(Entitlement.self, verdict) == read)
      if !verdict.contains("\\") {
        #expect(try StoredTextReader.value(of: verdict, Entitlement.init(from:)) == read)
      }
      if !rows.contains("\\") { _ = try StoredTextReader.value(of: rows, StoredForm.Rows.init(from:)) }
    }
  }

  /// Whoever adds a property has to write and read it, too: one that is optional would be forgotten in silence.
  @Test func `every property is known`() {
    let explanation = Explanation(line: nil, decidedBy: nil, passedOver: [], evaluatedAt: nil)
    let values: [(Any, Int)] = [
      (Purchase(productID: pro, transactionID: "1", originalTransactionID: "1"), 15), (RenewalInfo(), 9),
      (Entitlement.none(tier: "free", reason: .unknown, explanation: explanation), 17), (explanation, 7),
      (Explanation.PassedOver(transactionID: "1", productID: pro, cause: .upgraded), 3),
      (Explanation.PolicyValue(key: "k", value: "v"), 2), (StoredForm.Rows(evidence("1")), 3),
      (StoredForm.Rows.Parts(), 2),
    ]
    for (value, count) in values { #expect(Mirror(reflecting: value).children.count == count, "\(type(of: value))") }
  }

  /// Each byte of a text taken out, doubled, or changed into one that means something in JSON.
  @Test func `a text that was tampered with is read, or refused, as Foundation does`() throws {
    var random = SplitMix(state: 3)
    var refused = 0
    for _ in 0..<4 {
      let verdict = Array(try StoredForm.encoded(random.entitlement()).utf8)
      let rows = Array(try StoredForm.encoded(random.rows()).utf8)
      for place in 0..<max(verdict.count, rows.count) {
        for change in Self.changes {
          if place < verdict.count {
            let text = String(decoding: change(verdict, place), as: UTF8.self)
            let read = try? StoredForm.decoded(Entitlement.self, text)
            #expect((try? StoredForm.value(Entitlement.self, text)) == read, "\(text)")
            if read == nil { refused += 1 }
          }
          if place < rows.count {
            let text = String(decoding: change(rows, place), as: UTF8.self)
            let read = try? StoredForm.decoded(StoredForm.Rows.self, text)
            let ours = try? StoredForm.value(StoredForm.Rows.self, text)
            #expect((read == nil) == (ours == nil), "\(text)")
            if let read, let ours { #expect(sameRows(ours, read), "\(text)") }
          }
        }
      }
    }
    #expect(refused > 1_000)
  }

  @Test(arguments: [
    #"{"purchases":[],"renewals":[]}"#, #"{ "purchases" : [ ] , "renewals" : [ ] }"#,
    #"{"renewals":[],"purchases":[]}"#, #"{"purchases":[],"renewals":[],"new":1}"#,
    #"{"parts":{},"purchases":[],"renewals":[]}"#, #"{"parts":null,"purchases":[],"renewals":[]}"#,
    #"{"parts":{"since":1.0},"purchases":[],"renewals":[]}"#, #"{"parts":{"since":1e3},"purchases":[],"renewals":[]}"#,
    #"{"parts":{"since":-9223372036854775808},"purchases":[],"renewals":[]}"#,
    #"{"parts":{"since":9223372036854775807},"purchases":[],"renewals":[]}"#,
    #"{"parts":{"since":9223372036854775808},"purchases":[],"renewals":[]}"#,
    #"{"parts":{"since":01},"purchases":[],"renewals":[]}"#, #"{"parts":{"since":-0},"purchases":[],"renewals":[]}"#,
    #"{"parts":{"since":-},"purchases":[],"renewals":[]}"#, #"{"parts":{"since":"1"},"purchases":[],"renewals":[]}"#,
    #"{"purchases":[],"renewals":[{"autoRenews":1}]}"#, #"{"purchases":[],"renewals":[{"productID":"\ud83d\ude00"}]}"#,
    #"{"purchases":[],"renewals":[{"productID":"\ud83d"}]}"#, #"{"purchases":[],"renewals":[{},{}]}"#,
    #"{"purchases":[],"renewals":[{},]}"#, #"{"purchases":[],"renewals":[]}}"#, #"{"purchases":[],"renewals":[]"#,
    #"{"purchases":[{}],"renewals":[]}"#, "", "null", "[]", "{}",
  ])
  func `what another hand wrote is read, or refused, as Foundation does`(text: String) {
    let read = try? StoredForm.decoded(StoredForm.Rows.self, text)
    let ours = try? StoredForm.value(StoredForm.Rows.self, text)
    #expect((read == nil) == (ours == nil))
    if let read, let ours { #expect(sameRows(ours, read)) }
  }

  @Test func `a date that no count of milliseconds holds is not written`() {
    var purchase = Purchase(productID: pro, transactionID: "1", originalTransactionID: "1")
    purchase.purchaseDate = Date(timeIntervalSince1970: .infinity)
    let rows = StoredForm.Rows(parts: nil, purchases: [purchase], renewals: [])
    #expect(throws: StoredForm.Unstorable.self) { try StoredForm.text(rows) }
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

private func sameRows(_ one: StoredForm.Rows, _ other: StoredForm.Rows) -> Bool {
  one.purchases == other.purchases && one.renewals == other.renewals && (one.parts == nil) == (other.parts == nil)
    && one.parts?.since == other.parts?.since && one.parts?.answeredAt == other.parts?.answeredAt
}

/// Values with anything in them that their types can hold.
private struct SplitMix {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }

  mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }
  mutating func flag() -> Bool { next() & 1 == 0 }
  mutating func maybe<Value>(_ make: (inout SplitMix) -> Value) -> Value? { flag() ? make(&self) : nil }
  mutating func one<Value>(of values: [Value]) -> Value { values[below(values.count)] }
  mutating func many<Value>(_ make: (inout SplitMix) -> Value) -> [Value] { (0..<below(4)).map { _ in make(&self) } }

  mutating func text() -> String {
    guard below(8) == 0 else { return "id-\(below(1_000_000))" }
    return String(
      String.UnicodeScalarView((0..<below(6)).map { _ in Unicode.Scalar(UInt32(below(0xd800))) ?? "?" }))
      + one(of: ["", "\"", "\\", "/", "\n", "\u{0}", "\u{1f}", "\u{7f}", "\u{2028}", "é", "😀", "\u{8}\u{c}\r\t"])
  }

  mutating func date() -> Date {
    below(8) == 0
      ? Date(timeIntervalSince1970: Double(Int64(bitPattern: next()) >> below(60)) / 1_000)
      : at(Double(below(10_000_000)) / 7)
  }

  mutating func purchase() -> Purchase {
    Purchase(
      productID: ProductID(text()), transactionID: TransactionID(text()),
      originalTransactionID: OriginalTransactionID(text()), webOrderLineItemID: maybe { $0.text() },
      subscriptionGroupID: maybe { SubscriptionGroupID($0.text()) }, purchaseDate: maybe { $0.date() },
      expiresDate: maybe { $0.date() }, cancellationDate: maybe { $0.date() },
      cancellationReason: maybe { Int(Int64(bitPattern: $0.next())) }, isUpgraded: flag(),
      ownership: one(of: [Purchase.Ownership.purchased, .familyShared]), isTrial: flag(), isIntroductoryOffer: flag(),
      appAccountToken: maybe { $0.text() }, reportedAt: maybe { $0.date() })
  }

  mutating func renewal() -> RenewalInfo {
    RenewalInfo(
      originalTransactionID: maybe { OriginalTransactionID($0.text()) }, productID: maybe { ProductID($0.text()) },
      autoRenewProductID: maybe { ProductID($0.text()) }, autoRenews: maybe { $0.flag() },
      expirationIntent: maybe { $0.below(9) - 4 }, isInBillingRetry: maybe { $0.flag() },
      gracePeriodExpiresDate: maybe { $0.date() }, periodEnd: maybe { $0.date() }, reportedAt: maybe { $0.date() })
  }

  mutating func rows() -> StoredForm.Rows {
    StoredForm.Rows(
      parts: maybe { random in
        StoredForm.Rows.Parts(since: random.maybe { $0.date() }, answeredAt: random.maybe { $0.date() })
      },
      purchases: many { $0.purchase() }, renewals: many { $0.renewal() })
  }

  private static let causes: [Explanation.PassedOver.Cause] = [
    .upgraded, .cancelled, .notCatalogued, .noExpiry, .endsEarlier, .accountGone, .otherSubscription,
  ]

  mutating func entitlement() -> Entitlement {
    var explanation = Explanation(
      line: maybe { $0.below(8) }, decidedBy: maybe { TransactionID($0.text()) },
      periodKnownBy: maybe { _ in .renewalInfo },
      passedOver: many { random in
        Explanation.PassedOver(
          transactionID: TransactionID(random.text()), productID: ProductID(random.text()),
          cause: random.one(of: Self.causes))
      },
      policy: maybe { Explanation.PolicyValue(key: $0.text(), value: $0.text()) }, evaluatedAt: maybe { $0.date() })
    explanation.passedOverCount += below(3)
    var verdict = Entitlement.none(
      tier: Tier(text()), reason: one(of: EntitlementReason.allCases), explanation: explanation)
    verdict.status = one(of: SubscriptionStatus.allCases)
    verdict.expiresAt = maybe { $0.date() }
    verdict.accessUntil = maybe { $0.date() }
    verdict.productID = maybe { ProductID($0.text()) }
    verdict.originalTransactionID = maybe { OriginalTransactionID($0.text()) }
    verdict.environment = maybe { $0.one(of: StoreEnvironment.allCases) }
    verdict.willRenew = maybe { $0.flag() }
    verdict.nextProductID = maybe { ProductID($0.text()) }
    verdict.isTrial = flag()
    verdict.ownership = maybe { $0.one(of: [Purchase.Ownership.purchased, .familyShared]) }
    verdict.evidenceTime = maybe { $0.date() }
    verdict.source = maybe { $0.one(of: EvidenceSource.allCases) }
    verdict.isStale = flag()
    verdict.isProvisional = flag()
    return verdict
  }
}
