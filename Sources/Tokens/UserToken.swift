import FoundationEssentials
import JSON

/// The reason why a token names no user of ours. For the log only: a caller gets the same answer for all of them.
package enum TokenRefusal: String, Error, Hashable, Sendable {
  case notConfigured = "no user tokens are configured"
  case malformed = "not a signed token in three parts of base64url"
  case tooLong = "longer than any token needs to be"
  case unreadable = "header or claims are not a plain JSON object of the usual shape"
  case critical = "the header has a crit member"
  case accessToken = "a signed access token, which is no credential"
  case algorithm = "the algorithm is none that is configured"
  case unknownKey = "no key of this ID and algorithm"
  case signature = "the signature does not match"
  case noExpiry = "no exp"
  case expired = "expired"
  case notYetValid = "nbf or iat is in the future"
  case audience = "of another audience"
  case issuer = "of another issuer"
  case role = "of the role anon or service_role, which is no user's"
  case noSubject = "no sub that could be a user's ID"
}

/// A parsed signed token (RFC 7515, section 7.1: the compact serialization); not verified yet.
package struct UserToken {
  /// Bytes. Supabase's have around 1 000; a request's header is limited to 16 384.
  package static let longest = 8_192

  /// `alg` of the header, as written.
  let algorithm: String
  let keyID: String?
  /// The signed text: header and payload in base64url, and the dot between.
  let signed: [UInt8]
  let payload: [UInt8]
  let signature: [UInt8]

  package init(_ text: String) throws(TokenRefusal) {
    guard text.utf8.count <= Self.longest else { throw .tooLong }
    let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3, !parts.contains(where: \.isEmpty), let header = Base64URL.decode(parts[0]),
      let payload = Base64URL.decode(parts[1]),
      let signature = Base64URL.decode(parts[2])
    else { throw .malformed }
    let fields = try Self.object(Header.self, in: header)
    // Critical extensions have to be understood (RFC 7515, section 4.1.11), and none is supported here.
    guard !fields.hasCritical else { throw .critical }
    // An operator who lists our own keys as an issuer's would otherwise make a credential of it.
    guard fields.type?.lowercased() != AccessToken.type else { throw .accessToken }
    algorithm = fields.algorithm
    keyID = fields.keyID
    signed = Array(text.utf8.prefix(parts[0].count + 1 + parts[1].count))
    self.payload = payload
    self.signature = signature
  }

  /// The claims. Trust them only after the signature was verified.
  func claims() throws(TokenRefusal) -> TokenClaims { try Self.object(TokenClaims.self, in: payload) }

  /// `jku`, `jwk`, `x5u` and `x5c` name a key to trust, and are ignored: trusted keys are configured.
  private struct Header: Decodable {
    var algorithm: String
    var keyID: String?
    var type: String?
    var hasCritical: Bool

    enum CodingKeys: String, CodingKey {
      case algorithm = "alg"
      case keyID = "kid"
      case type = "typ"
      case critical = "crit"
    }

    init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: CodingKeys.self)
      algorithm = try container.decode(String.self, forKey: .algorithm)
      keyID = try container.decodeIfPresent(String.self, forKey: .keyID)
      type = try container.decodeIfPresent(String.self, forKey: .type)
      hasCritical = container.contains(.critical)
    }
  }

  /// - Throws: also for duplicate members, which a previous reader of the token may have resolved differently (RFC
  ///   7519, section 4).
  private static func object<Value: Decodable>(_ type: Value.Type, in json: [UInt8]) throws(TokenRefusal) -> Value {
    guard json.withUnsafeBytes(\.isUTF8Text) else { throw .unreadable }
    let value: Value
    do { value = try JSONDecoder().decode(type, from: Data(json)) } catch { throw .unreadable }
    guard json.withUnsafeBytes(JSONAmbiguity.first) == nil else { throw .unreadable }
    return value
  }
}
