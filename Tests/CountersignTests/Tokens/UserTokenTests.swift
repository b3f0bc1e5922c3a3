import Crypto
import Entitlements
import Foundation
import HTTPTransport
import Logging
import Testing
import _CryptoExtras

@testable import Countersign
@testable import Tokens

/// Which tokens name a user, and why the others do not.
@Suite struct UserTokenTests {
  static let now = Date(timeIntervalSince1970: 1_718_452_800)
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
  private static func verifier(issuer: String? = nil, audience: String? = nil) async throws -> UserTokenVerifier {
    let keys = try keys.get()
    let twice = [P256.Signing.PrivateKey(), P256.Signing.PrivateKey()].map { TokenMint.jwk($0.publicKey, id: "twice") }
    let set = TokenMint.set(
      [TokenMint.jwk(keys.ec.publicKey, id: "ec"), try TokenMint.jwk(keys.rsa.publicKey, id: "rsa")] + twice)
    let transport = StubTransport { _ in TransportResponse(status: 200, body: Array(set.utf8)) }
    return UserTokenVerifier(
      secret: try await TokenKey(secret: Secret(TokenMint.secret)),
      keySet: RemoteKeySet(
        url: "https://issuer.test/keys", transport: transport, logger: .silent, jitter: { _ in .zero }),
      rules: TokenRules(issuer: issuer, audience: audience, leeway: .seconds(30)), now: { now })
  }

  private static func outcome(
    _ token: String, issuer: String? = nil, audience: String? = nil
  ) async throws -> Result<UserID, TokenError> {
    let verifier = try await verifier(issuer: issuer, audience: audience)
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

  @Test func `a key never does what it is not for`() async throws {
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

  @Test func `what is not exactly a signed token is refused`() async throws {
    let good = try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: Self.claims())
    let parts = good.split(separator: ".").map(String.init)
    try #require(parts.count == 3)
    func header(_ json: String) throws -> String { try TokenMint.token(header: json, claims: Self.claims()) }
    func body(_ json: String) throws -> String { try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: json) }
    let cases: [(String, TokenRefusal)] = [
      ("..", .malformed), ("a.b.c", .malformed), (".\(parts[1]).\(parts[2])", .malformed),
      ("\(parts[0])..\(parts[2])", .malformed), ("\(parts[0]).\(parts[1]).", .malformed),
      (good + "=", .malformed), (good + " ", .malformed), (good + "\u{e9}", .malformed),
      ("\(parts[0]).\(parts[1]).\(parts[2].dropLast())", .signature),
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
      (["sub": "\"a b\""], .noSubject), (["sub": "\"a/b\""], .noSubject), (["sub": "7"], .unreadable),
      (["sub": "\"\(String(repeating: "a", count: 129))\""], .noSubject), (["sub": "\"auth0|12\""], nil),
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
    var verifier = try await Self.verifier()
    verifier.secret = nil
    await #expect(throws: TokenError.refused(.algorithm)) {
      try await verifier.user(presenting: try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: Self.claims()))
    }
    verifier = try await Self.verifier()
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
