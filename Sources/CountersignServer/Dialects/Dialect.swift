/// Another service's interface, spoken over the same use cases (`dialects`), so that its clients need one changed URL.
package enum Dialect: String, Hashable, Sendable, CaseIterable {
  /// RevenueCat's SDKs: `/v1/receipts`, `/v1/subscribers/…`.
  case revenuecat
  /// cordova-plugin-purchase's validator: `/v1/validate`.
  case cordova
  /// OpenIAP's `verifyPurchaseWithProvider` and `kitApi`: `/v1/purchase/verify`, `/v1/subscriptions/…`, `/v1/products/…`.
  case openiap
  /// Apple's own shape: `/verifyReceipt`.
  case verifyReceipt = "verify_receipt"
  /// `/api/subscriptions/…` and `/api/health/subscriptions`.
  case subscriptionsAPI = "subscriptions_api"
  /// `/api/trial/…`.
  case trialAPI = "trial_api"
}
