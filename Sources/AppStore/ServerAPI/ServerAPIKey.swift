package import Cryptography
import Entitlements
import JSON
import struct FoundationEssentials.Date

/// A key of App Store Connect of the kind "In-App Purchase", which identifies us to the App Store Server API.
///
/// Its parts are safe to put into a token; the initializer checks them.
///
/// https://developer.apple.com/documentation/appstoreserverapi/creating-api-keys-to-authorize-api-requests
package struct ServerAPIKey: Sendable {
  /// The invalid part, as a sentence for the operator without any of the key.
  package enum Fault: Error, Hashable, Sendable, CustomStringConvertible {
    case keyID, issuerID

    package var description: String {
      switch self {
      case .keyID: "The key ID is not one of App Store Connect's: letters and digits only, such as 2X9R4HXF34."
      case .issuerID:
        "The issuer ID is not one of App Store Connect's: a UUID, such as 57246542-96fe-1a63-e053-0824d011072a."
      }
    }
  }

  /// `kid` of the token.
  let keyID: String
  /// `iss` of the token.
  let issuerID: String
  package let key: ES256PrivateKey

  package init(keyID: String, issuerID: String, key: ES256PrivateKey) throws(Fault) {
    // Apple's key IDs have 10 characters, which nothing promises. Only impossible IDs are refused: a path, a name, a
    // key.
    guard (1...64).contains(keyID.utf8.count), keyID.utf8.allSatisfy({ $0.isLetter || $0.isDigit })
    else { throw .keyID }
    guard Self.isUUID(issuerID) else { throw .issuerID }
    self.keyID = keyID
    self.issuerID = issuerID
    self.key = key
  }

  private static func isUUID(_ text: String) -> Bool {
    let groups = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
    return groups.map(\.count) == [8, 4, 4, 4, 12] && groups.joined().allSatisfy(\.isHexadecimalDigit)
  }
}

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
