package import Entitlements
import JSON

package import struct FoundationEssentials.Date

/// The outcome of an extension for all active subscribers of a product.
///
/// https://developer.apple.com/documentation/appstoreserverapi/massextendrenewaldatestatusresponse
package struct ProductExtensionStatus: Hashable, Sendable {
  package var isComplete: Bool
  /// Known when it is complete.
  package var succeeded: Int64?
  package var failed: Int64?
}

extension ProductExtensionStatus {
  init(_ body: JSONValue) throws(JSONError) {
    guard let isComplete = try body.flag("complete") else { throw body.missing("complete") }
    self.isComplete = isComplete
    succeeded = try body.integer("succeededCount")
    failed = try body.integer("failedCount")
  }
}

extension ServerAPIClient {
  /// Extends the renewal date of one subscription.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/extend-a-subscription-renewal-date
  /// - Returns: the new end of its period.
  package func extend(
    _ id: OriginalTransactionID, by one: RenewalExtension, bundleIDs: [BundleID], in store: StoreEnvironment,
    deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> Date {
    let answer = try await unsigned(
      ServerAPIRequest(one, of: id), .renewalExtension, bundleIDs: bundleIDs, in: store, deadline: deadline)
    guard case .extended(let end) = answer else { throw .invalidAnswer("there is no new date in it") }
    return end
  }

  /// Has Apple extend the renewal dates of all active subscribers of a product. Apple takes hours for it.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/extend-subscription-renewal-dates-for-all-active-subscribers
  package func extendAll(
    of product: ExtendedProduct, by one: RenewalExtension, bundleIDs: [BundleID], in store: StoreEnvironment,
    deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) {
    _ = try await unsigned(
      ServerAPIRequest(one, of: product), .productExtension, bundleIDs: bundleIDs, in: store, deadline: deadline)
  }

  /// https://developer.apple.com/documentation/appstoreserverapi/get-status-of-subscription-renewal-date-extensions
  package func extensionStatus(
    of productID: ProductID, requestIdentifier: String, bundleIDs: [BundleID], in store: StoreEnvironment,
    deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> ProductExtensionStatus {
    let request = ServerAPIRequest(statusOf: productID, requestIdentifier: requestIdentifier)
    let answer = try await unsigned(
      request, .productExtensionStatus, bundleIDs: bundleIDs, in: store, deadline: deadline)
    guard case .extensionStatus(let status) = answer else { throw .invalidAnswer("there is no status in it") }
    return status
  }
}

extension AppStoreError {
  /// Apple's reason against an extension, as a sentence; `nil` for trouble, which may pass.
  package var extensionRefusal: String? {
    switch self {
    case .notFound: "Apple does not know this subscription."
    case .unexpected(let code, _):
      switch ServerAPIErrorCode(rawValue: code) {
      case .extensionIneligible:
        "Apple extends only a subscription that runs and was paid for: not in a free offer, in a grace period, in billing "
          + "retry, or after its end."
      case .mostExtensions: "Apple extends a subscription twice in 365 days at most."
      case .familySharedExtension:
        "The subscription is shared in a family: extend the one of the member who bought it."
      case .invalidExtendByDays: "Apple extends by 1 to 90 days."
      case .invalidProductID: "Apple knows no auto-renewable subscription of this app with this product ID."
      case .emptyStorefronts, .invalidStorefront:
        "Apple does not know one of the storefronts: give codes of three letters, such as USA."
      default: "Apple refuses it with the error \(code)."
      }
    default: nil
    }
  }
}

extension ServerAPIErrorCode {
  fileprivate static let invalidExtendByDays = Self(rawValue: 4_000_009)
  fileprivate static let invalidProductID = Self(rawValue: 4_000_023)
  fileprivate static let emptyStorefronts = Self(rawValue: 4_000_027)
  fileprivate static let invalidStorefront = Self(rawValue: 4_000_028)
  fileprivate static let extensionIneligible = Self(rawValue: 4_030_004)
  fileprivate static let mostExtensions = Self(rawValue: 4_030_005)
  fileprivate static let familySharedExtension = Self(rawValue: 4_030_007)
}

extension RenewalExtension {
  func write(to json: inout JSONWriter) {
    json.member("extendByDays", Int64(days))
    json.member("extendReasonCode", reason.code)
    json.member("requestIdentifier", requestIdentifier)
  }
}

extension RenewalExtension.Reason {
  /// https://developer.apple.com/documentation/appstoreserverapi/extendreasoncode
  fileprivate var code: Int64 {
    switch self {
    case .undeclared: 0
    case .customerSatisfaction: 1
    case .other: 2
    case .serviceIssue: 3
    }
  }
}
