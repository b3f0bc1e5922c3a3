/// The simulated app's products: three subscriptions and one lifetime purchase.
enum Product: String, CaseIterable, Sendable {
  case proMonthly = "pro.monthly"
  case proYearly = "pro.yearly"
  case premiumMonthly = "premium.monthly"
  case forever
  /// Sold by the app, but in no catalog of a service.
  case unknown = "retired.weekly"

  /// The default app of issued receipts.
  static let defaultBundleID = "com.example.app"

  /// Product IDs begin with the app's default bundle ID.
  var id: String { "\(Self.defaultBundleID).\(rawValue)" }

  var isSubscription: Bool { self != .forever }

  /// The number of months per period.
  var months: Int { self == .proYearly ? 12 : 1 }

  /// Attribute 1707: 0 non-consumable, 3 auto-renewable.
  var receiptKind: Int64 { isSubscription ? 3 : 0 }
}
