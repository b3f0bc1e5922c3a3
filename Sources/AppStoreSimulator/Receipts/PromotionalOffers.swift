import FoundationEssentials
import Synchronization

/// A promotional offer as an app gives it to StoreKit: as a JWS, or in the former form.
struct SignedOffer: Decodable, Hashable, Sendable {
  var jws: String?
  var offerID: String?
  var keyID: String?
  var nonce: String?
  /// Milliseconds since 1970.
  var timestamp: Int64?
  /// In base64.
  var signature: String?

  enum CodingKeys: String, CodingKey {
    case jws, nonce, timestamp, signature
    case offerID = "offer_id"
    case keyID = "key_id"
  }
}

/// Checks promotional offers, and who may have an introductory one, as the store does at a purchase. Each nonce is good for
/// one, even one that fails.
///
///     jws     header  alg ES256, kid the key's ID, typ JWT
///             claims  iss the issuer's ID, aud promotional-offer, bid, iat, nonce, productId, offerIdentifier, and
///                     transactionId, one of the customer's
///                     aud introductory-offer-eligibility: allowIntroductoryOffer, and transactionId always
///     former  ECDSA with SHA-256 in DER over app, key, product, offer, account, nonce and timestamp, U+2063 between them
final class PromotionalOffers: Sendable {
  private struct Claims: Decodable {
    var iss: String
    var iat: Int64
    var aud: String
    var bid: String
    var nonce: String
    var productId: String
    var offerIdentifier: String?
    var allowIntroductoryOffer: Bool?
    var transactionId: String?
  }

  private static let lifetime: Int64 = 24 * 3_600
  private static let noncesLimit = 10_000

  private let bearers: DevelopmentBearers
  private let key: SigningKey
  private let nonces = Mutex<Set<String>>([])

  init(startedAt: Timestamp) throws {
    key = try SigningKey(pem: DevelopmentKeys.serverAPIKey)
    bearers = try DevelopmentBearers(
      key: DevelopmentKeys.serverAPIKey, keyID: DeveloperTokens.keyID, startedAt: startedAt)
  }

  /// - Returns: the offer's identifier.
  func accept(
    _ offer: SignedOffer, of product: Product, for seed: ReceiptSeed, at now: Timestamp
  ) throws(IssueError) -> String {
    if let jws = offer.jws {
      let claims = try read(jws, "promotional-offer", product, seed, at: now)
      guard let id = claims.offerIdentifier else { throw .offer("it names no offer") }
      return id
    }
    let (id, nonce, issuedAt) = try former(offer, product, seed)
    try spend(nonce, issuedAt: issuedAt, at: now)
    return id
  }

  /// - Parameter eligibility: a JWS for `introductoryOfferEligibility(compactJWS:)`.
  /// - Returns: whether the customer may have the introductory offer.
  func accept(
    eligibility jws: String, of product: Product, for seed: ReceiptSeed, at now: Timestamp
  ) throws(IssueError) -> Bool {
    let claims = try read(jws, "introductory-offer-eligibility", product, seed, at: now)
    guard let isAllowed = claims.allowIntroductoryOffer, claims.transactionId != nil else {
      throw .offer("it does not say whether the customer may have it, or which customer")
    }
    return isAllowed
  }

  private func spend(_ nonce: String, issuedAt: Int64, at now: Timestamp) throws(IssueError) {
    guard UUID(uuidString: nonce) != nil, nonce == nonce.lowercased() else { throw .offer("its nonce is no UUID") }
    let isNew = nonces.withLock { nonces in
      if nonces.count >= Self.noncesLimit { nonces.removeAll() }
      return nonces.insert(nonce).inserted
    }
    guard isNew else { throw .offer("its nonce was used before") }
    guard bearers.isTimely(issuedAt: issuedAt, expiry: issuedAt + Self.lifetime, now: now) else {
      throw .offer("it was not signed within 24 hours")
    }
  }

  private func read(
    _ jws: String, _ audience: String, _ product: Product, _ seed: ReceiptSeed, at now: Timestamp
  ) throws(IssueError) -> Claims {
    guard let (header, claims): (DevelopmentBearers.Header, Claims) = bearers.read("Bearer \(jws)"),
      header.typ == "JWT"
    else { throw .offer("its signature is wrong") }
    guard claims.iss == DeveloperTokens.issuerID, claims.aud == audience, claims.bid == seed.bundleID,
      claims.productId == product.id
    else { throw .offer("it is for another app or product") }
    if let id = claims.transactionId, id != seed.appTransactionID,
      ReceiptSeed.parts(ofTransactionID: id)?.subscriber != seed.subscriber
    {
      throw .offer("it is for another customer")
    }
    try spend(claims.nonce, issuedAt: claims.iat, at: now)
    return claims
  }

  private func former(
    _ offer: SignedOffer, _ product: Product, _ seed: ReceiptSeed
  ) throws(IssueError) -> (id: String, nonce: String, issuedAt: Int64) {
    guard let id = offer.offerID, let nonce = offer.nonce, let timestamp = offer.timestamp,
      let signature = offer.signature.flatMap({ Data(base64Encoded: $0) }), offer.keyID == DeveloperTokens.keyID
    else { throw .offer("a member of it is missing, or its key is unknown") }
    let signed = [
      seed.bundleID, DeveloperTokens.keyID, product.id, id, seed.appAccountToken ?? "", nonce, String(timestamp),
    ].joined(separator: "\u{2063}")
    guard key.hasMade(Array(signature), over: Array(signed.utf8)) else {
      throw .offer("its signature is wrong: every part counts, also the account token of the purchase")
    }
    return (id, nonce, timestamp / Timestamp.second)
  }
}
