package import struct FoundationEssentials.Date

/// One row from Apple: a purchase, or one renewal of it.
///
/// The `Codable` form is stored in the ledger; a property renamed here needs a migration there.
package struct Purchase: Hashable, Codable, Sendable {
  /// Whether the customer bought it, or shares it as a family member.
  package enum Ownership: String, Hashable, Codable, Sendable {
    case purchased
    case familyShared = "family_shared"
    /// A word of Apple's that this version does not know. The purchase may be an organization's, and does not become a user's
    /// by being presented.
    case unknown
  }

  /// The price that the customer paid, and the offer, as far as the store or RevenueCat says. verifyReceipt does not.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/jwstransactiondecodedpayload
  package struct Sale: Hashable, Codable, Sendable {
    /// Thousandths of the unit of `currency`.
    package var price: Int64?
    /// As ISO 4217 names it: `USD`.
    package var currency: String?
    /// The country or region of the store, as sent: `USA` by Apple, `US` by RevenueCat.
    package var storefront: String?
    /// Apple's `offerType`, as sent: 1 introductory, 2 promotional, 3 offer code, 4 win-back.
    package var offerType: Int?
    /// The length of the offer, as sent: `P1W`.
    package var offerPeriod: String?
    /// Apple's `offerIdentifier`: the name of the offer, or of the campaign of an offer code.
    package var offerID: String?
    /// The part of the price that was given back, in thousandths of a percent, as Apple's `revocationPercentage`: 45,000
    /// is 45 %. It means nothing while the purchase stands.
    ///
    /// https://developer.apple.com/documentation/appstoreserverapi/revocationpercentage
    package var revocationPercentage: Int64?
    package var terms: Terms?

    /// Bytes of the longest text that is kept.
    private static let longest = 64
    private static let wholePrice: Int64 = 100_000

    /// - Returns: `nil` if nothing is known. A text that is too long is left out: no verdict hangs on it.
    package init?(
      price: Int64? = nil, currency: String? = nil, storefront: String? = nil, offerType: Int? = nil,
      offerPeriod: String? = nil, offerID: String? = nil, revocationPercentage: Int64? = nil, terms: Terms? = nil
    ) {
      func short(_ text: String?) -> String? { text.flatMap { (1...Self.longest).contains($0.utf8.count) ? $0 : nil } }
      self.price = price
      self.currency = short(currency)
      self.storefront = short(storefront)
      self.offerType = offerType
      self.offerPeriod = short(offerPeriod)
      self.offerID = short(offerID)
      self.revocationPercentage = revocationPercentage.flatMap { (0...Self.wholePrice).contains($0) ? $0 : nil }
      self.terms = terms?.checked
      guard
        self.price != nil || self.currency != nil || self.storefront != nil || offerType != nil
          || self.offerPeriod != nil || self.offerID != nil || self.revocationPercentage != nil
          || self.terms != nil
      else { return nil }
    }

    /// The kind of the offer in words: see `name(ofOffer:)`.
    package var offerName: String? { Self.name(ofOffer: offerType) }

    /// Apple's `offerType` in words; a number of Apple's that has none is itself.
    ///
    /// https://developer.apple.com/documentation/appstoreserverapi/offertype
    package static func name(ofOffer type: Int?) -> String? {
      switch type {
      case nil: nil
      case 1: "introductory"
      case 2: "promotional"
      case 3: "offer_code"
      case 4: "win_back"
      case let other?: String(other)
      }
    }

    /// The part of an amount that a refund gives back: all of it, unless the store says how much. A half is rounded up.
    package func refund(of amount: Int64) -> Int64 {
      guard let part = revocationPercentage, part < Self.wholePrice else { return amount }
      let (whole, rest) = amount.quotientAndRemainder(dividingBy: Self.wholePrice)
      return whole * part + (rest * part + Self.wholePrice / 2) / Self.wholePrice
    }

    /// Adds members from another report of the same transaction. A price belongs to its currency.
    package func completed(by other: Sale) -> Sale {
      var sale = self
      if price == nil { (sale.price, sale.currency) = (other.price, other.currency) }
      sale.storefront = storefront ?? other.storefront
      sale.offerType = offerType ?? other.offerType
      sale.offerPeriod = offerPeriod ?? other.offerPeriod
      sale.offerID = offerID ?? other.offerID
      sale.revocationPercentage = revocationPercentage ?? other.revocationPercentage
      sale.terms = terms?.completed(by: other.terms) ?? other.terms
      return sale
    }
  }

  /// Holds a sale by reference: a sale is the greater part of a row's size, and each step of a receipt copies the rows.
  private final class SaleBox: Hashable, Codable, Sendable, CustomStringConvertible {
    let sale: Sale

    init(_ sale: Sale) { self.sale = sale }

    init(from decoder: any Decoder) throws { sale = try Sale(from: decoder) }

    func encode(to encoder: any Encoder) throws { try sale.encode(to: encoder) }

    func hash(into hasher: inout Hasher) { hasher.combine(sale) }

    static func == (one: SaleBox, other: SaleBox) -> Bool { one === other || one.sale == other.sale }

    /// The rules sort rows by their description where nothing else differs, so it has to show the sale.
    var description: String { "\(sale)" }
  }

  package var productID: ProductID
  package var transactionID: TransactionID
  package var originalTransactionID: OriginalTransactionID
  package var webOrderLineItemID: String?
  package var subscriptionGroupID: SubscriptionGroupID?
  package var purchaseDate: Date?
  /// End of the paid period. Absent for products that do not renew.
  package var expiresDate: Date?
  /// When Apple refunded it, or revoked it from a family member.
  package var cancellationDate: Date?
  /// Apple's `cancellation_reason`, as sent: 1 is a problem with the app, 0 is any other.
  package var cancellationReason: Int?
  /// Replaced by a higher plan of the same group; the upgrade has a row of its own.
  package var isUpgraded: Bool
  package var ownership: Ownership
  package var isTrial: Bool
  package var isIntroductoryOffer: Bool
  /// Paid ahead at Google Play: it does not renew, and is topped up.
  package var isPrepaid: Bool
  /// Bought at the date of the original purchase: the first transaction of its subscription.
  package var isFirst: Bool
  /// The account UUID that the app gave at the purchase, in lower case.
  package var appAccountToken: String?
  /// The report time of this row, in merged evidence; `nil` means the evidence time.
  package var reportedAt: Date?
  package var sale: Sale? {
    get { saleBox?.sale }
    set { saleBox = newValue.map(SaleBox.init) }
  }
  private var saleBox: SaleBox?
  /// The version that the customer had first; only of the app itself: see `OriginalPurchase`.
  package var appVersion: String?

  /// The property names in the ledger. `toldAt` is a former one.
  private enum CodingKeys: String, CodingKey {
    case productID, transactionID, originalTransactionID, webOrderLineItemID, subscriptionGroupID, purchaseDate,
      expiresDate, cancellationDate, cancellationReason, isUpgraded, ownership, isTrial, isIntroductoryOffer,
      isPrepaid, isFirst, appAccountToken, appVersion
    case saleBox = "sale"
    case reportedAt = "toldAt"
  }

  package init(
    productID: ProductID, transactionID: TransactionID, originalTransactionID: OriginalTransactionID,
    webOrderLineItemID: String? = nil, subscriptionGroupID: SubscriptionGroupID? = nil, purchaseDate: Date? = nil,
    expiresDate: Date? = nil, cancellationDate: Date? = nil, cancellationReason: Int? = nil, isUpgraded: Bool = false,
    ownership: Ownership = .purchased, isTrial: Bool = false, isIntroductoryOffer: Bool = false,
    isPrepaid: Bool = false, isFirst: Bool = false, appAccountToken: String? = nil, reportedAt: Date? = nil,
    sale: Sale? = nil, appVersion: String? = nil
  ) {
    self.productID = productID
    self.transactionID = transactionID
    self.originalTransactionID = originalTransactionID
    self.webOrderLineItemID = webOrderLineItemID
    self.subscriptionGroupID = subscriptionGroupID
    self.purchaseDate = purchaseDate
    self.expiresDate = expiresDate
    self.cancellationDate = cancellationDate
    self.cancellationReason = cancellationReason
    self.isUpgraded = isUpgraded
    self.ownership = ownership
    self.isTrial = isTrial
    self.isIntroductoryOffer = isIntroductoryOffer
    self.isPrepaid = isPrepaid
    self.isFirst = isFirst
    self.appAccountToken = appAccountToken
    self.reportedAt = reportedAt
    saleBox = sale.map(SaleBox.init)
    self.appVersion = appVersion
  }

  /// Whether a transaction of a date is the original one. Apple writes its two dates up to a few seconds apart.
  package static func isFirst(_ date: Date?, originally: Date?) -> Bool {
    guard let date, let originally else { return false }
    return abs(date.timeIntervalSince(originally)) < 60
  }

  /// When a purchase was made. The date of a restored transaction is that of its restoration, and a period without an expiry
  /// runs from the purchase: https://developer.apple.com/documentation/appstorereceipts/original_purchase_date
  package static func date(_ date: Date?, originally: Date?, until expiry: Date?) -> Date? {
    guard expiry == nil, let date, let originally else { return date }
    return min(date, originally)
  }
}

/// Apple's report on the next renewal of a subscription (an element of `pending_renewal_info`).
package struct RenewalInfo: Hashable, Codable, Sendable {
  /// Apple's `status`. A number unknown to this version is none.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/status
  package enum Status: Int, Hashable, Codable, Sendable {
    case active = 1
    case expired, billingRetry, billingGracePeriod, revoked
  }

  package var originalTransactionID: OriginalTransactionID?
  package var productID: ProductID?
  /// The product of the next period; differs from `productID` when a change is scheduled.
  package var autoRenewProductID: ProductID?
  /// `nil` if Apple did not say. It has no effect on present access.
  package var autoRenews: Bool?
  /// Apple's `expiration_intent`, as sent.
  package var expirationIntent: Int?
  package var isInBillingRetry: Bool?
  package var gracePeriodExpiresDate: Date?
  /// Apple's `renewalDate`: when the newest purchase of the subscription ends, which may be an unknown one.
  package var periodEnd: Date?
  /// Apple's own status of the subscription; `nil` if Apple did not say. verifyReceipt never does.
  package var status: Status?
  /// Apple says that a billing grace period is over (`GRACE_PERIOD_EXPIRED`).
  package var isGraceOver: Bool?
  /// The end of the period that the named grace period follows, as far as the report tells of it.
  package var graceAfter: Date?
  /// The terms in a signed answer. Evidence has them beside its renewal infos.
  package var terms: RenewalTerms?
  /// The report time of this renewal info, in merged evidence; `nil` means the evidence time.
  package var reportedAt: Date?

  /// The property names in the ledger; a differing name is the property's former one.
  private enum CodingKeys: String, CodingKey {
    case originalTransactionID, productID, autoRenewProductID, autoRenews, expirationIntent, isInBillingRetry,
      gracePeriodExpiresDate, periodEnd, status, isGraceOver, graceAfter
    case reportedAt = "toldAt"
  }

  package init(
    originalTransactionID: OriginalTransactionID? = nil, productID: ProductID? = nil,
    autoRenewProductID: ProductID? = nil, autoRenews: Bool? = nil, expirationIntent: Int? = nil,
    isInBillingRetry: Bool? = nil, gracePeriodExpiresDate: Date? = nil, periodEnd: Date? = nil, status: Status? = nil,
    isGraceOver: Bool? = nil, graceAfter: Date? = nil, reportedAt: Date? = nil
  ) {
    self.originalTransactionID = originalTransactionID
    self.productID = productID
    self.autoRenewProductID = autoRenewProductID
    self.autoRenews = autoRenews
    self.expirationIntent = expirationIntent
    self.isInBillingRetry = isInBillingRetry
    self.gracePeriodExpiresDate = gracePeriodExpiresDate
    self.periodEnd = periodEnd
    self.status = status
    self.isGraceOver = isGraceOver
    self.graceAfter = graceAfter
    self.reportedAt = reportedAt
  }
}
