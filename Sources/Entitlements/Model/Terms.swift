package import struct FoundationEssentials.Date

extension Purchase {
  /// The terms of a transaction, in Apple's words, as sent. No verdict depends on them but the end of a commitment.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/jwstransactiondecodedpayload
  package struct Terms: Hashable, Codable, Sendable {
    /// `transactionReason`: `PURCHASE`, `RENEWAL`.
    package var reason: String?
    /// `offerDiscountType`: `FREE_TRIAL`, `PAY_AS_YOU_GO`, `PAY_UP_FRONT`, `ONE_TIME`.
    package var discountType: String?
    /// Apple's ID of the customer's download of the app.
    package var appTransactionID: String?
    /// `revocationType`: `REFUND_FULL`, `REFUND_PRORATED`, `FAMILY_REVOKE`. It means nothing while the purchase stands.
    package var revocationType: String?
    /// `billingPlanType`: `BILLED_UPFRONT`, `MONTHLY`.
    package var billingPlan: String?
    /// The number of the transaction's billing period in the commitment, from 1, and the number of all.
    package var billingPeriod: Int64?
    package var billingPeriods: Int64?
    package var commitmentEndsAt: Date?
    /// The price of the whole commitment, in thousandths of the unit of the transaction's currency.
    package var commitmentPrice: Int64?
    /// The original transaction ID before a migration to the Advanced Commerce API.
    package var previousOriginalTransactionID: OriginalTransactionID?
    /// The items of an Advanced Commerce purchase.
    package var items: [AdvancedCommerceItem] = []

    package init() {}

    /// Whether the customer pays each month for a longer commitment.
    package var isBilledMonthly: Bool { billingPlan == "MONTHLY" }

    /// Drops texts and numbers that are no terms.
    /// - Returns: `nil` if nothing is left.
    package var checked: Terms? {
      var terms = self
      terms.reason = reason?.short
      terms.discountType = discountType?.short
      terms.appTransactionID = appTransactionID?.short
      terms.revocationType = revocationType?.short
      terms.billingPlan = billingPlan?.short
      terms.previousOriginalTransactionID = previousOriginalTransactionID.flatMap {
        $0.rawValue.short.map { OriginalTransactionID($0) }
      }
      terms.items = AdvancedCommerceItem.limited(items)
      return terms == Terms() ? nil : terms
    }

    /// Adds members from another report of the same transaction.
    func completed(by other: Terms?) -> Terms {
      guard let other else { return self }
      var terms = self
      terms.reason = reason ?? other.reason
      terms.discountType = discountType ?? other.discountType
      terms.appTransactionID = appTransactionID ?? other.appTransactionID
      terms.revocationType = revocationType ?? other.revocationType
      terms.billingPlan = billingPlan ?? other.billingPlan
      terms.billingPeriod = billingPeriod ?? other.billingPeriod
      terms.billingPeriods = billingPeriods ?? other.billingPeriods
      terms.commitmentEndsAt = commitmentEndsAt ?? other.commitmentEndsAt
      terms.commitmentPrice = commitmentPrice ?? other.commitmentPrice
      terms.previousOriginalTransactionID = previousOriginalTransactionID ?? other.previousOriginalTransactionID
      terms.items = items.isEmpty ? other.items : items
      return terms
    }
  }
}

/// One of the app's own items in an Advanced Commerce purchase.
///
/// https://developer.apple.com/documentation/appstoreserverapi/advancedcommercetransactionitem
package struct AdvancedCommerceItem: Hashable, Codable, Sendable {
  package var sku: String
  package var name: String?
  /// Thousandths of the unit of the purchase's currency.
  package var price: Int64?
  package var revokedAt: Date?

  package init(sku: String, name: String? = nil, price: Int64? = nil, revokedAt: Date? = nil) {
    self.sku = sku
    self.name = name
    self.price = price
    self.revokedAt = revokedAt
  }

  private static let most = 20

  /// The first items, with texts that are fit to be kept.
  static func limited(_ items: [AdvancedCommerceItem]) -> [AdvancedCommerceItem] {
    items.prefix(most).compactMap { item in
      guard let sku = item.sku.short else { return nil }
      return AdvancedCommerceItem(sku: sku, name: item.name?.short, price: item.price, revokedAt: item.revokedAt)
    }
  }
}

/// The terms of a subscription's next renewal, in Apple's words, as sent. No verdict depends on them but the end of a
/// commitment.
///
/// https://developer.apple.com/documentation/appstoreserverapi/jwsrenewalinfodecodedpayload
package struct RenewalTerms: Hashable, Codable, Sendable {
  /// When Apple signed them; `nil` means the evidence time.
  package var signedAt: Date?
  /// `priceIncreaseStatus`: 0 not answered, 1 agreed, or told without a need to agree.
  package var priceIncreaseStatus: Int?
  /// The price of the next period, in thousandths of the unit of `currency`.
  package var price: Int64?
  package var currency: String?
  /// The offer that applies to the next period.
  package var offerType: Int?
  package var offerID: String?
  package var discountType: String?
  /// `renewalBillingPlanType`: `BILLED_UPFRONT`, `MONTHLY`.
  package var billingPlan: String?
  /// `commitmentAutoRenewStatus`: whether another commitment follows; `nil` without a commitment.
  package var commitmentRenews: Bool?
  package var commitmentEndsAt: Date?
  /// The product, the billing plan and the price of the next commitment.
  package var commitmentProductID: ProductID?
  package var commitmentBillingPlan: String?
  package var commitmentPrice: Int64?
  /// `eligibleWinBackOfferIds`: the win-back offers that the customer may redeem, the best first; `nil` for none.
  package var winBackOfferIDs: [String]?
  /// The items of an Advanced Commerce subscription that renew.
  package var items: [AdvancedCommerceItem] = []

  package init(signedAt: Date? = nil) { self.signedAt = signedAt }

  /// Drops texts that are no terms.
  /// - Returns: `nil` if nothing is left.
  package var checked: RenewalTerms? {
    var terms = self
    terms.currency = currency?.short
    terms.offerID = offerID?.short
    terms.discountType = discountType?.short
    terms.billingPlan = billingPlan?.short
    terms.commitmentProductID = commitmentProductID.flatMap { $0.rawValue.short.map { ProductID($0) } }
    terms.commitmentBillingPlan = commitmentBillingPlan?.short
    terms.items = AdvancedCommerceItem.limited(items)
    return terms == RenewalTerms(signedAt: signedAt) ? nil : terms
  }

  /// The order of terms: by the time of their signature, then by their content, so that the order of arrival has no effect.
  static func precedes(_ one: RenewalTerms, _ other: RenewalTerms) -> Bool {
    let (mine, others) = (one.signedAt ?? .distantPast, other.signedAt ?? .distantPast)
    return mine == others ? String(describing: one) < String(describing: other) : mine < others
  }
}

extension String {
  /// The text, if it is fit to be kept: 1 to 256 bytes.
  fileprivate var short: String? { (1...256).contains(utf8.count) ? self : nil }
}
