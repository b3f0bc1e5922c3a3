import CountersignAPI
import Foundation

/// An offer with which a user buys a subscription.
public enum PurchaseOffer: Hashable, Sendable {
  /// By its identifier in App Store Connect.
  case promotional(String)
  /// The introductory offer, by the word of the service's catalog in place of the App Store's own rule.
  ///
  /// - Parameter transactionID: of a user who has bought nothing: `AppTransaction.shared`'s `appTransactionID`.
  case introductory(transactionID: String? = nil)
  /// By its identifier in App Store Connect. On iOS 18 and later.
  case winBack(String)
}

extension CountersignClient {
  /// The offers that the user may have now: by the service's catalog, and the win-back offers that Apple named.
  ///
  ///     if let offer = try await client.offers().promotional.first {
  ///       try await client.purchase(offer.productID, offer: .promotional(offer.offerID))
  ///     }
  public func offers() async throws -> OffersResponse {
    try checkSignedIn()
    return try await service.send("GET", "/v1/profiles/me/offers").decoded(OffersResponse.self, now: options.now())
  }

  /// Each signature is for one purchase, also one that fails.
  func sign(_ offer: PurchaseOffer?, of productID: String) async throws -> StoreOffer? {
    do { return try await signed(offer, of: productID) } catch CountersignError.later {
      // `later` would tell the user that something was bought and is kept.
      throw CountersignError.refused(code: "offer_not_signed", detail: "The service is away, and signs no offer.")
    }
  }

  private func signed(_ offer: PurchaseOffer?, of productID: String) async throws -> StoreOffer? {
    switch offer {
    case nil: return nil
    case .winBack(let id): return .winBack(id: id)
    case .promotional(let id):
      let response = try await service.send(
        "POST", "/v1/offers/promotional", body: OfferRequest(productID: productID, offerID: id))
      return .promotional(
        id: id, jws: try response.decoded(PromotionalOfferResponse.self, now: options.now()).jws)
    case .introductory(let transactionID):
      let response = try await service.send(
        "POST", "/v1/offers/introductory", body: OfferRequest(productID: productID, transactionID: transactionID))
      return .introductory(jws: try response.decoded(IntroductoryOfferResponse.self, now: options.now()).jws)
    }
  }
}
