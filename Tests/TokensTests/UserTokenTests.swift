import Crypto
import Entitlements
import Foundation
import HTTPTransport
import Logging
import TestSupport
import Testing
import _CryptoExtras

@testable import Tokens

/// Which tokens name a user, and why the others do not.
@Suite struct UserTokenTests {
  static let now = Date(timeIntervalSince1970: 1_718_452_800.123_456_789)
  static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

  /// Keys that take time to make.
  private struct Keys: Sendable {
    let ec = P256.Signing.PrivateKey()
    let rsa: _RSA.Signing.PrivateKey
    let stranger = P256.Signing.PrivateKey()
  }
  private static let keys = Result { Keys(rsa: try _RSA.Signing.PrivateKey(keySize: .bits2048)) }

  private static func claims(_ changes: [String: String?] = [:]) -> String {
    let now = Int(Self.now.timeIntervalSince1970)
    var members: [String: String] = [
      "sub": "\"\(user)\"", "exp": "\(now + 3600)", "iat": "\(now - 5)", "aud": "\"authenticated\"",
      "iss": "\"https://issuer.test\"", "role": "\"authenticated\"",
    ]
    for (name, value) in changes { members[name] = value }
    return "{" + members.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
  }

  /// Of a provider with a shared secret, an EC key `ec`, an RSA key `rsa`, and two keys that share the ID `twice`.
  private static func verifier(issuer: String? = nil, audience: String? = nil) throws -> UserTokenVerifier {
    let keys = try keys.get()
    let twice = [P256.Signing.PrivateKey(), P256.Signing.PrivateKey()].map { TokenMint.jwk($0.publicKey, id: "twice") }
    let set = TokenMint.set(
      [TokenMint.jwk(keys.ec.publicKey, id: "ec"), try TokenMint.jwk(keys.rsa.publicKey, id: "rsa")] + twice)
    let transport = StubTransport { _ in TransportResponse(status: 200, body: Array(set.utf8)) }
    return UserTokenVerifier(
      secret: try TokenKey(secret: Secret(TokenMint.secret)),
      keySet: RemoteKeySet(
        url: "https://issuer.test/keys", transport: transport, logger: .silent, jitter: { _ in .zero }),
      rules: TokenRules(issuer: issuer, audience: audience, leeway: .seconds(30)), now: { now })
  }

  private static func outcome(
    _ token: String, issuer: String? = nil, audience: String? = nil
  ) async throws -> Result<UserID, TokenError> {
    let verifier = try verifier(issuer: issuer, audience: audience)
    do throws(TokenError) { return .success(try await verifier.user(presenting: token)) } catch {
      return .failure(error)
    }
  }

  @Test func `a token signed by any of the configured keys names its user`() async throws {
    let keys = try Self.keys.get()
    for token in [
      try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: Self.claims()),
      try TokenMint.token(header: #"{"alg":"HS256","kid":"anything","typ":"JWT"}"#, claims: Self.claims()),
      try TokenMint.token(header: #"{"alg":"ES256","kid":"ec"}"#, claims: Self.claims(), by: .es256(keys.ec)),
      try TokenMint.token(header: #"{"kid":"rsa","alg":"RS256"}"#, claims: Self.claims(), by: .rs256(keys.rsa)),
      // There is one RSA key, so that no ID is needed.
      try TokenMint.token(header: #"{"alg":"RS256"}"#, claims: Self.claims(), by: .rs256(keys.rsa)),
    ] { #expect(try await Self.outcome(token) == .success(UserID(Self.user))) }
  }

  @Test func `a key serves its own algorithm only`() async throws {
    let keys = try Self.keys.get()
    let pem = Data(keys.rsa.publicKey.pemRepresentation.utf8)
    let der = keys.rsa.publicKey.derRepresentation
    let point = keys.ec.publicKey.x963Representation
    func token(_ header: String, _ signer: TokenMint.Signer) throws -> String {
      try TokenMint.token(header: header, claims: Self.claims(), by: signer)
    }
    let cases: [(String, TokenRefusal)] = [
      // A public key's bytes as the secret.
      (try token(#"{"alg":"HS256","kid":"rsa"}"#, .hs256(pem)), .signature),
      (try token(#"{"alg":"HS256","kid":"rsa"}"#, .hs256(der)), .signature),
      (try token(#"{"alg":"HS256","kid":"ec"}"#, .hs256(point)), .signature),
      (try token(#"{"alg":"HS256"}"#, .hs256(Data())), .signature),
      // One algorithm's name over another's key and signature.
      (try token(#"{"alg":"RS256","kid":"ec"}"#, .es256(keys.ec)), .unknownKey),
      (try token(#"{"alg":"ES256","kid":"rsa"}"#, .rs256(keys.rsa)), .unknownKey),
      (try token(#"{"alg":"ES256","kid":"ec"}"#, .rs256(keys.rsa)), .signature),
      (try token(#"{"alg":"RS256","kid":"rsa"}"#, .es256(keys.ec)), .signature),
      (try token(#"{"alg":"RS256","kid":"rsa"}"#, TokenMint.shared), .signature),
      (try token(#"{"alg":"ES256","kid":"ec"}"#, TokenMint.shared), .signature),
      // Algorithms that nobody configured.
      (try token(#"{"alg":"none"}"#, .none("")), .malformed),
      (try token(#"{"alg":"none"}"#, .none("AA")), .algorithm),
      (try token(#"{"alg":"None"}"#, TokenMint.shared), .algorithm),
      (try token(#"{"alg":"hs256"}"#, TokenMint.shared), .algorithm),
      (try token(#"{"alg":"HS512"}"#, TokenMint.shared), .algorithm),
      (try token(#"{"alg":"PS256","kid":"rsa"}"#, .rs256(keys.rsa)), .algorithm),
      (try token(#"{"alg":"EdDSA","kid":"ec"}"#, .es256(keys.ec)), .algorithm),
      (try token(#"{"alg":""}"#, TokenMint.shared), .algorithm),
      // Keys that are not ours, or not one key.
      (try token(#"{"alg":"ES256","kid":"ec"}"#, .es256(keys.stranger)), .signature),
      (try token(#"{"alg":"ES256","kid":"../ec"}"#, .es256(keys.ec)), .unknownKey),
      (try token(#"{"alg":"ES256","kid":""}"#, .es256(keys.ec)), .unknownKey),
      (try token(#"{"alg":"ES256","kid":"twice"}"#, .es256(keys.ec)), .unknownKey),
      (try token(#"{"alg":"ES256"}"#, .es256(keys.ec)), .unknownKey),
      // A key that the token brings along.
      (
        try token(
          #"{"alg":"ES256","kid":"own","jwk":\#(TokenMint.jwk(keys.stranger.publicKey, id: "own"))}"#,
          .es256(keys.stranger)), .unknownKey
      ),
      (
        try token(#"{"alg":"ES256","kid":"own","jku":"https://evil.test/keys"}"#, .es256(keys.stranger)), .unknownKey
      ),
    ]
    for (token, refusal) in cases {
      #expect(try await Self.outcome(token) == .failure(.refused(refusal)), "\(token)")
    }
  }

  @Test func `a signature counts only in the form that its algorithm gives it`() async throws {
    let keys = try Self.keys.get()
    let modulus = try keys.rsa.publicKey.getKeyPrimitives().modulus
    func refusal(_ header: String, _ sign: (Data) throws -> Data) async throws -> Result<UserID, TokenError> {
      let signed = TokenMint.base64URL(Data(header.utf8)) + "." + TokenMint.base64URL(Data(Self.claims().utf8))
      return try await Self.outcome(signed + "." + TokenMint.base64URL(try sign(Data(signed.utf8))))
    }
    func es256(_ change: (Data) -> Data) async throws -> Result<UserID, TokenError> {
      try await refusal(#"{"alg":"ES256","kid":"ec"}"#) { change(try keys.ec.signature(for: $0).rawRepresentation) }
    }
    func rs256(_ change: (Data) -> Data) async throws -> Result<UserID, TokenError> {
      try await refusal(#"{"alg":"RS256","kid":"rsa"}"#) {
        change(try keys.rsa.signature(for: SHA256.hash(data: $0), padding: .insecurePKCS1v1_5).rawRepresentation)
      }
    }
    func hs256(_ key: Data, _ change: (Data) -> Data) async throws -> Result<UserID, TokenError> {
      try await refusal(#"{"alg":"HS256"}"#) {
        change(Data(HMAC<SHA256>.authenticationCode(for: $0, using: SymmetricKey(data: key))))
      }
    }
    let secret = Data(TokenMint.secret.utf8)
    for outcome in [try await es256 { $0 }, try await rs256 { $0 }, try await hs256(secret) { $0 }] {
      #expect(outcome == .success(UserID(Self.user)))
    }
    let zero = Data(repeating: 0, count: 32)
    let refused = [
      ("ES256 without its last octet", try await es256 { $0.dropLast() }),
      ("ES256 with an octet more", try await es256 { $0 + [0] }),
      ("ES256 with zeros in front", try await es256 { [0] + $0.prefix(32) + [0] + $0.suffix(32) }),
      ("ES256 where r is zero", try await es256 { zero + $0.suffix(32) }),
      ("ES256 where s is zero", try await es256 { $0.prefix(32) + zero }),
      ("ES256 of zeros", try await es256 { _ in zero + zero }),
      (
        "ES256 in DER",
        try await refusal(#"{"alg":"ES256","kid":"ec"}"#) { try keys.ec.signature(for: $0).derRepresentation }
      ),
      (
        "ES256 of another curve",
        try await refusal(#"{"alg":"ES256","kid":"ec"}"#) {
          try P384.Signing.PrivateKey().signature(for: $0).rawRepresentation
        }
      ),
      ("RS256 without its last octet", try await rs256 { $0.dropLast() }),
      ("RS256 with a zero in front", try await rs256 { [0] + $0 }),
      ("RS256 of zeros", try await rs256 { Data(repeating: 0, count: $0.count) }),
      ("RS256 of one", try await rs256 { Data(repeating: 0, count: $0.count - 1) + [1] }),
      (
        "RS256 padded as PS256",
        try await refusal(#"{"alg":"RS256","kid":"rsa"}"#) {
          try keys.rsa.signature(for: SHA256.hash(data: $0), padding: .PSS).rawRepresentation
        }
      ),
      (
        "RS256 with another digest",
        try await refusal(#"{"alg":"RS256","kid":"rsa"}"#) {
          try keys.rsa.signature(for: SHA512.hash(data: $0), padding: .insecurePKCS1v1_5).rawRepresentation
        }
      ),
      ("HS256 cut to 16 octets", try await hs256(secret) { $0.prefix(16) }),
      ("HS256 with an octet more", try await hs256(secret) { $0 + [0] }),
      ("HS256 with a public modulus", try await hs256(modulus) { $0 }),
    ]
    for (name, outcome) in refused { #expect(outcome == .failure(.refused(.signature)), "\(name)") }
  }

  @Test func `a key is refused that is weak, or of another curve`() throws {
    let weak = try _RSA.Signing.PrivateKey(unsafeKeySize: .init(bitCount: 1_024)).publicKey.getKeyPrimitives()
    let strong = try Self.keys.get().rsa.publicKey.getKeyPrimitives()
    func text(_ number: Data) -> String { TokenMint.base64URL(number) }
    #expect(throws: SignatureKey.Invalid.invalid) {
      try SignatureKey(modulus: text(weak.modulus), exponent: text(weak.publicExponent))
    }
    #expect(throws: SignatureKey.Invalid.invalid) {
      try SignatureKey(modulus: text(Data(count: 128) + weak.modulus), exponent: text(weak.publicExponent))
    }
    #expect(throws: SignatureKey.Invalid.invalid) { try SignatureKey(modulus: text(strong.modulus), exponent: "AQ") }
    #expect(throws: SignatureKey.Invalid.invalid) { try SignatureKey(modulus: "", exponent: "AQAB") }
    let point = P384.Signing.PrivateKey().publicKey.rawRepresentation
    #expect(throws: SignatureKey.Invalid.invalid) {
      try SignatureKey(x: text(point.prefix(48)), y: text(point.suffix(48)))
    }
    #expect(throws: SignatureKey.Invalid.invalid) { try SignatureKey(secret: String(repeating: "a", count: 31)) }
    #expect(try SignatureKey(secret: String(repeating: "a", count: 32)).algorithm == .hs256)
    #expect(try SignatureKey(modulus: text(strong.modulus) + "==", exponent: "AQAB").algorithm == .rs256)
  }

  @Test func `a text that is not exactly a signed token is refused`() async throws {
    let good = try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: Self.claims())
    let parts = good.split(separator: ".").map(String.init)
    try #require(parts.count == 3)
    func header(_ json: String) throws -> String { try TokenMint.token(header: json, claims: Self.claims()) }
    func body(_ json: String) throws -> String { try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: json) }
    let cases: [(String, TokenRefusal)] = [
      ("..", .malformed), ("a.b.c", .malformed), (".\(parts[1]).\(parts[2])", .malformed),
      ("\(parts[0])..\(parts[2])", .malformed), ("\(parts[0]).\(parts[1]).", .malformed),
      (good + "=", .malformed), (good + " ", .malformed), (good + "\u{e9}", .malformed),
      ("\(parts[0]).\(parts[1]).\(parts[2].dropLast())", .malformed),
      ("\(parts[0]).\(parts[1]).\(parts[2].dropLast(3))", .signature),
      ("\(parts[0]).\(parts[1]).\(parts[2])AAAA", .signature),
      ("\(parts[0]).\(parts[1])AAAA.\(parts[2])", .signature),
      (String(repeating: "a", count: UserToken.longest) + "..", .tooLong),
      (try header(#"{"alg":"HS256","crit":["exp"],"exp":1}"#), .critical),
      (try header(#"{"alg":"HS256","crit":[]}"#), .critical),
      (try header(#"{"alg":"HS256","crit":null}"#), .critical),
      (try header(#"{"alg":"HS256","b64":false,"crit":["b64"]}"#), .critical),
      (try header(#"{"alg":"HS256","alg":"none"}"#), .unreadable),
      (try header(#"{"alg":"HS256","\u0061lg":"none"}"#), .unreadable),
      (try header(#"{"alg":["HS256"]}"#), .unreadable), (try header("{}"), .unreadable),
      (try header(#"{"alg":"HS256","kid":7}"#), .unreadable), (try header(#"["HS256"]"#), .unreadable),
      (try header(#"{"alg":"HS256"} {}"#), .unreadable), (try header(#"{"alg":"HS256",}"#), .unreadable),
      (try body("\u{FEFF}" + Self.claims()), .unreadable),
      (try body(String(Self.claims().dropLast()) + ",}"), .unreadable),
      (try body(#"{"sub":"a","sub":"b","exp":9999999999}"#), .unreadable),
      (try body(#"{"sub":"a","exp":1e999}"#), .unreadable), (try body("null"), .unreadable),
      (try body("{\"sub\":\"a\0\",\"exp\":9999999999}"), .unreadable),
      (try body(String(repeating: "[", count: 2_000)), .unreadable),
    ]
    for (token, refusal) in cases {
      #expect(try await Self.outcome(token) == .failure(.refused(refusal)), "\(token.prefix(200))")
    }
  }

  /// Changed claims, and what becomes of them.
  private static let claimCases: [(changes: [String: String?], refusal: TokenRefusal?)] = {
    let now = Int(Self.now.timeIntervalSince1970)
    return [
      (["exp": nil], .noExpiry), (["exp": "null"], .noExpiry), (["exp": "\"\(now + 60)\""], .unreadable),
      (["exp": "true"], .unreadable), (["exp": "0"], .expired), (["exp": "-1"], .expired),
      (["exp": "\(now - 30)"], .expired), (["exp": "\(now - 29)"], nil), (["exp": "\(now - 29).5"], nil),
      (["exp": "1e18"], nil),
      (["nbf": "\(now + 30)"], nil), (["nbf": "\(now + 31)"], .notYetValid), (["nbf": "\"x\""], .unreadable),
      (["iat": "\(now + 30)"], nil), (["iat": "\(now + 31)"], .notYetValid), (["iat": nil], nil),
      (["sub": nil], .noSubject), (["sub": "\"\""], .noSubject), (["sub": "\"me\""], .noSubject),
      (["sub": "\"undefined\""], .noSubject),
      (["sub": "\"a b\""], .noSubject), (["sub": "\"a/b\""], .noSubject), (["sub": "7"], .unreadable),
      (["sub": "\"\(String(repeating: "a", count: 129))\""], .noSubject), (["sub": "\"auth0|12\""], nil),
      (["sub": "\"anna#1~\u{e9}\""], nil), (["sub": "\"anna#1~e\u{301}\""], .noSubject),
      (["sub": "\"\u{212a}arl\""], .noSubject), (["sub": "\"erased/00ff\""], .noSubject),
      (["sub": "\"\(String(repeating: "\u{e9}", count: 101))\""], .noSubject),
      (["role": "\"anon\""], .role), (["role": "\"service_role\""], .role),
      (["role": "[\"editor\",\"service_role\"]"], .role), (["role": "[\"editor\"]"], nil), (["role": "7"], nil),
      (["role": nil], nil),
    ]
  }()

  @Test(arguments: claimCases.indices)
  func `claims count within their times, for one subject that is a user`(index: Int) async throws {
    let (changes, refusal) = Self.claimCases[index]
    let outcome = try await Self.outcome(
      try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: Self.claims(changes)))
    switch outcome {
    case .success: #expect(refusal == nil, "\(changes)")
    case .failure(let error): #expect(refusal.map(TokenError.refused) == error, "\(changes)")
    }
  }

  @Test(arguments: [
    ("\"authenticated\"", true), ("[\"other\",\"authenticated\"]", true), ("[]", false), ("\"Authenticated\"", false),
    ("[\"other\"]", false), ("null", false),
  ])
  func `the audience has to be among those of the token`(audience: String, isTaken: Bool) async throws {
    let token = try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: Self.claims(["aud": audience]))
    let outcome = try await Self.outcome(token, audience: "authenticated")
    #expect(outcome == (isTaken ? .success(UserID(Self.user)) : .failure(.refused(.audience))))
    #expect(try await Self.outcome(token) == .success(UserID(Self.user)), "without one configured any will do")
  }

  @Test(arguments: [
    ("\"https://issuer.test\"", true), ("\"https://issuer.test/\"", false), ("\"HTTPS://issuer.test\"", false),
    ("null", false),
  ])
  func `the issuer has to be the one`(issuer: String, isTaken: Bool) async throws {
    let token = try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: Self.claims(["iss": issuer]))
    let outcome = try await Self.outcome(token, issuer: "https://issuer.test")
    #expect(outcome == (isTaken ? .success(UserID(Self.user)) : .failure(.refused(.issuer))))
  }

  @Test func `a key set alone takes no shared secret, and a secret alone no published key`() async throws {
    let keys = try Self.keys.get()
    var verifier = try Self.verifier()
    verifier.secret = nil
    await #expect(throws: TokenError.refused(.algorithm)) {
      try await verifier.user(presenting: try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: Self.claims()))
    }
    verifier = try Self.verifier()
    verifier.keySet = nil
    await #expect(throws: TokenError.refused(.algorithm)) {
      try await verifier.user(
        presenting: try TokenMint.token(
          header: #"{"alg":"ES256","kid":"ec"}"#, claims: Self.claims(), by: .es256(keys.ec)))
    }
  }
}

extension Logger {
  static var silent: Logger { Logger(label: "silent") { _ in SwiftLogNoOpLogHandler() } }
}
