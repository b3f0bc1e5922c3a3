import Entitlements
import Foundation
import Testing

@testable import AppStore
@testable import JSON

@Suite("Payloads of signed data")
struct SignedTransactionTests {
  private typealias Sample = SignedSample

  private func transaction(_ changes: [String: Any] = [:]) throws -> SignedTransaction {
    let bytes = try [UInt8](JSONSerialization.data(withJSONObject: Sample.transaction(changes)))
    return try JSONReader.readAtOnce(bytes) { value throws(JSONError) in try SignedTransaction(value) }
  }

  private func renewalInfo(_ changes: [String: Any] = [:]) throws -> SignedRenewalInfo {
    let bytes = try [UInt8](JSONSerialization.data(withJSONObject: Sample.renewalInfo(changes)))
    return try JSONReader.readAtOnce(bytes) { value throws(JSONError) in try SignedRenewalInfo(value) }
  }

  @Test func `each member of a transaction is read`() throws {
    let transaction = try transaction([
      "appAccountToken": "7E3FB20B-4CDB-47CC-936D-99D65F608138", "offerType": 2, "offerIdentifier": "abc.123",
      "offerDiscountType": "PAY_AS_YOU_GO",
    ])
    #expect(
      transaction.purchase
        == Purchase(
          productID: "com.example.app.pro.monthly", transactionID: "2000000000000002",
          originalTransactionID: "2000000000000001", webOrderLineItemID: "2000000000000009",
          subscriptionGroupID: "21000001", purchaseDate: Sample.moment(1_718_359_200_000),
          expiresDate: Sample.moment(1_720_951_200_000), appAccountToken: "7e3fb20b-4cdb-47cc-936d-99d65f608138",
          reportedAt: Sample.moment(Sample.signedDate),
          sale: Purchase.Sale(
            price: 9_990, currency: "USD", storefront: "USA", offerType: 2, offerID: "abc.123",
            terms: terms { $0.discountType = "PAY_AS_YOU_GO" })))
    #expect(transaction.bundleID == "com.example.app")
    #expect(transaction.environment == .production)
    #expect(transaction.productType == "Auto-Renewable Subscription")
    #expect(transaction.quantity == 1)
    #expect(transaction.originalPurchaseDate == Sample.moment(1_715_680_800_000))
    #expect(transaction.offerID == "abc.123")
  }

  @Test(arguments: [
    "offerType", "quantity", "originalPurchaseDate", "offerDiscountType", "webOrderLineItemId", "storefront",
    "offerIdentifier",
  ])
  func `a member that decides nothing refuses no purchase`(name: String) throws {
    for value: Any in ["x y", [1], ["a": 1], 7.5, true] {
      #expect(try transaction([name: value]).purchase.expiresDate == Sample.moment(1_720_951_200_000))
    }
  }

  @Test func `a restored transaction without an expiry was bought at its original date`() throws {
    let season = try transaction(["expiresDate": NSNull(), "originalPurchaseDate": 1_715_680_800_007 as Int64])
    #expect(season.purchase.purchaseDate == Sample.moment(1_715_680_800_007))
    #expect(try transaction().purchase.purchaseDate == Sample.moment(1_718_359_200_000))
  }

  @Test func `the price is read where it can be, and an unreadable one refuses nothing`() throws {
    let offer = try transaction(["offerType": 1, "offerPeriod": "P1W", "price": 0])
    #expect(
      offer.purchase.sale
        == Purchase.Sale(
          price: 0, currency: "USD", storefront: "USA", offerType: 1, offerPeriod: "P1W",
          terms: terms { _ in }))
    for value: Any in ["much", true, [1], ["a": 1], 1e300] {
      #expect(try transaction(["price": value]).purchase.sale?.price == nil)
    }
    for value: Any in [true, [1], String(repeating: "x", count: 65)] {
      #expect(try transaction(["currency": value]).purchase.sale?.currency == nil)
    }
    for (type, percentage, part) in [
      ("REFUND_PRORATED", 45_000, 45_000), ("REFUND_PRORATED", 100_001, nil), ("REFUND_PRORATED", "much", nil),
      ("REFUND_FULL", NSNull(), 100_000),
    ] as [(String, Any, Int64?)] {
      let refund = try transaction([
        "revocationDate": 1_719_000_000_123, "revocationType": type, "revocationPercentage": percentage,
      ])
      #expect(refund.purchase.sale?.revocationPercentage == part)
    }
    let silent = try transaction([
      "price": NSNull(), "currency": NSNull(), "storefront": NSNull(), "transactionReason": NSNull(),
      "appTransactionId": NSNull(),
    ])
    #expect(silent.purchase.sale == nil)
  }

  @Test func `a transaction needs what names it, and nothing else`() throws {
    let needed: Set = [
      "transactionId", "originalTransactionId", "productId", "bundleId", "signedDate",
    ]
    for key in Sample.transaction().keys {
      if needed.contains(key) {
        #expect(throws: JSONError.missing(path: key)) { try transaction([key: NSNull()]) }
      } else {
        _ = try transaction([key: NSNull()])
      }
    }
  }

  @Test func `a refund is read, and one that cannot be read fails the transaction`() throws {
    let refunded = try transaction([
      "revocationDate": 1_718_400_000_000, "revocationReason": 1, "revocationType": "REFUND_FULL",
      "revocationPercentage": 100_000,
    ])
    #expect(refunded.purchase.cancellationDate == Sample.moment(1_718_400_000_000))
    #expect(refunded.purchase.cancellationReason == 1)
    for value: Any in ["yesterday", "", true, [1], ["a": 1], -1e300, 1.5e300] {
      #expect(throws: JSONError.unreadable(path: "revocationDate")) { try transaction(["revocationDate": value]) }
    }
    #expect(throws: JSONError.missing(path: "revocationDate")) { try transaction(["revocationReason": 0]) }
    #expect(throws: JSONError.missing(path: "revocationDate")) {
      try transaction(["revocationType": "FAMILY_REVOKE"])
    }
  }

  @Test func `dates and numbers may be written as fractions and as text`() throws {
    let fractions = try transaction([
      "purchaseDate": 1_697_679_936_049.7297, "expiresDate": "1700358336049", "quantity": 2.0, "offerType": "1",
      "transactionId": 2_000_000_000_000_002,
    ])
    #expect(fractions.purchase.purchaseDate == Sample.moment(1_697_679_936_049))
    #expect(fractions.purchase.expiresDate == Sample.moment(1_700_358_336_049))
    #expect(fractions.quantity == 2)
    #expect(fractions.purchase.sale?.offerType == 1)
    #expect(fractions.purchase.transactionID == "2000000000000002")
  }

  @Test(
    arguments: [
      (1, "FREE_TRIAL", true, false), (1, nil, false, true), (1, "PAY_UP_FRONT", false, true),
      (2, "FREE_TRIAL", true, false), (3, nil, false, false), (nil, nil, false, false), (99, "NEW", false, false),
    ] as [(Int?, String?, Bool, Bool)])
  func `an offer is a trial or an introductory one as verifyReceipt has it`(
    type: Int?, discount: String?, isTrial: Bool, isIntroductory: Bool
  ) throws {
    let purchase = try transaction([
      "offerType": type.map { $0 as Any } ?? NSNull(), "offerDiscountType": discount.map { $0 as Any } ?? NSNull(),
    ]).purchase
    #expect(purchase.isTrial == isTrial)
    #expect(purchase.isIntroductoryOffer == isIntroductory)
  }

  @Test func `a transaction of the original purchase's date is the first one`() throws {
    for (original, isFirst) in [
      (1_697_679_936_049 as Any, true), (1_697_679_935_000, true), (1_695_087_936_049, false), (NSNull(), false),
    ] {
      let purchase = try transaction(["purchaseDate": 1_697_679_936_049, "originalPurchaseDate": original]).purchase
      #expect(purchase.isFirst == isFirst)
    }
  }

  @Test func `members that Apple adds are kept as they were sent`() throws {
    let transaction = try transaction([
      "type": "Rental", "inAppOwnershipType": "BORROWED", "transactionReason": "GIFT", "newMember": ["a": [1, 2]],
    ])
    #expect(transaction.productType == "Rental")
    // It may be an organization's.
    #expect(transaction.purchase.ownership == .unknown)
    #expect(transaction.purchase.sale?.terms?.reason == "GIFT")
    #expect(try self.transaction(["inAppOwnershipType": NSNull()]).purchase.ownership == .purchased)
    #expect(try self.transaction(["inAppOwnershipType": "FAMILY_SHARED"]).purchase.ownership == .familyShared)
    #expect(try self.transaction(["isUpgraded": true]).purchase.isUpgraded)
  }

  private func terms(_ set: (inout Purchase.Terms) -> Void) -> Purchase.Terms {
    var terms = Purchase.Terms()
    (terms.appTransactionID, terms.reason) = ("704000000000000001", "RENEWAL")
    set(&terms)
    return terms
  }

  @Test func `the terms of a transaction are read`() throws {
    let paid = try transaction([
      "appTransactionId": "700000000000000001", "billingPlanType": "MONTHLY", "previousOriginalTransactionId": "77",
      "commitmentInfo": [
        "billingPeriodNumber": 2, "totalBillingPeriods": 12, "commitmentExpiresDate": 1_750_000_000_000,
        "commitmentPrice": 59_990,
      ],
      "advancedCommerceInfo": [
        "items": [
          ["SKU": "news", "displayName": "News", "price": 1_990, "revocationDate": 1_719_000_000_000], ["price": 1],
        ]
      ],
    ])
    #expect(
      paid.purchase.sale?.terms
        == terms {
          ($0.appTransactionID, $0.billingPlan) = ("700000000000000001", "MONTHLY")
          ($0.billingPeriod, $0.billingPeriods, $0.commitmentPrice) = (2, 12, 59_990)
          $0.commitmentEndsAt = Sample.moment(1_750_000_000_000)
          $0.previousOriginalTransactionID = "77"
          $0.items = [
            AdvancedCommerceItem(sku: "news", name: "News", price: 1_990, revokedAt: Sample.moment(1_719_000_000_000))
          ]
        })
    #expect(paid.previousOriginalTransactionID == "77")
    let refund = try transaction(["revocationDate": 1_719_000_000_123, "revocationType": "REFUND_PRORATED"])
    #expect(refund.purchase.sale?.terms?.revocationType == "REFUND_PRORATED")
  }

  @Test func `terms that cannot be read, or are too long, refuse nothing`() throws {
    for key in ["commitmentInfo", "advancedCommerceInfo", "billingPlanType", "appTransactionId", "transactionReason"] {
      for value: Any in ["much", true, [1], ["items": "a"], ["items": [1, ["SKU": 7]]], 1e300] {
        let terms = try transaction([key: value]).purchase.sale?.terms
        #expect(terms?.commitmentEndsAt == nil && (terms?.items.count ?? 0) <= 1)
      }
    }
    let long = try transaction([
      "billingPlanType": String(repeating: "x", count: 257),
      "advancedCommerceInfo": ["items": (0..<30).map { ["SKU": "item-\($0)"] }],
    ]).purchase.sale?.terms
    #expect(long?.billingPlan == nil && long?.items.count == 20)
  }

  @Test func `the terms of a renewal are read`() throws {
    let info = try renewalInfo([
      "renewalPrice": 4_165, "currency": "USD", "offerType": 4, "offerIdentifier": "back", "priceIncreaseStatus": 1,
      "offerDiscountType": "PAY_UP_FRONT", "renewalBillingPlanType": "MONTHLY",
      "commitmentInfo": [
        "commitmentAutoRenewStatus": 0, "commitmentRenewalDate": 1_750_000_000_000, "commitmentRenewalPrice": 49_990,
        "commitmentAutoRenewProductId": "com.example.app.pro.yearly",
        "commitmentRenewalBillingPlanType": "BILLED_UPFRONT",
      ],
      "advancedCommerceInfo": ["items": [["SKU": "news", "price": 1_990]]],
    ])
    var terms = RenewalTerms(signedAt: Sample.moment(Sample.signedDate))
    (terms.price, terms.currency, terms.priceIncreaseStatus) = (4_165, "USD", 1)
    (terms.offerType, terms.offerID, terms.discountType) = (4, "back", "PAY_UP_FRONT")
    (terms.billingPlan, terms.commitmentBillingPlan) = ("MONTHLY", "BILLED_UPFRONT")
    (terms.commitmentRenews, terms.commitmentEndsAt) = (false, Sample.moment(1_750_000_000_000))
    (terms.commitmentProductID, terms.commitmentPrice) = ("com.example.app.pro.yearly", 49_990)
    terms.items = [AdvancedCommerceItem(sku: "news", price: 1_990)]
    #expect(info.renewal.terms == terms)
    #expect(info.priceIncreaseStatus == 1)
  }

  @Test func `each member of a renewal info is read`() throws {
    let info = try renewalInfo([
      "expirationIntent": 2, "isInBillingRetryPeriod": true, "gracePeriodExpiresDate": 1_721_000_000_000,
      "priceIncreaseStatus": 0, "offerType": 2, "offerIdentifier": "o", "appAccountToken": "ABC",
      "eligibleWinBackOfferIds": ["best", "next"],
    ])
    var renewal = info.renewal
    renewal.terms = nil
    var terms = RenewalTerms(signedAt: Sample.moment(Sample.signedDate))
    (terms.priceIncreaseStatus, terms.offerType, terms.offerID) = (0, 2, "o")
    terms.winBackOfferIDs = ["best", "next"]
    #expect(info.renewal.terms == terms)
    #expect(
      renewal
        == RenewalInfo(
          originalTransactionID: "2000000000000001", productID: "com.example.app.pro.monthly",
          autoRenewProductID: "com.example.app.pro.yearly", autoRenews: true, expirationIntent: 2,
          isInBillingRetry: true, gracePeriodExpiresDate: Sample.moment(1_721_000_000_000),
          periodEnd: Sample.moment(1_720_951_200_000), reportedAt: Sample.moment(Sample.signedDate)))
  }

  @Test func `win-back offers are kept within bounds, and an unreadable one refuses nothing`() throws {
    func kept(_ ids: Any) throws -> [String]? {
      try renewalInfo(["eligibleWinBackOfferIds": ids]).renewal.terms?.winBackOfferIDs
    }
    #expect(try kept(["a", 7, "", String(repeating: "x", count: 65), NSNull(), "b"]) == ["a", "b"])
    #expect(try kept((0..<30).map { "offer-\($0)" })?.count == 20)
    for none in [[String](), "a", 1, NSNull()] as [Any] { #expect(try kept(none) == nil) }
  }

  @Test func `a renewal info needs what names it, and an unknown status is neither yes nor no`() throws {
    let needed: Set = ["originalTransactionId", "signedDate"]
    for key in Sample.renewalInfo().keys {
      if needed.contains(key) {
        #expect(throws: JSONError.missing(path: key)) { try renewalInfo([key: NSNull()]) }
      } else {
        _ = try renewalInfo([key: NSNull()])
      }
    }
    #expect(try renewalInfo(["autoRenewStatus": 0]).renewal.autoRenews == false)
    #expect(try renewalInfo(["autoRenewStatus": 7]).renewal.autoRenews == nil)
    #expect(try renewalInfo(["autoRenewStatus": NSNull()]).renewal.autoRenews == nil)
    #expect(throws: JSONError.self) { try renewalInfo(["gracePeriodExpiresDate": "soon"]) }
    #expect(throws: JSONError.self) { try renewalInfo(["renewalDate": "soon"]) }
  }
}
