import CountersignAPI
import Entitlements
import Ledger

import struct FoundationEssentials.Date

extension ExportDocument {
  /// A purchase with everything that is kept of it.
  struct KeptPurchase: Encodable {
    struct Transaction: Encodable {
      var transactionID: String
      var productID: String
      @Nullable var purchasedAt: Date?
      @Nullable var expiresAt: Date?
      @Nullable var cancelledAt: Date?
      var upgraded: Bool
      var isTrial: Bool
      var isIntroductoryOffer: Bool
      var ownership: String
      @Nullable var webOrderLineItemID: String?
      @Nullable var appAccountToken: String?
      @Nullable var price: Int64?
      @Nullable var currency: String?
      @Nullable var storefront: String?
      var terms: PurchaseTerms?
      /// Its consumption information for Apple's decision on a refund, and Apple's request.
      @Nullable var consumption: ConsumptionResponse?

      init(_ purchase: Purchase, _ consumption: ConsumptionResponse?) {
        transactionID = purchase.transactionID.rawValue
        productID = purchase.productID.rawValue
        _purchasedAt = Nullable(wrappedValue: purchase.purchaseDate)
        _expiresAt = Nullable(wrappedValue: purchase.expiresDate)
        _cancelledAt = Nullable(wrappedValue: purchase.cancellationDate)
        upgraded = purchase.isUpgraded
        isTrial = purchase.isTrial
        isIntroductoryOffer = purchase.isIntroductoryOffer
        ownership = purchase.ownership.rawValue
        _webOrderLineItemID = Nullable(wrappedValue: purchase.webOrderLineItemID)
        _appAccountToken = Nullable(wrappedValue: purchase.appAccountToken)
        _price = Nullable(wrappedValue: purchase.sale?.price)
        _currency = Nullable(wrappedValue: purchase.sale?.currency)
        _storefront = Nullable(wrappedValue: purchase.sale?.storefront)
        terms = PurchaseTerms(purchase)
        _consumption = Nullable(wrappedValue: consumption)
      }
    }

    struct Renewal: Encodable {
      @Nullable var autoRenews: Bool?
      @Nullable var autoRenewProductID: String?
      @Nullable var inBillingRetry: Bool?
      @Nullable var gracePeriodExpiresAt: Date?
    }

    /// The receipt or signed transaction that proved the purchase.
    struct Receipt: Codable, Hashable {
      /// The SHA-256 of the bytes that `receiptData` spells, or of its text where it is a signed transaction.
      var sha256: String
      var bundleID: String
      var receiptData: String
    }

    struct Notification: Encodable {
      var id: String
      @Nullable var type: String?
      @Nullable var subtype: String?
      @Nullable var signedAt: Date?
      var receivedAt: Date
      var outcome: String
    }

    var originalTransactionID: String
    var environment: String
    var source: String
    var evidenceAt: Date
    var claim: String
    @Nullable var nextCheckAt: Date?
    var transactions: [Transaction]
    var renewals: [Renewal]
    /// The terms of the next renewal.
    var renewal: CountersignAPI.RenewalTerms?
    var events: [ReportedEvent]
    @Nullable var receipt: Receipt?
    var notifications: [Notification]
    /// The extensions of its renewal date, the newest first.
    var extensions: [ExtensionResponse]
  }
}

extension ExportDocument.KeptPurchase {
  init(_ purchase: ExportedPurchase) {
    let evidence = purchase.evidence
    self.init(
      originalTransactionID: evidence.key.originalTransactionID.rawValue,
      environment: evidence.key.environment.rawValue, source: evidence.source.rawValue,
      evidenceAt: evidence.evidenceTime, claim: purchase.isPresented ? "proof" : "name",
      nextCheckAt: purchase.scheduledAt,
      transactions: evidence.purchases.map { one in
        Transaction(
          one,
          purchase.consumption[one.transactionID].map {
            ConsumptionResponse(one.transactionID, evidence.key.environment, $0)
          })
      },
      renewals: evidence.renewals.map { renewal in
        Renewal(
          autoRenews: renewal.autoRenews, autoRenewProductID: renewal.autoRenewProductID?.rawValue,
          inBillingRetry: renewal.isInBillingRetry, gracePeriodExpiresAt: renewal.gracePeriodExpiresDate)
      },
      renewal: evidence.terms.map(CountersignAPI.RenewalTerms.init),
      events: purchase.events.map(ExportDocument.ReportedEvent.init),
      receipt: purchase.proof.map { proof in
        Receipt(sha256: proof.sha256, bundleID: proof.receipt.bundleID.rawValue, receiptData: proof.receipt.base64)
      },
      notifications: purchase.notifications.map { line in
        Notification(
          id: line.uuid, type: line.type, subtype: line.subtype, signedAt: line.signedAt, receivedAt: line.receivedAt,
          outcome: line.outcome.rawValue)
      }, extensions: purchase.extensions.map(ExtensionResponse.init))
  }
}
