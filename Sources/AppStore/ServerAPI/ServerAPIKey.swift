/// What the App Store Server API knows us by: a key of App Store Connect, of the kind "In-App Purchase".
///
/// Its parts are safe to put into a token as they are; the initialiser is the check.
///
/// https://developer.apple.com/documentation/appstoreserverapi/creating-api-keys-to-authorize-api-requests
package struct ServerAPIKey: Sendable {
  /// A sentence for the operator on which part cannot be right. It quotes nothing of the key.
  package enum Fault: Error, Hashable, Sendable, CustomStringConvertible {
    case keyID
    case issuerID

    package var description: String {
      switch self {
      case .keyID:
        "The key ID is not one of App Store Connect's: letters and digits only, such as 2X9R4HXF34."
      case .issuerID:
        "The issuer ID is not one of App Store Connect's: a UUID, such as 57246542-96fe-1a63-e053-0824d011072a."
      }
    }
  }

  /// `kid` of the token.
  package let keyID: String
  /// `iss` of the token.
  package let issuerID: String
  package let key: ES256Key

  package init(keyID: String, issuerID: String, key: ES256Key) throws(Fault) {
    // Apple's have 10 characters. Nothing promises that, so only what no ID can be is refused: a path, a name, a whole key.
    guard (1...64).contains(keyID.utf8.count), keyID.utf8.allSatisfy(Self.isLetterOrDigit) else { throw .keyID }
    guard Self.isUUID(issuerID) else { throw .issuerID }
    self.keyID = keyID
    self.issuerID = issuerID
    self.key = key
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: false
    }
  }

  private static func isUUID(_ text: String) -> Bool {
    let groups = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
    return groups.map(\.count) == [8, 4, 4, 4, 12]
      && groups.allSatisfy { group in
        group.allSatisfy { isLetterOrDigit($0) && ($0 < UInt8(ascii: "A") || (0x61...0x66).contains($0 | 0x20)) }
      }
  }
}
