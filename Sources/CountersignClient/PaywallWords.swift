import CountersignAPI
import Foundation

/// The sentences of a paywall, in English. An app sets others for other languages.
public struct PaywallWords: Sendable {
  /// `per month`, `for 6 months`.
  public var per: @Sendable (Period) -> String = { period in
    period.count == 1 ? "per \(period.unit.rawValue)" : "for \(period.count) \(period.unit.rawValue)s"
  }
  /// `1 week`.
  public var length: @Sendable (Period) -> String = { period in
    "\(period.count) \(period.unit.rawValue)\(period.count == 1 ? "" : "s")"
  }
  /// `$4.99 per month`; without `per` it is paid once.
  public var price: @Sendable (_ price: String, _ per: String?) -> String = { price, per in
    per.map { "\(price) \($0)" } ?? "\(price), once"
  }
  /// `1 week free, then $4.99 per month`.
  public var free: @Sendable (_ length: String, _ then: String) -> String = { "\($0) free, then \($1)" }
  public var introductory: @Sendable (_ price: String, _ length: String, _ then: String) -> String = {
    "\($0) for \($1), then \($2)"
  }
  /// `Children: 99`.
  public var feature: @Sendable (_ name: String, _ limit: Int?) -> String = { name, limit in
    limit.map { "\(name): \($0)" } ?? name
  }
  /// The review of the App Store wants it beside the price.
  public var renewal =
    "It renews by itself, until you cancel it in the settings of your Apple account, a day before the period ends at the latest."
  public var success = "Thank you. It is unlocked."
  /// The service has recorded the purchase, and the state after it is not known yet.
  public var recorded = "Thank you. It is bought, and counts in a moment."
  public var restored = "Your purchases are restored."
  public var nothing = "This Apple account has nothing to restore."
  public var away = "The plans cannot be loaded. Please try again."
  /// `nil` for what the user did.
  public var error: @Sendable (CountersignError) -> String? = { $0 == .cancelled ? nil : $0.localizedDescription }
  public var restore = "Restore purchases"
  public var retry = "Try again"
  public var terms = "Terms of Use"
  public var privacy = "Privacy Policy"
  public var close = "Close"

  public init() {}
}

extension Offering.Package {
  /// The store's price with its period, and before it what this customer may have; `nil` where the store does not sell it.
  public func priceLine(_ words: PaywallWords = PaywallWords()) -> String? {
    guard let product else { return nil }
    let price = words.price(product.displayPrice, period.map(words.per))
    guard let offer = product.introductoryOffer, product.isEligibleForIntroductoryOffer == true else { return price }
    let length = words.length(Period(offer.period.count * max(1, offer.count), offer.period.unit))
    return offer.mode == .freeTrial
      ? words.free(length, price) : words.introductory(offer.displayPrice, length, price)
  }
}

extension PlansResponse.Plan {
  /// The named features that the plan includes, a line each, in the order of the names.
  public func featureLines(
    _ names: KeyValuePairs<String, String>, _ words: PaywallWords = PaywallWords()
  ) -> [String] {
    names.compactMap { name, title in
      features[name].flatMap { $0.isIncluded ? words.feature(title, $0.limit) : nil }
    }
  }
}

extension PlansResponse {
  /// The lowest plan on sale above a tier that has a feature, or more of it; `nil` where none has.
  public func plan(lifting feature: String, above tier: String) -> Plan? {
    let place = rank(of: tier) ?? -1
    let allowed = place < 0 ? 0 : plans[place].features[feature]?.amount ?? 0
    return plans.dropFirst(place + 1).first { $0.active && ($0.features[feature]?.amount ?? 0) > allowed }
  }
}

extension PlansResponse.Allowance {
  /// A meter's rules all hold, as `10 per month`; without one it is unlimited.
  fileprivate var amount: Int {
    guard isIncluded else { return 0 }
    return limit ?? rules.map { Int($0.prefix { $0.isNumber }) ?? 0 }.min() ?? .max
  }
}
