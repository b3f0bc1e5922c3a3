import AppStore
import CountersignAPI
import Entitlements
import Hummingbird
import Logging
import Validation

import struct FoundationEssentials.Date

/// `POST /v1/offers/…` and `GET /v1/profiles/{user_id}/offers`: offers of subscriptions, signed for the App Store.
struct OffersController: Controller {
  var offers: SubscriptionOffers
  var body = JSONRequestBody(limit: BodyBudgets.runLimit)
  var budgets: BodyBudgets
  var now: @Sendable () -> Date

  /// Bytes of the longest ID of a product, an offer, or an app.
  private static let longestName = 255

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/offers/promotional", [.post: promotional])
    routes.serve("/v1/offers/introductory", [.post: introductory])
    routes.serve("/v1/profiles/{user_id}/offers", [.get: overview])
  }

  func overview(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let user = try context.requireUserInPath()
    let found = try await context.reading(await offers.overview(of: user, at: now()))
    return JSONBody.uncached(
      OffersResponse(
        promotional: found.promotional.map { .init(productID: $0.product.rawValue, offerID: $0.offer) },
        introductory: found.introductory.map { .init(productID: $0.product.rawValue, isAllowed: $0.isAllowed) },
        winBack: found.winBack.map { offer in
          OffersResponse.WinBack(
            offerID: offer.offer, productID: offer.product?.rawValue,
            originalTransactionID: offer.key.originalTransactionID.rawValue,
            environment: EntitlementState.Environment(offer.key.environment))
        }))
  }

  func promotional(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (posted, wanted) = try await wanted(request, context)
    guard let id = posted.offerID else { throw Problem(.malformedRequest, "'offer_id' is missing.") }
    try Self.check(id, "offer_id")
    let account = wanted.user.accountToken
    do throws(SubscriptionOffers.Refusal) {
      let signed = try await offers.promotional(id, wanted, account: account ?? "", at: now())
      return JSONBody.uncached(
        PromotionalOfferResponse(
          productID: wanted.product.rawValue, offerID: id, jws: signed.jws,
          signature: PromotionalOfferResponse.Signature(
            keyID: signed.keyID, nonce: signed.former.nonce, timestamp: signed.former.timestamp,
            signature: signed.former.signature, appAccountToken: account)))
    } catch { throw Problem(error, context) }
  }

  func introductory(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (_, wanted) = try await wanted(request, context)
    do throws(SubscriptionOffers.Refusal) {
      let signed = try await offers.introductory(wanted, at: now())
      return JSONBody.uncached(
        IntroductoryOfferResponse(productID: wanted.product.rawValue, isAllowed: signed.isAllowed, jws: signed.jws))
    } catch { throw Problem(error, context) }
  }

  private func wanted(
    _ request: Request, _ context: ServiceRequestContext
  ) async throws -> (OfferRequest, SubscriptionOffers.Wanted) {
    let caller = try context.requireUserOr(.service)
    let posted = try await body.decode(OfferRequest.self, from: request, budgets.access(by: context.caller)).value
    let user: UserID
    switch caller {
    // A user ID in the body is ignored, because the token names the user.
    case .user(let caller): user = caller
    case .server: user = try UserID(required: posted.userID, as: "the user that the offer is for")
    }
    try Self.check(posted.productID, "product_id")
    try posted.bundleID.map { text throws(Problem) in try Self.check(text, "bundle_id") }
    let transaction = try posted.transactionID.map { id throws(Problem) in
      guard id.isTransactionID else {
        throw Problem(.malformedRequest, "'transaction_id' has to be the ID as Apple writes it, as a string of digits.")
      }
      return TransactionID(id)
    }
    return (
      posted,
      SubscriptionOffers.Wanted(
        user: user, product: ProductID(posted.productID), app: posted.bundleID.map { BundleID($0) },
        transaction: transaction)
    )
  }

  private static func check(_ text: String, _ member: String) throws(Problem) {
    guard (1...longestName).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw Problem(
        .malformedRequest, "'\(member)' has to be 1 to \(longestName) printable ASCII characters without spaces.")
    }
  }
}

extension Problem {
  /// The problem of an offer that was not signed. A ledger's trouble, and libcrypto's, are in the log.
  init(_ refusal: SubscriptionOffers.Refusal, _ context: ServiceRequestContext) {
    switch refusal {
    case .ledgerUnavailable(let cause): self = context.unavailable(cause)
    case .noKey: self.init(.notFound, "This service signs no offers: no key for them is in its configuration.")
    case .unknownOffer: self.init(.notFound, "The catalog has no such offer of this product.")
    case .notForUser(let audiences): self.init(.offerNotForUser, "The offer is for users \(audiences.sentence).")
    case .unknownApp:
      self.init(.malformedRequest, "'bundle_id' has to name the app, which is one of app_store.bundle_ids.")
    case .noTransaction:
      self.init(
        .malformedRequest,
        "'transaction_id' is missing: no purchase of this user at the App Store is known; send the app transaction ID.")
    case .signingFailed:
      context.logger.error("an offer cannot be signed")
      self.init(.internalError, "The offer could not be signed; try again.")
    }
  }
}

extension Set<OfferAudience> {
  /// `who have bought nothing, or with the tier 'pro'`
  fileprivate var sentence: String {
    let tiers = compactMap { if case .tier(let tier) = $0 { "'\(tier)'" } else { nil } }.sorted()
    let parts = [
      contains(.never) ? "who have bought nothing" : nil,
      contains(.expired) ? "whose purchases are over" : nil,
      tiers.isEmpty ? nil : "with a purchase of the tier \(tiers.joined(separator: " or "))",
    ]
    return parts.compactMap(\.self).joined(separator: ", or ")
  }
}
