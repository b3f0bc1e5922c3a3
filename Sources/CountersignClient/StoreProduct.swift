import Foundation

/// A product as the store sells it to this customer.
public struct StoreProduct: Hashable, Sendable {
  public var id: String
  /// In the customer's language.
  public var displayName: String
  public var description: String
  public var price: Decimal
  /// In the customer's currency and language: `4,99 €`.
  public var displayPrice: String
  /// As ISO 4217 names it: `EUR`.
  public var currencyCode: String?
  /// `nil` for a purchase that does not renew.
  public var period: Period?
  public var introductoryOffer: Offer?
  /// Whether this customer may still have the introductory offer; `nil` where there is none.
  public var isEligibleForIntroductoryOffer: Bool?

  public init(
    id: String, displayName: String, description: String = "", price: Decimal, displayPrice: String,
    currencyCode: String? = nil, period: Period? = nil, introductoryOffer: Offer? = nil,
    isEligibleForIntroductoryOffer: Bool? = nil
  ) {
    self.id = id
    self.displayName = displayName
    self.description = description
    self.price = price
    self.displayPrice = displayPrice
    self.currencyCode = currencyCode
    self.period = period
    self.introductoryOffer = introductoryOffer
    self.isEligibleForIntroductoryOffer = isEligibleForIntroductoryOffer
  }

  /// An introductory offer: `count` periods, each for `price`.
  public struct Offer: Hashable, Sendable {
    public enum Mode: String, Hashable, Sendable { case freeTrial, payAsYouGo, payUpFront, unknown }

    public var mode: Mode
    public var price: Decimal
    public var displayPrice: String
    public var period: Period
    public var count: Int

    public init(mode: Mode, price: Decimal, displayPrice: String, period: Period, count: Int) {
      self.mode = mode
      self.price = price
      self.displayPrice = displayPrice
      self.period = period
      self.count = count
    }
  }
}

#if canImport(StoreKit)
  import StoreKit

  extension StoreProduct {
    init(_ product: Product) async {
      self.init(
        id: product.id, displayName: product.displayName, description: product.description, price: product.price,
        displayPrice: product.displayPrice, currencyCode: product.priceFormatStyle.currencyCode)
      guard let subscription = product.subscription else { return }
      period = Period(subscription.subscriptionPeriod)
      guard let offer = subscription.introductoryOffer else { return }
      let mode: Offer.Mode =
        switch offer.paymentMode {
        case .freeTrial: .freeTrial
        case .payAsYouGo: .payAsYouGo
        case .payUpFront: .payUpFront
        default: .unknown
        }
      introductoryOffer = Period(offer.period).map {
        Offer(mode: mode, price: offer.price, displayPrice: offer.displayPrice, period: $0, count: offer.periodCount)
      }
      isEligibleForIntroductoryOffer = await subscription.isEligibleForIntroOffer
    }
  }

  extension Period {
    fileprivate init?(_ period: Product.SubscriptionPeriod) {
      switch period.unit {
      case .day: self.init(period.value, .day)
      case .week: self.init(period.value, .week)
      case .month: self.init(period.value, .month)
      case .year: self.init(period.value, .year)
      @unknown default: return nil
      }
    }
  }
#endif
