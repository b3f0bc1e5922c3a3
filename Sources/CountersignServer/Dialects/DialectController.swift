import Hummingbird

/// The routes of a dialect, the form of its problems, and its paths for pages.
protocol DialectController: Sendable {
  /// - Parameter routes: for paths that ask for no credential before their handler runs.
  func addRoutes(to routes: Routes, authenticated: Routes)

  /// The form of problems on the dialect's paths.
  var errors: DialectErrors { get }

  /// Whether pages may call a path: an SDK for the web, an app in a web view.
  func isForPages(_ path: String) -> Bool
}

extension DialectController {
  func isForPages(_ path: String) -> Bool { false }
}

extension Dialect {
  /// The controllers of the dialects that are spoken. RevenueCat's is always there: its clients lose purchases by a 404.
  static func controllers(of spoken: Set<Dialect>, _ parts: DialectParts) -> [any DialectController] {
    allCases.compactMap { dialect in
      let isSpoken = spoken.contains(dialect)
      return switch dialect {
      case .revenuecat: RevenueCatSDKController(parts, isEnabled: isSpoken)
      case _ where !isSpoken: nil
      case .cordova: CordovaController(parts)
      case .openiap: OpenIAPController(parts)
      case .verifyReceipt: VerifyReceiptController(parts)
      case .subscriptionsAPI: SubscriptionsAPIController(parts)
      case .trialAPI: TrialAPIController(parts)
      }
    }
  }
}

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
