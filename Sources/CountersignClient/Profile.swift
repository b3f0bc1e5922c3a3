import CountersignAPI
import Foundation

/// The verdict on the user with what a settings page shows: names, dates, and a notice where there is one.
///
/// Its members are also those of the verdict: `profile.tier`, `profile.reason`, `profile.willRenew`.
@dynamicMemberLookup
public struct Profile: Hashable, Sendable {
  /// The service's answer.
  public var answer: EntitlementResponse
  /// The tier's name in the catalog, for people; the tier itself where that is not known.
  public var tierName: String
  /// The product's name in the store, in the customer's language; `nil` where it is not known.
  public var productName: String?
  /// The length of the product's period; `nil` for a purchase for life, and where it is not known.
  public var period: Period?
  /// When the store charges next; `nil` where it does not.
  public var nextBillingAt: Date?
  /// When access ends, or has ended, because nothing renews it; `nil` where something does, and for life.
  public var endsAt: Date?
  public var notice: Notice?
  public var suggestion: Suggestion?
  /// Whether the service could not be asked, and this is its last answer.
  public var isOld: Bool

  public subscript<Value>(dynamicMember member: KeyPath<EntitlementState, Value>) -> Value {
    answer.entitlement[keyPath: member]
  }

  /// A banner's content.
  public enum Notice: Hashable, Sendable {
    /// The store could not charge, and tries again. Access ends then, unless it succeeds.
    case paymentFailed(until: Date?)
    /// Access ends within three days, and nothing renews it.
    case endsSoon(at: Date)
    /// Access has ended.
    case ended(at: Date)
  }

  /// A button's purpose.
  public enum Suggestion: Hashable, Sendable {
    /// Nothing is paid for: show the paywall.
    case subscribe
    /// The subscription ends or has ended: show the paywall, or the App Store's page of subscriptions.
    case resubscribe
    /// The payment failed: show the App Store's page of subscriptions.
    case updatePayment
  }

  init(_ answer: EntitlementResponse, plans: PlansResponse?, product: StoreProduct?, isOld: Bool, at now: Date) {
    self.answer = answer
    self.isOld = isOld
    let state = answer.entitlement
    tierName = plans?.plans.first { $0.tier == state.tier }?.name ?? state.tier
    productName = product?.displayName
    let listed = state.productID.flatMap { id in
      plans?.plan(of: id)?.products.first { $0.productID == id }
    }
    period = product?.period ?? listed?.period.flatMap(Period.init(iso8601:))

    // Where Apple did not say whether it renews, the reason tells.
    let renews = state.willRenew ?? (state.reason == .renewing || state.reason == .renewalDue)
    switch state.status {
    case .gracePeriod:
      notice = .paymentFailed(until: state.accessUntil)
      suggestion = .updatePayment
    case .expired:
      endsAt = state.expiresAt
      suggestion = endsAt == nil ? .subscribe : .resubscribe
    default:
      if renews {
        nextBillingAt = state.expiresAt.flatMap { $0 > now ? $0 : nil }
      } else {
        endsAt = state.accessUntil
        // A trial or a grant ends without anything to renew.
        suggestion = endsAt == nil ? nil : state.status == .cancelled ? .resubscribe : .subscribe
      }
    }
    if let endsAt {
      let soon: TimeInterval = 3 * 86_400
      notice = endsAt <= now ? .ended(at: endsAt) : endsAt <= now + soon ? .endsSoon(at: endsAt) : nil
    }
  }
}
