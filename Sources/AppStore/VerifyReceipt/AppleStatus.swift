/// The `status` of an answer: Apple's verdict on the request. Numbers that Apple adds are kept.
///
/// https://developer.apple.com/documentation/appstorereceipts/status
package struct AppleStatus: RawRepresentable, Hashable, Sendable {
  package let rawValue: Int
  package init(rawValue: Int) { self.rawValue = rawValue }

  package static let valid = AppleStatus(rawValue: 0)
  /// The request was not a POST.
  package static let notPosted = AppleStatus(rawValue: 21000)
  /// No longer sent.
  package static let notRead = AppleStatus(rawValue: 21001)
  /// The receipt is malformed, or the service had a temporary problem.
  package static let malformedOrTrouble = AppleStatus(rawValue: 21002)
  package static let notAuthentic = AppleStatus(rawValue: 21003)
  package static let wrongSharedSecret = AppleStatus(rawValue: 21004)
  package static let unavailable = AppleStatus(rawValue: 21005)
  /// Authentic, and its subscription has expired. iOS 6-style receipts only.
  package static let expired = AppleStatus(rawValue: 21006)
  package static let belongsToSandbox = AppleStatus(rawValue: 21007)
  package static let belongsToProduction = AppleStatus(rawValue: 21008)
  package static let internalError = AppleStatus(rawValue: 21009)
  package static let accountGone = AppleStatus(rawValue: 21010)

  /// Whether the rest of the answer speaks about purchases.
  package var isVerdict: Bool { self == .valid || self == .expired }

  /// Errors inside Apple's service; the answer may say whether asking again helps.
  package var isInternalDataAccessError: Bool { (21100...21199).contains(rawValue) }
}
