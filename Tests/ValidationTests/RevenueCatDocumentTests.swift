import Entitlements
import Foundation
import Testing

@testable import Ledger
@testable import Validation

/// Events in the shape of RevenueCat's webhooks.
@Suite struct RevenueCatDocumentTests {
  private static func verdict(_ tier: Tier, _ product: ProductID, _ original: OriginalTransactionID) -> Entitlement {
    var verdict = Entitlement.none(
      tier: tier, reason: .renewing, explanation: Explanation(decidedBy: nil, passedOver: [], evaluatedAt: nil)
    )
    verdict.productID = product
    verdict.originalTransactionID = original
    verdict.expiresAt = UseCase.start.addingTimeInterval(86_400)
    return verdict
  }

  private static func document(
    _ type: EventType, _ verdict: Entitlement, after former: Entitlement, purchasedAt: Date? = nil,
    sale: Purchase.Sale? = nil, attributes: [String: CustomerAttribute] = [:]
  ) throws -> [String: any Sendable] {
    var event = ChangeEvent(
      sequence: 1, type: type.rawValue, user: "anna", at: UseCase.start, recordedAt: UseCase.start,
      entitlement: verdict, former: former, detail: .init())
    (event.purchasedAt, event.sale) = (purchasedAt, sale)
    let document = try #require(RevenueCatDocument(appID: "com.example.app", attributes: attributes).json(of: event))
    let object = try JSONSerialization.jsonObject(with: Data(document)) as? [String: any Sendable]
    return try #require(object?["event"] as? [String: any Sendable])
  }

  @Test func `a refund ends access, for a receiver that waits for EXPIRATION`() throws {
    let former = Self.verdict("pro", "monthly", "1")
    var refunded = former
    (refunded.tier, refunded.status, refunded.reason) = ("free", .expired, .refunded)
    refunded.expiresAt = UseCase.start
    let event = try Self.document(.subscriptionRefunded, refunded, after: former)
    #expect(event["type"] as? String == "EXPIRATION" && event["expiration_reason"] as? String == "CUSTOMER_SUPPORT")
    #expect(event["entitlement_ids"] as? [String] == ["pro"])
    #expect(event["expiration_at_ms"] as? Int64 == UseCase.start.millisecondsSince1970)
  }

  @Test func `money that comes after grace is a renewal, of the period that it paid for`() throws {
    var ended = Self.verdict("free", "monthly", "1")
    (ended.status, ended.reason) = (.expired, .billingRetry)
    let begin = UseCase.start.addingTimeInterval(-60)
    let event = try Self.document(
      .subscriptionStarted, Self.verdict("pro", "monthly", "1"), after: ended, purchasedAt: begin)
    #expect(event["type"] as? String == "RENEWAL")
    #expect(event["purchased_at_ms"] as? Int64 == begin.millisecondsSince1970)
    let unknown = try Self.document(.subscriptionStarted, Self.verdict("pro", "monthly", "1"), after: ended)
    #expect(unknown["purchased_at_ms"] is NSNull)
  }

  @Test func `prices add up to what was paid and not given back, and none is made up`() throws {
    let verdict = Self.verdict("pro", "monthly", "1")
    func money(_ type: EventType, _ sale: Purchase.Sale?) throws -> [String: any Sendable] {
      try Self.document(type, verdict, after: verdict, sale: sale)
    }
    let euros = Purchase.Sale(
      price: 9_990, currency: "EUR", storefront: "DEU", offerType: 3, offerID: "SPRING", revocationPercentage: 45_000)
    let paid = try money(.subscriptionRenewed, euros)
    #expect(paid["price_in_purchased_currency"] as? Double == 9.99 && paid["currency"] as? String == "EUR")
    #expect(paid["price"] is NSNull && paid["country_code"] is NSNull && paid["offer_code"] as? String == "SPRING")
    #expect(try money(.subscriptionRefunded, euros)["price_in_purchased_currency"] as? Double == -4.496)
    let off = try money(.renewalOff, euros)
    #expect(off["price"] as? Double == 0 && off["price_in_purchased_currency"] as? Double == 0)

    let dollars = try money(
      .subscriptionStarted, Purchase.Sale(price: 990, currency: "USD", storefront: "US", offerType: 1))
    #expect(dollars["price"] as? Double == 0.99 && dollars["country_code"] as? String == "US")
    #expect(dollars["period_type"] as? String == "INTRO")
    let unknown = try money(.subscriptionStarted, nil)
    #expect(unknown["price"] is NSNull && unknown["price_in_purchased_currency"] is NSNull)
    #expect(unknown["currency"] is NSNull)
  }

  @Test func `the app and the customer's attributes are told, one that was deleted is not`() throws {
    let verdict = Self.verdict("pro", "monthly", "1")
    let event = try Self.document(
      .subscriptionRenewed, verdict, after: verdict,
      attributes: [
        "$email": CustomerAttribute(value: "anna@example.com", updatedAtMilliseconds: 1_718_452_800_000),
        "gone": CustomerAttribute(value: nil, updatedAtMilliseconds: 1),
      ])
    #expect(event["app_id"] as? String == "com.example.app")
    let attributes = try #require(event["subscriber_attributes"] as? [String: [String: any Sendable]])
    #expect(Array(attributes.keys) == ["$email"])
    #expect(attributes["$email"]?["value"] as? String == "anna@example.com")
    #expect(attributes["$email"]?["updated_at_ms"] as? Int64 == 1_718_452_800_000)
    let without = try Self.document(.subscriptionRenewed, verdict, after: verdict)
    #expect((without["subscriber_attributes"] as? [String: any Sendable])?.isEmpty == true)
  }

  @Test func `another product is the period that it begins with`() throws {
    let monthly = Self.verdict("pro", "monthly", "1")
    let upgraded = try Self.document(.productChanged, Self.verdict("premium", "yearly", "1"), after: monthly)
    #expect(upgraded["type"] as? String == "RENEWAL" && upgraded["product_id"] as? String == "yearly")
    #expect(upgraded["entitlement_ids"] as? [String] == ["premium"])
    #expect(upgraded["is_trial_conversion"] as? Bool == false)

    let other = try Self.document(.productChanged, Self.verdict("premium", "yearly", "2"), after: monthly)
    #expect(other["type"] as? String == "INITIAL_PURCHASE" && other["product_id"] as? String == "yearly")
    var forever = Self.verdict("premium", "forever", "3")
    forever.reason = .lifetime
    #expect(
      try Self.document(.productChanged, forever, after: monthly)["type"] as? String == "NON_RENEWING_PURCHASE")
  }
}
