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

  /// Attribute 1707: 0 non-consumable, 2 non-renewing subscription, 3 auto-renewable.
  var receiptKind: Int64 {
    switch self {
    case .forever: 0
    case .proSeason: 2
    case .proMonthly, .proYearly, .premiumMonthly, .unknown: 3
    }
  }
}
