package import Crypto
package import Foundation
package import _CryptoExtras

/// Makes users' tokens, right ones and wrong ones, as a provider of a test's own.
package struct TokenMint: Sendable {
  package static let secret = "a-secret-of-tests-that-is-long-enough"

  package enum Signer: Sendable {
    case hs256(Data)
    case es256(P256.Signing.PrivateKey)
    case rs256(_RSA.Signing.PrivateKey)
    /// The text itself in the signature's place.
    case none(String)
  }

  package static let shared = Signer.hs256(Data(secret.utf8))

  /// A compact JWS.
  ///
  /// - Parameters:
  ///   - header: JSON, as it stands.
  ///   - claims: JSON, as it stands.
  package static func token(header: String, claims: String, by signer: Signer = shared) throws -> String {
    let signed = base64URL(Data(header.utf8)) + "." + base64URL(Data(claims.utf8))
    let bytes = Data(signed.utf8)
    let signature =
      switch signer {
      case .hs256(let key): base64URL(Data(HMAC<SHA256>.authenticationCode(for: bytes, using: SymmetricKey(data: key))))
      case .es256(let key): base64URL(try key.signature(for: bytes).rawRepresentation)
      case .rs256(let key):
        base64URL(try key.signature(for: SHA256.hash(data: bytes), padding: .insecurePKCS1v1_5).rawRepresentation)
      case .none(let text): text
      }
    return signed + "." + signature
  }

  /// A user's token as Supabase's legacy secret signs it.
  package static func user(
    _ subject: String, at moment: Date, lifetime: TimeInterval = 3600, role: String = "authenticated"
  ) throws -> String {
    let now = Int(moment.timeIntervalSince1970)
    return try token(
      header: #"{"alg":"HS256","kid":"legacy","typ":"JWT"}"#,
      claims: """
        {"iss":"https://project.supabase.co/auth/v1","sub":"\(subject)","aud":"authenticated",\
        "exp":\(now + Int(lifetime)),"iat":\(now),"role":"\(role)","is_anonymous":false,"app_metadata":{"a":1}}
        """)
  }

  package static func base64URL(_ data: Data) -> String {
    data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }

  /// A member of a JWK Set.
  package static func jwk(_ key: P256.Signing.PublicKey, id: String?, extra: String = "") -> String {
    let raw = key.rawRepresentation
    let kid = id.map { #""kid":"\#($0)","# } ?? ""
    return #"{"kty":"EC","crv":"P-256",\#(kid)\#(extra)"x":"\#(base64URL(raw.prefix(32)))","#
      + #""y":"\#(base64URL(raw.suffix(32)))"}"#
  }

  package static func jwk(_ key: _RSA.Signing.PublicKey, id: String, extra: String = "") throws -> String {
    let numbers = try key.getKeyPrimitives()
    return #"{"kty":"RSA","kid":"\#(id)",\#(extra)"n":"\#(base64URL(numbers.modulus))","#
      + #""e":"\#(base64URL(numbers.publicExponent))"}"#
  }

  package static func set(_ keys: [String]) -> String { #"{"keys":[\#(keys.joined(separator: ","))]}"# }
}
