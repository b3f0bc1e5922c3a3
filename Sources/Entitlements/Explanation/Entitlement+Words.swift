package import struct FoundationEssentials.Date

extension Entitlement {
  /// The verdict in plain English, for support to read to the customer: state, reason, end, and the change.
  ///
  ///     Apple could not renew the payment on 3 March 2026; access to pro runs until 19 March 2026. …
  ///
  /// Pure: the same verdicts always give the same words. Days are in UTC.
  ///
  /// - Parameter before: the previous verdict, if there was one.
  package func words(after before: Entitlement? = nil) -> [String] {
    var sentences = [decision]
    if reason == .billingGrace || reason == .billingRetry, !isHeld {
      sentences.append(
        "\(store) keeps trying; a new payment method in the customer's "
          + "\(isAtApple ? "Apple account" : "account there") resolves this.")
    }
    if explanation.periodKnownBy == .renewalInfo {
      sentences.append("Apple reported when this period ends, but not its payment.")
    }
    if reason == .renewing, let commitmentExpiresAt {
      sentences.append("It is part of a commitment until \(commitmentExpiresAt.dayInWords).")
    }
    if let nextProductID, willRenew == true { sentences.append("The next renewal is for \(nextProductID).") }
    if isReported { sentences.append("RevenueCat reported the purchase; it was made at \(store).") }
    if ownership == .familyShared, reason != .revoked { sentences.append("The purchase is shared by a family member.") }
    if environment == .sandbox {
      sentences.append(
        "It is a purchase in \(isReported ? "the store's" : "Apple's") sandbox, made for testing: nothing was paid.")
    }
    if isProvisional {
      sentences.append(
        isReported
          ? "\(isAtApple ? "Apple could not be asked about it" : "RevenueCat could not ask the store") yet, so this is "
            + "provisional."
          : "Apple signed the receipt but could not be asked about it yet, so this is provisional.")
    } else if isStale, !isHeld, reason != .unproven, reason != .renewalDue {
      sentences.append(
        "This is the last confirmed state: \(isReported ? "no newer report came" : "Apple could not be asked"), or the "
          + "app's catalog or a policy has changed since and would give less.")
    }
    sentences.append(standing(after: before))
    return sentences + passedOver
  }

  /// The state has ended by its own dates and stands only for want of newer evidence: Apple could not be asked, or no
  /// API is configured.
  private var isHeld: Bool { isStale && reason != .unproven && explanation.policy?.key == "policy.outage_hold" }

  /// Whether RevenueCat is the witness.
  private var isReported: Bool { source == .revenuecat }
  private var witness: String { isReported ? "RevenueCat" : "Apple" }

  /// The store's name in RevenueCat's words; `nil` for the App Store.
  private var storeWord: Substring? {
    guard isReported, let id = originalTransactionID?.rawValue, let end = id.firstIndex(of: ":") else { return nil }
    return id[..<end]
  }
  private var isAtApple: Bool { storeWord == nil }

  private var store: String {
    switch storeWord {
    case nil: "Apple"
    case "play_store": "Google Play"
    case "stripe": "Stripe"
    case "amazon": "Amazon"
    case "paddle": "Paddle"
    case "roku": "Roku"
    case "rc_billing": "RevenueCat Billing"
    case "promotional": "RevenueCat, as a promotion"
    case .some(let word): String(word).replacing("_", with: " ")
    }
  }

  private var decision: String {
    if isHeld {
      let hold = explanation.policy.map { $0.valueInWords } ?? "a while"
      return """
        According to \(witness)'s last report, access ended\(accessUntil.on), and no newer report has come since. \
        Access is kept for \(hold) after that, or until a newer report comes.
        """
    }
    let paid = isTrial ? "The free trial runs" : "The subscription is paid"
    let subscription = isTrial ? "The free trial" : "The subscription"
    switch reason {
    case .lifetime: return "The purchase of \(product) is for life and does not expire."
    case .renewing:
      guard let willRenew else { return "\(paid)\(expiresAt.until). \(witness) did not say whether it renews then." }
      return willRenew
        ? "\(paid)\(expiresAt.until) and renews by itself then." : "\(paid)\(expiresAt.until) and does not renew."
    case .renewalOff where status == .active:
      return """
        Renewal is turned off, but the payments by the month go on until the commitment ends\(commitmentExpiresAt.on). \
        \(paid)\(expiresAt.until).
        """
    case .renewalOff: return "Renewal is turned off. \(paid)\(expiresAt.until); access to \(tier) runs until then."
    case .refunded: return "\(store) refunded the purchase of \(product); access ended\(expiresAt.on)."
    case .revoked: return "A family member no longer shares the purchase of \(product); access ended\(expiresAt.on)."
    case .billingGrace:
      return """
        \(store) could not renew the payment\(expiresAt.on), and grants a grace period; access to \(tier) \
        runs\(accessUntil.until).
        """
    case .billingRetry:
      let term = explanation.policy.map { ", the \($0.valueInWords) that this app allows" } ?? ""
      return "\(store) could not renew the payment\(expiresAt.on); access to \(tier) runs\(accessUntil.until)\(term)."
    case .renewalDue:
      return """
        The paid period ended\(expiresAt.on). \(store) shows no renewal yet, and no end: renewals may come late. Access to \
        \(tier) runs\(accessUntil.until), or until \(witness) says more.
        """
    case .nonRenewing: return "The subscription does not renew by itself. It is paid\(expiresAt.until)."
    case .periodOver: return "The subscription did not renew by itself. Its period ended\(expiresAt.on)."
    case .voluntary: return "The customer had turned renewal off. \(subscription) ended\(expiresAt.on)."
    case .billingError: return "\(store) could not renew the payment. \(subscription) ended\(expiresAt.on).\(retryTerm)"
    case .priceIncrease:
      return "The customer did not agree to a higher price. \(subscription) ended\(expiresAt.on).\(retryTerm)"
    case .productUnavailable:
      return "\(product) was no longer sold when it was to renew. \(subscription) ended\(expiresAt.on).\(retryTerm)"
    case .unknown where lacksEnd: return noExpiry(of: product)
    case .unknown:
      if let goesOnAs = explanation.goesOnAs {
        return "The subscription goes on as \(goesOnAs), which is not in this app's catalog, so it gives nothing."
      }
      return "\(subscription) ended\(expiresAt.on). \(witness) did not say why it was not renewed.\(retryTerm)"
    case .noPurchases: return "This user has no known purchase."
    case .noKnownProduct: return "Apple reports purchases of this user, but no product in this app's catalog."
    case .accountGone: return "Apple says that the customer's Apple account was deleted. Its purchases no longer count."
    case .unproven:
      let hold = explanation.policy.map { ", for longer than the \($0.valueInWords) that this app waits" } ?? ""
      return """
        The last paid period that \(witness) reported ended\(expiresAt.on), and no newer report has come since\(hold). \
        Access returns as soon as \(witness) \(isReported ? "reports" : "confirms") a renewal.
        """
    case .granted: return "Access to \(tier) was given, not bought; it runs\(expiresAt.until)."
    case .trial: return "This app's own trial of \(tier) runs\(expiresAt.until)."
    case .originalPurchase:
      return "The customer had the app itself early enough to have \(tier) for life; it does not expire."
    }
  }

  /// The product that the catalog lacks, if known.
  private func noExpiry(of product: some CustomStringConvertible) -> String {
    """
    \(witness) gave no expiration date for \(product), so it does not count. If it is a non-renewing subscription, the \
    app's catalog has to say so: `kind: non_renewing`, with its `period`.
    """
  }

  /// The outcome of billing retry, if it gives no access or no longer does.
  private var retryTerm: String {
    guard let policy = explanation.policy, policy.key == "policy.billing_retry_access" else { return "" }
    return policy.value == "0"
      ? " \(store) may still be trying; this app gives no access meanwhile."
      : " \(store) may still be trying; the \(policy.valueInWords) of access that this app gives meanwhile are over."
  }

  /// The tier and the status, with their previous values.
  private func standing(after before: Entitlement?) -> String {
    guard let before else { return "The tier is \(tier)." }
    if before.tier != tier { return "The tier is \(tier); it was \(before.tier) until then." }
    if before.status != status {
      return "The tier is \(tier), as before; the status was \(before.status.inWords) until then."
    }
    return "The tier is \(tier), as before."
  }

  private var product: String { productID.map(\.rawValue) ?? "the product" }

  /// Other purchases worth mentioning: an earlier period of the same subscription is not.
  private var passedOver: [String] {
    var named: Set<ProductID> = []
    let others = explanation.passedOver.filter { $0.cause != .endsEarlier && $0.cause != .accountGone }
      .filter { $0.productID != productID || $0.cause == .otherSubscription }
      .filter { $0.productID != explanation.goesOnAs || $0.cause != .notCatalogued }
      .filter { named.insert($0.productID).inserted }
    let sentences = others.prefix(Self.passedOverInWords).map { other in
      switch other.cause {
      case .upgraded: "\(other.productID) was replaced by an upgrade and no longer counts."
      case .cancelled where isReported:
        "The purchase of \(other.productID) was refunded or revoked, so it does not count."
      case .cancelled: "Apple refunded or revoked the purchase of \(other.productID), so it does not count."
      case .notCatalogued: "\(other.productID) is not in this app's catalog, so it does not count."
      case .noExpiry: noExpiry(of: other.productID)
      case .otherSubscription: "Another purchase, of \(other.productID), gives less or ends earlier."
      case .endsEarlier, .accountGone: ""
      }
    }
    let rest = others.count - sentences.count
    return rest > 0 ? sentences + ["\(rest) more do not count either."] : sentences
  }

  private static let passedOverInWords = 3
}

extension SubscriptionStatus {
  fileprivate var inWords: String {
    switch self {
    case .active: "active"
    case .cancelled: "cancelled"
    case .gracePeriod: "in a grace period"
    case .expired: "expired"
    }
  }
}

extension Explanation.PolicyValue {
  /// `60d` as "60 days"; any other text unchanged.
  var valueInWords: String {
    guard let unit = value.last, let number = Int(value.dropLast()), number > 0 else { return value }
    let name: String
    switch unit {
    case "d": name = "day"
    case "h": name = "hour"
    case "m": name = "minute"
    case "s" where !value.hasSuffix("ms"): name = "second"
    default: return value
    }
    return number == 1 ? "1 \(name)" : "\(number) \(name)s"
  }
}

extension Date? {
  fileprivate var on: String { map { " on \($0.dayInWords)" } ?? "" }
  fileprivate var until: String { map { " until \($0.dayInWords)" } ?? "" }
}

extension Date {
  /// "3 March 2026": the day in UTC, in the Gregorian calendar.
  ///
  /// Computed here, since a formatter would need a locale and a time zone.
  package var dayInWords: String {
    let day = CalendarDay(since1970: CalendarDay.split(millisecondsSince1970).days)
    return "\(day.day) \(Self.months[day.month - 1]) \(day.year)"
  }

  private static let months = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
  ]
}
