import Access
import Hummingbird
import Ledger
import Validation

import struct FoundationEssentials.Date

/// The routes of the dialects that are switched on, and the form of their problems.
struct DialectRoutes: Sendable {
  /// The parts of the native routes, which every dialect is made of.
  struct Common: Sendable {
    var useCases: UseCases
    var budgets: BodyBudgets
    var line: AdmissionQueue
    var limits: RequestLimits
    var keyring: APIKeyring
    var access: AccessController
    var trials: TrialsController
    var ledgerCheck: LedgerCheck
    /// Bytes of the largest request body.
    var maxBody: Int

    var now: @Sendable () -> Date { useCases.now }
  }

  /// The page on which customers of a store manage their subscriptions; nobody else can end one.
  ///
  /// https://support.apple.com/118223, https://support.google.com/googleplay/answer/7018481
  /// - Parameter store: as RevenueCat names it.
  static func managementURL(of store: String) -> String? {
    switch store {
    case "app_store", "mac_app_store": "https://apps.apple.com/account/subscriptions"
    case "play_store": "https://play.google.com/store/account/subscriptions"
    default: nil
    }
  }

  /// Registers a path. An open one asks for no credential before its handler runs.
  typealias Registration = (
    _ isOpen: Bool, _ path: RouterPath, _ handlers: [HTTPRequest.Method: Handler]
  ) -> Void

  var enabled: Set<Dialect>
  var common: Common

  func add(_ route: Registration) {
    RevenueCatSDKController(common, isEnabled: enabled.contains(.revenuecat)).add(route)
    if enabled.contains(.cordova) { CordovaController(common).add(route) }
    if enabled.contains(.openiap) {
      OpenIAPController(common).add(route)
      OpenIAPKitController(common).add(route)
    }
    if enabled.contains(.verifyReceipt) { VerifyReceiptController(common).add(route) }
    if enabled.contains(.subscriptionsAPI) { SubscriptionsAPIController(common).add(route) }
    if enabled.contains(.trialAPI) { TrialAPIController(common).add(route) }
  }

  /// Whether pages may call some paths: an SDK for the web, an app in a web view.
  var hasPages: Bool { enabled.contains(.revenuecat) || enabled.contains(.cordova) }

  /// Whether pages may call a path.
  func isForPages(_ path: String) -> Bool {
    enabled.contains(.revenuecat)
      && (RevenueCatSDKController.isOurs(path) || path == RevenueCatSDKController.telemetryPath)
      || enabled.contains(.cordova) && path == CordovaController.path
  }

  /// The shapes of problems on the dialects' paths.
  var errors: [DialectErrors] {
    [RevenueCatSDKController.errors(isEnabled: enabled.contains(.revenuecat))]
      + (enabled.contains(.cordova) ? [CordovaController.errors] : [])
      + (enabled.contains(.openiap) ? [OpenIAPController.errors] : [])
      + (enabled.contains(.verifyReceipt) ? [VerifyReceiptController.errors] : [])
      + (enabled.contains(.subscriptionsAPI) ? [SubscriptionsAPIController.errors] : [])
      + (enabled.contains(.trialAPI) ? [TrialAPIController.errors] : [])
  }
}
