import Entitlements
import Foundation
import Ledger
import Testing

@testable import Validation

/// Which members of RevenueCat's events have to be readable.
@Suite struct RevenueCatEventTests {
  private static let now = Date(timeIntervalSince1970: 1_718_452_800.000_123_456)

  /// A body with one member in other words, or without it (`nil`).
  private static func body(_ type: String, _ name: String = "", _ json: String? = nil) -> [UInt8] {
    var members = [
      "id": #""1""#, "type": #""\#(type)""#, "event_timestamp_ms": "1718452800000", "app_user_id": #""anna""#,
      "original_app_user_id": #""anna""#, "aliases": #"["anna"]"#, "store": #""PLAY_STORE""#,
      "environment": #""PRODUCTION""#, "original_transaction_id": #""GPA.1""#, "transaction_id": #""GPA.1..0""#,
      "product_id": #""pro""#, "purchased_at_ms": "1718452800000", "expiration_at_ms": "1721044800000",
      "cancel_reason": #""CUSTOMER_SUPPORT""#, "transferred_from": #"["anna"]"#, "transferred_to": #"["ben"]"#,
    ]
    if !name.isEmpty { members[name] = json }
    let text = members.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",")
    return Array(#"{"event":{\#(text)}}"#.utf8)
  }

  private static func event(_ body: [UInt8]) -> StoreEvent? {
    guard case .purchase(_, let event) = try? RevenueCatEvent.decode(body, now: now).content else { return nil }
    return event
  }

  static let odd = [
    #""\ud83d""#, #""a\u0000""#, String(repeating: "9", count: 30), "1e999", "{}", "[]", "true", #""é é""#,
    // Attributes are a customer's own.
    #"{"\u0000":{"value":"\ud83d"},"\udc00":{"value":"x"}}"#, #"{"a":{"value":"x"},"a":{"value":"y","value":"z"}}"#,
    "{\((0..<2_000).map { #""n\#($0)":{"value":"x"}"# }.joined(separator: ","))}",
  ]

  @Test(arguments: [
    "aliases", "original_app_user_id", "app_user_id", "subscriber_attributes", "price", "currency", "country_code",
    "price_in_purchased_currency", "offer_code", "period_type", "is_family_share", "entitlement_ids", "new_product_id",
    "product_id", "purchased_at_ms", "expiration_at_ms", "grace_period_expiration_at_ms", "something_new",
  ]) func `a refund is taken whatever is said beside it`(member: String) throws {
    for json in Self.odd {
      let event = try #require(Self.event(Self.body("CANCELLATION", member, json)), "\(json)")
      #expect(event.change == .refunded && event.user == "anna" && event.transaction == "GPA.1..0", "\(json)")
    }
  }

  @Test(
    arguments: [
      ("INITIAL_PURCHASE", "", "", .period), ("RENEWAL", "", "", .period), ("NON_RENEWING_PURCHASE", "", "", .single),
      ("SUBSCRIPTION_EXTENDED", "", "", .extended), ("UNCANCELLATION", "", "", .renewalOn),
      ("PRODUCT_CHANGE", "", "", .productChange), ("SUBSCRIPTION_PAUSED", "", "", .paused),
      ("BILLING_ISSUE", "", "", .billingIssue), ("REFUND_REVERSED", "", "", .refundReversed),
      ("CANCELLATION", "cancel_reason", #""UNSUBSCRIBE""#, .renewalOff),
      ("CANCELLATION", "cancel_reason", #""BILLING_ERROR""#, .billingError),
      ("CANCELLATION", "cancel_reason", #""SUBSCRIPTION_PAUSED""#, .paused),
      ("CANCELLATION", "transaction_id", "null", .refunded), ("CANCELLATION", "", "", .refunded),
      ("EXPIRATION", "expiration_reason", #""CUSTOMER_SUPPORT""#, .refunded), ("EXPIRATION", "", "", .expired),
    ] as [(String, String, String, StoreEvent.Change)])
  func `each type stands for a change`(type: String, member: String, json: String, change: StoreEvent.Change) {
    #expect(Self.event(Self.body(type, member, json))?.change == change)
  }

  @Test func `the members that a type needs are read`() throws {
    let issue = Self.event(Self.body("BILLING_ISSUE", "grace_period_expiration_at_ms", "1722427200000"))
    #expect(issue?.graceUntil == Date(timeIntervalSince1970: 1_722_427_200))
    #expect(Self.event(Self.body("PRODUCT_CHANGE", "new_product_id", #""premium""#))?.nextProduct == "premium")
    #expect(Self.event(Self.body("EXPIRATION", "expiration_reason", #""BILLING_ERROR""#))?.expirationIntent == 2)
    #expect(Self.event(Self.body("CANCELLATION", "transaction_id", "null"))?.transaction == nil)
    let renewal = try #require(Self.event(Self.body("RENEWAL")))
    #expect(renewal.product == "pro" && renewal.transaction == "GPA.1..0")
    #expect(renewal.purchasedAt == Date(timeIntervalSince1970: 1_718_452_800))
    #expect(renewal.expiresAt == Date(timeIntervalSince1970: 1_721_044_800))
    for (json, environment) in [(#""PRODUCTION""#, StoreEnvironment.production), (#""SANDBOX""#, .sandbox)] {
      let event = try RevenueCatEvent.decode(Self.body("RENEWAL", "environment", json), now: Self.now)
      #expect(event.environment == environment && event.store == "play_store")
    }
  }

  @Test(arguments: [
    (
      "CANCELLATION",
      ["id", "type", "event_timestamp_ms", "store", "environment", "original_transaction_id", "cancel_reason"]
    ),
    ("RENEWAL", ["transaction_id", "product_id", "purchased_at_ms", "expiration_at_ms"]),
    ("NON_RENEWING_PURCHASE", ["expiration_at_ms"]), ("SUBSCRIPTION_EXTENDED", ["expiration_at_ms"]),
    ("TEMPORARY_ENTITLEMENT_GRANT", ["store", "environment", "expiration_at_ms"]),
  ]) func `the deciding transaction has to be readable`(type: String, members: [String]) {
    for member in members {
      for json in [#""\ud83d""#, #""a\u0000""#, "{}", #""é é""#] {
        #expect(throws: RevenueCatEvent.Unreadable.self, "\(member) \(json)") {
          try RevenueCatEvent.decode(Self.body(type, member, json), now: Self.now)
        }
      }
    }
  }

  @Test func `a user is read from what can be read, with IDs of four hundred octets`() {
    let emoji = String(repeating: "😀", count: 60)
    func user(_ own: String, _ aliases: String) -> UserID? {
      let text = String(decoding: Self.body("RENEWAL", "aliases", aliases), as: UTF8.self)
      return Self.event(
        Array(
          text.replacing(#""app_user_id":"anna""#, with: #""app_user_id":\#(own)"#)
            .replacing(#""original_app_user_id":"anna","#, with: "").utf8))?.user
    }
    #expect(user(#""\#(emoji)""#, "[]") == UserID(emoji))
    #expect(user(#""\#(String(repeating: "😀", count: 101))""#, #"["x y","anna"]"#) == "anna")
    #expect(user(#""$RCAnonymousID:1""#, #"[7,null,{},"\ud83d","anna"]"#) == "anna")
    #expect(user("7", "[]") == "7")
    #expect(user(#""me""#, #"["$RCAnonymousID:1"]"#) == "$RCAnonymousID:1")
    #expect(user(#""a b""#, #"["\u0000"]"#) == .nobody)
    // Of those who are not anonymous the first; else the first.
    #expect(Self.event(Self.body("RENEWAL", "original_app_user_id", #""ben""#))?.user == "anna")
    let own = Self.body("RENEWAL", "app_user_id", #""$RCAnonymousID:1""#)
    let aliased = String(decoding: own, as: UTF8.self).replacing(#""aliases":["anna"]"#, with: #""aliases":["ben"]"#)
    #expect(Self.event(Array(aliased.utf8))?.user == "anna")
    #expect(user(#""$RCAnonymousID:1""#, #"["$RCAnonymousID:2"]"#) == "$RCAnonymousID:1")
  }

  @Test func `an event of more than a day ahead counts as of its arrival`() throws {
    // The last of a day ahead, the first after it, and the time in one of RevenueCat's own samples.
    for (said, at) in [
      ("1718539200000", 1_718_539_200.0), ("1718539200001", 1_718_452_800), ("78788000000000", 1_718_452_800),
    ] {
      let event = try RevenueCatEvent.decode(Self.body("RENEWAL", "event_timestamp_ms", said), now: Self.now)
      guard case .purchase(_, let change) = event.content else {
        Issue.record("\(said) is no purchase")
        continue
      }
      #expect(event.at == Date(timeIntervalSince1970: at) && change.at == event.at, "\(said)")
    }
  }

  @Test func `users of a transfer who cannot be read are left out, and a transfer without lists is unreadable`() throws
  {
    let event = try RevenueCatEvent.decode(
      Self.body("TRANSFER", "transferred_from", #"["\ud83d","anna"]"#), now: Self.now)
    #expect(event.content == .transfer(from: ["anna"], to: "ben"))
    #expect(throws: RevenueCatEvent.Unreadable.self) {
      try RevenueCatEvent.decode(Self.body("TRANSFER", "transferred_to", #""ben""#), now: Self.now)
    }
  }

  @Test(arguments: [
    "TEST", "SUBSCRIBER_ALIAS", "EXPERIMENT_ENROLLMENT", "INVOICE_ISSUANCE", "VIRTUAL_CURRENCY_TRANSACTION",
    "PURCHASE_REDEEMED", "PRICE_INCREASE_CONSENT_REQUIRED", "PAYWALL_IMPRESSION", "SOMETHING_NEW",
  ]) func `an event that changes nothing needs no store`(type: String) throws {
    let event = try RevenueCatEvent.decode(Self.body(type, "store", #""A STORE""#), now: Self.now)
    #expect(event.content == .nothing && event.store == nil)
  }
}
