/// The simulated app's products: three subscriptions, a non-renewing one and a lifetime purchase.
enum Product: String, CaseIterable, Sendable {
  case proMonthly = "pro.monthly"
  case proYearly = "pro.yearly"
  case premiumMonthly = "premium.monthly"
  /// A non-renewing subscription: the store does not know how long it lasts.
  case proSeason = "pro.season"
  case forever
  /// A product that no service's catalog lists.
  case unknown = "retired.weekly"

  /// The default app of issued receipts.
  static let defaultBundleID = "com.example.app"

  /// Product IDs begin with the app's default bundle ID.
  var id: String { "\(Self.defaultBundleID).\(rawValue)" }

  /// Whether it renews by itself.
  var isSubscription: Bool { self != .forever && self != .proSeason }

  /// The number of months per period.
  var months: Int { self == .proYearly ? 12 : 1 }

  /// Its type in signed transactions, in queries of the history, and in attribute 1707 of receipts.
  var appleType: (signed: String, queried: String, inReceipts: Int64) {
    switch self {
    case .forever: ("Non-Consumable", "NON_CONSUMABLE", 0)
    case .proSeason: ("Non-Renewing Subscription", "NON_RENEWABLE", 2)
    case .proMonthly, .proYearly, .premiumMonthly, .unknown: ("Auto-Renewable Subscription", "AUTO_RENEWABLE", 3)
    }
  }
}
