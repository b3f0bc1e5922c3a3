import HTTPTransport

extension ServiceConfiguration.Auth.JWT {
  /// Bytes. A key shorter than the hash can be brute-forced (RFC 7518, section 3.2).
  static let shortestSecret = 32

  /// Reads `auth.jwt`.
  ///
  /// - Returns: `nil` if users cannot call, and if anything is invalid, which is reported.
  static func read(_ reader: inout ConfigurationReader) -> Self? {
    let problemsBefore = reader.findings.problems.count
    let secret = reader.secret(.authJWTSecret)
    let keySetURL = reader.keySetURL(.authJWTKeySetURL)
    let issuer = reader.text(.authJWTIssuer)
    let audience = reader.text(.authJWTAudience)
    let leeway = reader.duration(.authJWTLeeway)
    if let secret, secret.exposed.utf8.count < shortestSecret {
      reader.findings.problem(
        ConfigurationKey.authJWTSecret.rawValue,
        "must have at least \(shortestSecret) characters: whoever finds it by trying can sign as any user")
    }
    guard reader.findings.problems.count == problemsBefore, let leeway else { return nil }
    guard secret != nil || keySetURL != nil else {
      for (key, value) in [(ConfigurationKey.authJWTIssuer, issuer), (.authJWTAudience, audience)] where value != nil {
        reader.findings.problem(
          reader.origin(of: key), "has no effect without auth.jwt.secret or auth.jwt.jwks_url; set one of them")
      }
      return nil
    }
    if keySetURL != nil, issuer == nil, audience == nil {
      reader.findings.warning(
        reader.origin(of: .authJWTKeySetURL),
        "every token signed by these keys counts, those made for other apps too; set auth.jwt.issuer and "
          + "auth.jwt.audience")
    }
    return Self(secret: secret, keySetURL: keySetURL, issuer: issuer, audience: audience, leeway: leeway)
  }
}
