/// What the simulated app sells: three subscriptions and one purchase for ever.
enum Product: String, CaseIterable, Sendable {
  case proMonthly = "pro.monthly"
  case proYearly = "pro.yearly"
  case premiumMonthly = "premium.monthly"
  case forever
  /// Sold by the app, and in no catalog that a service was given.
  case unknown = "retired.weekly"

  /// The app whose receipts are issued when no other is asked for.
  static let defaultBundleID = "com.example.app"

  /// Product IDs begin with the app's usual bundle ID.
  var id: String { "\(Self.defaultBundleID).\(rawValue)" }

  var isSubscription: Bool { self != .forever }

  /// How many months are bought at once.
  var months: Int { self == .proYearly ? 12 : 1 }

  /// Attribute 1707: 0 non-consumable, 3 auto-renewable.
  var receiptKind: Int64 { isSubscription ? 3 : 0 }
}
