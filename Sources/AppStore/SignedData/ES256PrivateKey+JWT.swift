import Cryptography
import JSON

extension ES256PrivateKey {
  /// A JWT in the compact form (RFC 7519, RFC 7515).
  func jwt(keyID: String, _ addClaims: (inout JSONWriter) -> Void) throws(Failure) -> String {
    let header = JSONWriter.object { header in
      header.member("alg", "ES256")
      header.member("kid", keyID)
      header.member("typ", "JWT")
    }
    let signed = "\(Base64URL.encode(header)).\(Base64URL.encode(JSONWriter.object(addClaims)))"
    return "\(signed).\(Base64URL.encode(try sign(Array(signed.utf8))))"
  }
}
