package import Entitlements

/// A promotional offer of a product in App Store Connect, and the users who may have it.
package struct PromotionalOffer: Hashable, Sendable {
  /// Apple's identifier, one per product.
  package let id: String
  package let audiences: Set<OfferAudience>

  package init(id: String, audiences: Set<OfferAudience>) {
    self.id = id
    self.audiences = audiences
  }
}
