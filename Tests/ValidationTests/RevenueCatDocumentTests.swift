import Access
import Entitlements
import Foundation
import Testing
import Webhooks

@testable import Ledger
@testable import Validation

/// Events in the shape of RevenueCat's webhooks.
@Suite struct RevenueCatDocumentTests {
  private static func verdict(_ tier: Tier, _ product: ProductID, _ original: OriginalTransactionID) -> Entitlement {
    var verdict = Entitlement.none(
      tier: tier, reason: .renewing,
      explanation: Explanation(decidedBy: TransactionID(original.rawValue), passedOver: [], evaluatedAt: nil))
    verdict.productID = product
    verdict.originalTransactionID = original
    verdict.expiresAt = UseCase.start.addingTimeInterval(86_400)
    return verdict
  }

  private static var forever: Entitlement {
    var verdict = Self.verdict("premium", "forever", "3")
    (verdict.reason, verdict.expiresAt) = (.lifetime, nil)
    return verdict
  }

  private static func document(
    _ type: EventType, _ verdict: Entitlement, after former: Entitlement, purchasedAt: Date? = nil,
    sale: Purchase.Sale? = nil, attributes: [String: CustomerAttribute] = [:]
  ) throws -> [String: any Sendable] {
    let documents = try documents(
      type, verdict, after: former, purchasedAt: purchasedAt, sale: sale, attributes: attributes)
    return try #require(documents.last)
  }

  private static func documents(
    _ type: EventType, _ verdict: Entitlement?, after former: Entitlement?, purchasedAt: Date? = nil,
    sale: Purchase.Sale? = nil, attributes: [String: CustomerAttribute] = [:],
    scope: Plans.EntitlementScope = .exact, _ detail: ChangeEvent.Detail = .init()
  ) throws -> [[String: any Sendable]] {
    var event = ChangeEvent(
      sequence: 1, type: type.rawValue, user: "anna", at: UseCase.start, recordedAt: UseCase.start,
      entitlement: verdict, former: former, detail: detail)
    (event.purchasedAt, event.sale) = (purchasedAt, sale)
    let catalog = try Catalog(
      tiers: ["free", "pro", "premium"],
      products: [
        "monthly": .init(tier: "pro"), "yearly": .init(tier: "premium"),
        "forever": .init(tier: "premium", kind: .lifetime),
      ])
    let document = RevenueCatDocument(
      appID: "com.example.app", attributes: attributes, catalog: catalog, scope: scope)
    return try document.messages(of: event).map { message in
      let object = try JSONSerialization.jsonObject(with: Data(message.body)) as? [String: any Sendable]
      let event = try #require(object?["event"] as? [String: any Sendable])
      #expect(event["id"] as? String == message.id)
      return event
    }
  }

  /// A message in a line: its type, product, entitlements and end in days from now.
  private static func line(_ event: [String: any Sendable]) -> String {
    let entitlements = (event["entitlement_ids"] as? [String])?.joined(separator: "+") ?? "-"
    let end = (event["expiration_at_ms"] as? Int64).map {
      "\(Double($0 - UseCase.start.millisecondsSince1970) / 86_400_000)"
    }
    return "\(event["type"] ?? "") \(event["product_id"] ?? "") \(entitlements) \(end ?? "for ever")"
  }

  private static func passedOver(_ id: TransactionID, _ cause: Explanation.PassedOver.Cause) -> Explanation.PassedOver {
    Explanation.PassedOver(transactionID: id, productID: "monthly", cause: cause)
  }

  @Test func `a purchase for life has no end, whatever was bought before`() throws {
    var ended = Self.verdict("free", "monthly", "1")
    (ended.status, ended.reason) = (.expired, .voluntary)
    let started = try Self.documents(.subscriptionStarted, Self.forever, after: ended)
    #expect(started.map(Self.line) == ["NON_RENEWING_PURCHASE forever premium for ever"])
    let changed = try Self.documents(.productChanged, Self.forever, after: Self.verdict("pro", "monthly", "1"))
    #expect(changed.map(Self.line) == ["NON_RENEWING_PURCHASE forever premium for ever"])
  }

  @Test func `a tier is told with those below it where the SDKs get them as well`() throws {
    let premium = Self.verdict("premium", "yearly", "1")
    var ended = premium
    (ended.tier, ended.status, ended.reason) = ("free", .expired, .voluntary)
    for (scope, names) in [(Plans.EntitlementScope.cumulative, "pro+premium"), (.exact, "premium")] {
      let started = try Self.documents(.subscriptionStarted, premium, after: nil, scope: scope)
      #expect(started.map(Self.line) == ["INITIAL_PURCHASE yearly \(names) 1.0"])
      let over = try Self.documents(.subscriptionExpired, ended, after: premium, scope: scope)
      #expect(over.map(Self.line) == ["EXPIRATION yearly \(names) 1.0"])
    }
  }

  @Test func `the end of a purchase revokes nothing that a grant still gives`() throws {
    let premium = Self.verdict("premium", "yearly", "1")
    var ended = premium
    (ended.tier, ended.status, ended.reason) = ("free", .expired, .voluntary)
    var given = Entitlement.none(
      tier: "pro", reason: .granted, explanation: Explanation(decidedBy: nil, passedOver: [], evaluatedAt: nil))
    given.source = .grant
    var detail = ChangeEvent.Detail()
    (detail.covered, detail.formerlyCovered) = (ended, premium)
    let over = try Self.documents(.subscriptionExpired, given, after: premium, scope: .cumulative, detail)
    #expect(over.map(Self.line) == ["EXPIRATION yearly premium 1.0"])
  }

  @Test func `the end of a grant revokes nothing that a purchase still gives`() throws {
    var detail = ChangeEvent.Detail()
    detail.given = GivenPeriod(
      id: 7, kind: .support, tier: "pro", startsAt: UseCase.start.addingTimeInterval(-86_400), endsAt: UseCase.start)
    for (tier, names) in [("premium", "-"), ("pro", "-"), ("free", "pro")] as [(Tier, String)] {
      var verdict = Self.verdict(tier, "yearly", "1")
      if tier == "free" { verdict.status = .expired }
      let over = try Self.documents(.grantEnded, verdict, after: nil, scope: .cumulative, detail)
      #expect(over.map(Self.line) == ["EXPIRATION countersign_support_pro \(names) 0.0"])
    }
  }

  @Test func `a purchase that was taken back ends before the one that decides now, with its money`() throws {
    var monthly = Self.verdict("pro", "monthly", "1")
    monthly.explanation.passedOver = [Self.passedOver("3", .cancelled)]
    var detail = ChangeEvent.Detail()
    detail.takenBack = Purchase.Sale(price: 99_000, currency: "EUR")
    let events = try Self.documents(.productChanged, monthly, after: Self.forever, scope: .cumulative, detail)
    #expect(events.map(Self.line) == ["EXPIRATION forever premium 0.0", "INITIAL_PURCHASE monthly pro 1.0"])
    #expect(events.first?["expiration_reason"] as? String == "CUSTOMER_SUPPORT")
    #expect(events.first?["price_in_purchased_currency"] as? Double == -99)
    #expect(Set(events.compactMap { $0["id"] as? String }).count == 2)
  }

  @Test func `a purchase that decides again costs nothing a second time`() throws {
    var detail = ChangeEvent.Detail()
    detail.isTold = true
    let sale = Purchase.Sale(price: 99_990, currency: "USD")
    for (detail, price) in [(ChangeEvent.Detail(), 99.99), (detail, 0)] {
      let events = try Self.documents(
        .productChanged, Self.forever, after: Self.verdict("pro", "monthly", "1"), sale: sale, detail)
      #expect(events.last?["price"] as? Double == price)
    }
  }

  @Test func `an upgrade ends what it replaced, and a purchase beside another ends nothing`() throws {
    let monthly = Self.verdict("pro", "monthly", "1")
    for (cause, messages) in [(Explanation.PassedOver.Cause.upgraded, 2), (.otherSubscription, 1)] {
      var yearly = Self.verdict("premium", "yearly", "2")
      yearly.explanation.passedOver = [Self.passedOver("1", cause)]
      let events = try Self.documents(.productChanged, yearly, after: monthly)
      #expect(events.count == messages)
      #expect(events.last.map(Self.line) == "INITIAL_PURCHASE yearly premium 1.0")
      #expect(messages == 1 || events.first.map(Self.line) == "EXPIRATION monthly pro 0.0")
      // Who has premium has what pro has.
      #expect(try Self.documents(.productChanged, yearly, after: monthly, scope: .cumulative).count == 1)
    }
  }

  @Test func `one of several purchases that moves is no transfer of them all`() throws {
    var detail = ChangeEvent.Detail()
    (detail.from, detail.to) = ("anna", "ben")
    detail.purchase = SubscriptionKey(environment: .production, originalTransactionID: "1")
    var pro = Self.verdict("pro", "monthly", "1")
    pro.environment = .production
    detail.isPart = false
    let whole = try Self.documents(.subscriptionTransferred, nil, after: pro, detail)
    #expect(whole.isEmpty, "the new user's event tells it")
    detail.isPart = true
    let lost = try Self.documents(.subscriptionTransferred, nil, after: pro, detail)
    #expect(lost.map(Self.line) == ["EXPIRATION monthly pro 0.0"])
    (detail.from, detail.to) = ("ben", "anna")
    let gained = try Self.documents(.subscriptionTransferred, pro, after: nil, detail)
    #expect(gained.map(Self.line) == ["INITIAL_PURCHASE monthly pro 1.0"])
    #expect(gained.first?["price_in_purchased_currency"] as? Double == 0)
    detail.isPart = false
    #expect(
      try Self.documents(.subscriptionTransferred, pro, after: nil, detail).map { $0["type"] as? String } == [
        "TRANSFER"
      ])
  }

  @Test func `a period that Apple prolonged is told with its new end`() throws {
    var detail = ChangeEvent.Detail()
    var notice = StoreNotice(uuid: "u", type: "RENEWAL_EXTENDED")
    (notice.productID, notice.transactionID, notice.originalTransactionID) = ("monthly", "7", "1")
    (notice.environment, notice.expiresAt) = ("Production", UseCase.start.addingTimeInterval(3 * 86_400))
    detail.notice = notice
    let events = try Self.documents(.renewalExtended, nil, after: nil, detail)
    #expect(events.map(Self.line) == ["SUBSCRIPTION_EXTENDED monthly pro 3.0"])
    #expect(
      events.first?["environment"] as? String == "PRODUCTION" && events.first?["transaction_id"] as? String == "7")
    notice.productID = "not ours"
    detail.notice = notice
    #expect(try Self.documents(.renewalExtended, nil, after: nil, detail).isEmpty)
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

    // The reason decides, not the lack of an end.
    var forever = Self.forever
    forever.expiresAt = monthly.expiresAt
    let forLife = try Self.document(.productChanged, forever, after: monthly)
    #expect(forLife["type"] as? String == "NON_RENEWING_PURCHASE")
  }
}
