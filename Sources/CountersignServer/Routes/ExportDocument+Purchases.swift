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
      var isUpgraded: Bool
      var isTrial: Bool
      var isIntroductoryOffer: Bool
      var ownership: String
      @Nullable var orderLineID: String?
      @Nullable var accountToken: String?
      @Nullable var price: Int64?
      @Nullable var currency: String?
      @Nullable var storefront: String?

      enum CodingKeys: String, CodingKey {
        case transactionID = "transaction_id"
        case productID = "product_id"
        case purchasedAt = "purchased_at"
        case expiresAt = "expires_at"
        case cancelledAt = "cancelled_at"
        case isUpgraded = "upgraded"
        case isTrial = "is_trial"
        case isIntroductoryOffer = "is_introductory_offer"
        case ownership
        case orderLineID = "web_order_line_item_id"
        case accountToken = "app_account_token"
        case price, currency, storefront
      }

      init(_ purchase: Purchase) {
        transactionID = purchase.transactionID.rawValue
        productID = purchase.productID.rawValue
        _purchasedAt = Nullable(wrappedValue: purchase.purchaseDate)
        _expiresAt = Nullable(wrappedValue: purchase.expiresDate)
        _cancelledAt = Nullable(wrappedValue: purchase.cancellationDate)
        isUpgraded = purchase.isUpgraded
        isTrial = purchase.isTrial
        isIntroductoryOffer = purchase.isIntroductoryOffer
        ownership = purchase.ownership.rawValue
        _orderLineID = Nullable(wrappedValue: purchase.webOrderLineItemID)
        _accountToken = Nullable(wrappedValue: purchase.appAccountToken)
        _price = Nullable(wrappedValue: purchase.sale?.price)
        _currency = Nullable(wrappedValue: purchase.sale?.currency)
        _storefront = Nullable(wrappedValue: purchase.sale?.storefront)
      }
    }

    struct Renewal: Encodable {
      @Nullable var autoRenews: Bool?
      @Nullable var productID: String?
      @Nullable var isInBillingRetry: Bool?
      @Nullable var gracePeriodExpiresAt: Date?

      enum CodingKeys: String, CodingKey {
        case autoRenews = "auto_renews"
        case productID = "auto_renew_product_id"
        case isInBillingRetry = "in_billing_retry"
        case gracePeriodExpiresAt = "grace_period_expires_at"
      }
    }

    /// The receipt or signed transaction that proved the purchase.
    struct Receipt: Codable, Hashable {
      /// The digest of `receiptData`, in hexadecimal digits.
      var sha256: String
      var bundleID: String
      var receiptData: String

      enum CodingKeys: String, CodingKey {
        case sha256
        case bundleID = "bundle_id"
        case receiptData = "receipt_data"
      }
    }

    struct Notification: Encodable {
      var id: String
      @Nullable var type: String?
      @Nullable var subtype: String?
      @Nullable var signedAt: Date?
      var receivedAt: Date
      var outcome: String

      enum CodingKeys: String, CodingKey {
        case id, type, subtype
        case signedAt = "signed_at"
        case receivedAt = "received_at"
        case outcome
      }
    }

    var originalTransactionID: String
    var environment: String
    var source: String
    var evidenceAt: Date
    var claim: String
    @Nullable var nextCheckAt: Date?
    var transactions: [Transaction]
    var renewals: [Renewal]
    var events: [ReportedEvent]
    @Nullable var receipt: Receipt?
    var notifications: [Notification]

    enum CodingKeys: String, CodingKey {
      case originalTransactionID = "original_transaction_id"
      case environment, source
      case evidenceAt = "evidence_at"
      case claim
      case nextCheckAt = "next_check_at"
      case transactions, renewals, events, receipt, notifications
    }
  }
}

extension ExportDocument.KeptPurchase {
  init(_ purchase: ExportedPurchase) {
    let evidence = purchase.evidence
    self.init(
      originalTransactionID: evidence.key.originalTransactionID.rawValue,
      environment: evidence.key.environment.rawValue, source: evidence.source.rawValue,
      evidenceAt: evidence.evidenceTime, claim: purchase.isPresented ? "proof" : "name",
      nextCheckAt: purchase.scheduledAt, transactions: evidence.purchases.map(Transaction.init),
      renewals: evidence.renewals.map { renewal in
        Renewal(
          autoRenews: renewal.autoRenews, productID: renewal.autoRenewProductID?.rawValue,
          isInBillingRetry: renewal.isInBillingRetry, gracePeriodExpiresAt: renewal.gracePeriodExpiresDate)
      },
      events: purchase.events.map(ExportDocument.ReportedEvent.init),
      receipt: purchase.proof.map { proof in
        Receipt(sha256: proof.sha256, bundleID: proof.receipt.bundleID.rawValue, receiptData: proof.receipt.base64)
      },
      notifications: purchase.notifications.map { line in
        Notification(
          id: line.uuid, type: line.type, subtype: line.subtype, signedAt: line.signedAt, receivedAt: line.receivedAt,
          outcome: line.outcome.rawValue)
      })
  }
}
