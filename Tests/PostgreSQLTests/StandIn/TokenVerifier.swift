import Crypto
import Foundation

/// Who sends a request, by its token: HS256 with one secret, as PostgREST is usually configured.
struct TokenVerifier: Sendable {
  struct Identity: Sendable {
    var role: String
    /// As JSON, for `request.jwt.claims`.
    var claims: String
    var isAuthenticated: Bool
  }

  let secret: String
  /// Tokens are judged as of then.
  let now: @Sendable () -> Date
  /// How far clocks may differ, in seconds; PostgREST's own figure.
  static let leeway = 30.0

  func identity(authorization: String?) throws(APIError) -> Identity {
    guard let authorization, authorization.lowercased().hasPrefix("bearer ") || authorization.lowercased() == "bearer"
    else { return Identity(role: "anon", claims: #"{"role":"anon"}"#, isAuthenticated: false) }
    let token = authorization.dropFirst("bearer".count).trimmingCharacters(in: .whitespaces)
    guard !token.isEmpty else { throw .token("Empty JWT is sent in Authorization header") }
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3 else { throw .token("Expected 3 parts in JWT; got \(parts.count)") }
    let signed = Data("\(parts[0]).\(parts[1])".utf8)
    let key = SymmetricKey(data: Data(secret.utf8))
    guard let signature = Self.decode(parts[2]), let payload = Self.decode(parts[1]),
      HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: signed, using: key),
      let claims = try? JSONSerialization.jsonObject(with: payload) as? [String: Any]
    else {
      throw .token("No suitable key or wrong key type", details: "None of the keys was able to decode the JWT")
    }
    if let expiry = claims["exp"] as? Double, expiry + Self.leeway < now().timeIntervalSince1970 { throw .tokenExpired }
    guard let role = claims["role"] as? String else {
      return Identity(role: "anon", claims: String(decoding: payload, as: UTF8.self), isAuthenticated: false)
    }
    return Identity(role: role, claims: String(decoding: payload, as: UTF8.self), isAuthenticated: role != "anon")
  }

  /// Makes a token that this verifier takes.
  func token(claims: String) -> String {
    let signed = "\(Self.encode(Data(#"{"alg":"HS256","typ":"JWT"}"#.utf8))).\(Self.encode(Data(claims.utf8)))"
    let code = HMAC<SHA256>.authenticationCode(for: Data(signed.utf8), using: SymmetricKey(data: Data(secret.utf8)))
    return "\(signed).\(Self.encode(Data(code)))"
  }

  private static func encode(_ data: Data) -> String {
    data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }

  private static func decode(_ text: Substring) -> Data? {
    let standard = text.replacing("-", with: "+").replacing("_", with: "/")
    return Data(base64Encoded: standard + String(repeating: "=", count: (4 - standard.count % 4) % 4))
  }
}
