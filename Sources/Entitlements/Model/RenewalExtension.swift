/// An extension of a renewal date, as support asks Apple for it.
///
/// https://developer.apple.com/documentation/appstoreserverapi/extending-the-renewal-date-for-auto-renewable-subscriptions
package struct RenewalExtension: Hashable, Sendable {
  package enum Reason: String, Hashable, Sendable, CaseIterable {
    case undeclared
    case customerSatisfaction = "customer_satisfaction"
    case other
    case serviceIssue = "service_issue"
  }

  /// Apple: "The number of days is a number from 1 to 90."
  package static let dayLimits = 1...90

  package var days: Int
  package var reason: Reason
  /// Names the request at Apple: the same one sent again extends nothing a second time.
  package var requestIdentifier: String

  package init(days: Int, reason: Reason, requestIdentifier: String) {
    self.days = days
    self.reason = reason
    self.requestIdentifier = requestIdentifier
  }
}

/// The subscriptions of an extension for all active subscribers.
package struct ExtendedProduct: Hashable, Sendable {
  package var productID: ProductID
  /// Three-letter codes of countries; `nil`: all.
  package var storefronts: [String]?

  package init(productID: ProductID, storefronts: [String]? = nil) {
    self.productID = productID
    self.storefronts = storefronts
  }
}
