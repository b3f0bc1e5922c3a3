import Cryptography
import Entitlements
import JSON

import struct FoundationEssentials.Date

/// The tokens of the App Store Server API, each for one app.
///
/// Apple allows an hour at most; a shorter life costs a signature more often and limits the use of a stolen token.
///
/// https://developer.apple.com/documentation/appstoreserverapi/generating-json-web-tokens-for-api-requests
extension ServerAPIKey {
  static let tokenLifetime: Int64 = 20 * 60

  func token(for bundleID: BundleID, now: Date) throws(ES256PrivateKey.Failure) -> DeveloperToken {
    try DeveloperToken(key: key, keyID: keyID, issuer: issuerID, lifetime: Self.tokenLifetime, now: now) {
      claims, expiry in
      claims.member("aud", "appstoreconnect-v1")
      claims.member("bid", bundleID.rawValue)
      claims.member("exp", expiry)
    }
  }
}
