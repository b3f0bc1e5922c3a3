/// The `status` of an answer: Apple's verdict on the request. Unknown numbers are kept.
///
/// https://developer.apple.com/documentation/appstorereceipts/status
package struct AppleStatus: RawRepresentable, Hashable, Sendable {
  package let rawValue: Int
  package init(rawValue: Int) { self.rawValue = rawValue }

  package static let valid = AppleStatus(rawValue: 0)
  static let notPosted = AppleStatus(rawValue: 21000)
  /// No longer sent.
  static let notRead = AppleStatus(rawValue: 21001)
  /// The receipt is malformed, or the service had a temporary problem.
  static let malformedOrTrouble = AppleStatus(rawValue: 21002)
  package static let notAuthentic = AppleStatus(rawValue: 21003)
  static let wrongSharedSecret = AppleStatus(rawValue: 21004)
  static let unavailable = AppleStatus(rawValue: 21005)
  /// Authentic, and its subscription has expired. iOS 6-style receipts only.
  package static let expired = AppleStatus(rawValue: 21006)
  static let belongsToSandbox = AppleStatus(rawValue: 21007)
  static let belongsToProduction = AppleStatus(rawValue: 21008)
  static let internalError = AppleStatus(rawValue: 21009)
  static let accountGone = AppleStatus(rawValue: 21010)

  /// Whether the rest of the answer is about purchases.
  var isVerdict: Bool { self == .valid || self == .expired }

  /// Errors inside Apple's service; the answer may say whether a retry helps.
  var isInternalDataAccessError: Bool { (21100...21199).contains(rawValue) }

  /// Whether Apple may answer so for one receipt and not for the next.
  var mayConcernThisReceiptOnly: Bool {
    switch self {
    case .malformedOrTrouble, .notAuthentic, .internalError: true
    default: isInternalDataAccessError
    }
  }
}
