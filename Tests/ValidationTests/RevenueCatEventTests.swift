import Entitlements
import Foundation
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
    guard case .purchase(_, let event) = try? RevenueCatEvent.decode(body, now: now).effect else { return nil }
    return event
  }

  static let odd = [
    #""\ud83d""#, #""a\u0000""#, String(repeating: "9", count: 30), "1e999", "{}", "[]", "true", #""é é""#,
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
  }

  @Test func `users of a transfer who cannot be read are left out, and a transfer without lists is unreadable`() throws
  {
    let event = try RevenueCatEvent.decode(
      Self.body("TRANSFER", "transferred_from", #"["\ud83d","anna"]"#), now: Self.now)
    #expect(event.effect == .transfer(from: ["anna"], to: "ben"))
    #expect(throws: RevenueCatEvent.Unreadable.self) {
      try RevenueCatEvent.decode(Self.body("TRANSFER", "transferred_to", #""ben""#), now: Self.now)
    }
  }

  @Test func `an event that changes nothing needs no store`() throws {
    let event = try RevenueCatEvent.decode(Self.body("TEST", "store", #""A STORE""#), now: Self.now)
    #expect(event.effect == .nothing && event.store == nil)
  }
}
