package import Cryptography
package import Entitlements
package import FoundationEssentials
import JSON

/// Signs subscription offers for StoreKit, with a key of App Store Connect of the kind "In-App Purchase".
///
/// Apple takes each nonce for one purchase.
///
/// https://developer.apple.com/documentation/storekit/generating-jws-to-sign-app-store-requests
package struct OfferSigner: Sendable {
  private let key: ServerAPIKey

  package init(key: ServerAPIKey) { self.key = key }

  package var keyID: String { key.keyID }

  /// A promotional offer as a JWS, for `Product.PurchaseOption.promotionalOffer(_:compactJWS:)`.
  ///
  /// - Parameter transaction: any of the customer's, or the ID of the customer's download; Apple recommends one.
  package func promotionalOffer(
    _ offer: String, of product: ProductID, in app: BundleID, for transaction: TransactionID?, nonce: UUID,
    at now: Date
  ) throws(ES256PrivateKey.Failure) -> String {
    try jws("promotional-offer", in: app, nonce: nonce, at: now) { claims in
      claims.member("productId", product.rawValue)
      claims.member("offerIdentifier", offer)
      claims.member("transactionId", ifPresent: transaction?.rawValue)
    }
  }

  /// Whether a customer gets the introductory offer as a JWS, for
  /// `Product.PurchaseOption.introductoryOfferEligibility(compactJWS:)`.
  package func introductoryOffer(
    isAllowed: Bool, of product: ProductID, in app: BundleID, for transaction: TransactionID, nonce: UUID, at now: Date
  ) throws(ES256PrivateKey.Failure) -> String {
    try jws("introductory-offer-eligibility", in: app, nonce: nonce, at: now) { claims in
      claims.member("productId", product.rawValue)
      claims.member("allowIntroductoryOffer", isAllowed)
      claims.member("transactionId", transaction.rawValue)
    }
  }

  private func jws(
    _ audience: String, in app: BundleID, nonce: UUID, at now: Date, _ addClaims: (inout JSONWriter) -> Void
  ) throws(ES256PrivateKey.Failure) -> String {
    try key.key.jwt(keyID: key.keyID) { claims in
      claims.member("iss", key.issuerID)
      claims.member("iat", Int64(now.timeIntervalSince1970.rounded(.down)))
      claims.member("aud", audience)
      claims.member("bid", app.rawValue)
      claims.member("nonce", nonce.uuidString.lowercased())
      addClaims(&claims)
    }
  }

  /// A promotional offer in the former form, for `SKPaymentDiscount` and
  /// `Product.PurchaseOption.promotionalOffer(offerID:keyID:nonce:signature:timestamp:)`. Apple takes it for 24 hours.
  ///
  /// https://developer.apple.com/documentation/storekit/generating-a-signature-for-promotional-offers
  /// - Parameter account: the `appAccountToken` or `applicationUsername` of the purchase; empty where it has none.
  package func formerSignature(
    of offer: String, of product: ProductID, in app: BundleID, for account: String, nonce: UUID, at now: Date
  ) throws(ES256PrivateKey.Failure) -> FormerOfferSignature {
    let nonce = nonce.uuidString.lowercased()
    let timestamp = Int64((now.timeIntervalSince1970 * 1000).rounded(.down))
    let signed = [
      app.rawValue, key.keyID, product.rawValue, offer, account.lowercased(), nonce, String(timestamp),
    ].joined(separator: "\u{2063}")
    return FormerOfferSignature(
      nonce: nonce, timestamp: timestamp,
      signature: Data(try key.key.signInDER(Array(signed.utf8))).base64EncodedString())
  }
}

/// The former form of a promotional offer's signature.
package struct FormerOfferSignature: Hashable, Sendable {
  package var nonce: String
  /// Milliseconds since 1970.
  package var timestamp: Int64
  /// In base64.
  package var signature: String
}
