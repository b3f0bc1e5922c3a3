import Crypto
import Cryptography
import Entitlements
import Foundation
import HTTPTransport
import Synchronization
import TestSupport
import Testing
import _CryptoExtras

@testable import Tokens

/// The checks that a remembered token is spared, and those that it is not.
@Suite struct VerifiedTokensTests {
  private static let start = Date(timeIntervalSince1970: 1_718_452_800.123_456_789)
  private static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

  /// An RSA key takes time to make.
  private static let rsa = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

  /// A service that lets in the users of a provider, with a clock of its own.
  private final class Desk: Sendable {
    private let clock = Mutex(start)
    let provider = KeySetProvider()
    let keySet: RemoteKeySet
    let verified: VerifiedTokens
    let secret: TokenKey

    init(publishing keys: [String], limit: Int = VerifiedTokens.limit) throws {
      provider.publish(keys)
      keySet = provider.keySet()
      verified = VerifiedTokens(limit: limit)
      secret = try TokenKey(secret: Secret(TokenMint.secret))
    }

    /// Seconds since the start.
    func set(_ offset: TimeInterval) { clock.withLock { $0 = start + offset } }

    /// The set is fetched anew.
    func publish(_ keys: [String]) async {
      provider.publish(keys)
      provider.advance(by: KeySetSchedule.refresh)
      await keySet.refreshIfDue()
    }

    /// - Returns: why a token names no user, and `nil` where it does.
    func refusal(_ token: String, issuer: String? = nil, audience: String? = nil) async -> TokenError? {
      let verifier = UserTokenVerifier(
        secret: secret, keySet: keySet, rules: TokenRules(issuer: issuer, audience: audience, leeway: .seconds(30)),
        now: { [self] in clock.withLock { $0 } }, verified: verified)
      do throws(TokenError) {
        let user = try await verifier.user(presenting: token)
        return user == UserID(VerifiedTokensTests.user) ? nil : .refused(.noSubject)
      } catch { return error }
    }
  }

  private let key = P256.Signing.PrivateKey()
  private let other = P256.Signing.PrivateKey()

  private func jwk(_ key: P256.Signing.PrivateKey) -> String { TokenMint.jwk(key.publicKey, id: "1") }

  /// A token of the user's.
  ///
  /// - Parameters:
  ///   - number: makes the claims another's.
  ///   - extra: further claims; each ends with a comma.
  private func token(_ number: Int = 0, _ extra: String = "", by signer: TokenMint.Signer? = nil) throws -> String {
    let signer = signer ?? .es256(key)
    let header =
      switch signer {
      case .rs256: #"{"alg":"RS256","kid":"rsa"}"#
      case .hs256: #"{"alg":"HS256"}"#
      case .es256, .none: #"{"alg":"ES256","kid":"1"}"#
      }
    let now = Int(Self.start.timeIntervalSince1970)
    return try TokenMint.token(
      header: header,
      claims: #"{"iss":"https://issuer.test","aud":"authenticated",\#(extra)"jti":"\#(number)","iat":\#(now),"#
        + #""exp":\#(now + 3600),"sub":"\#(Self.user)"}"#,
      by: signer)
  }

  // MARK: - What is spared

  @Test func `a token is verified once, however often it is shown`() async throws {
    let rsa = try Self.rsa.get()
    let desk = try Desk(publishing: [jwk(key), TokenMint.jwk(rsa.publicKey, id: "rsa")])
    let tokens = [try token(), try token(by: .rs256(rsa))]
    for _ in 0..<20 {
      for token in tokens { #expect(await desk.refusal(token) == nil) }
    }
    #expect(desk.verified.counts == (2, 2))
  }

  @Test func `a token of the shared secret is verified each time, and not remembered`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    let token = try token(by: TokenMint.shared)
    for _ in 0..<3 { #expect(await desk.refusal(token) == nil) }
    #expect(desk.verified.counts == (3, 0))
    #expect(desk.secret.thumbprint == nil)
  }

  @Test func `the memory is shared by every copy and every thread`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    let token = try token()
    #expect(await desk.refusal(token) == nil)
    await withTaskGroup { group in
      for _ in 0..<64 { group.addTask { #expect(await desk.refusal(token) == nil) } }
    }
    #expect(desk.verified.counts == (1, 1))
  }

  @Test func `a set that is fetched anew with the same key changes nothing`()
    async throws
  {
    let desk = try Desk(publishing: [jwk(key)])
    let token = try token()
    #expect(await desk.refusal(token) == nil)
    await desk.publish([
      TokenMint.jwk(other.publicKey, id: "2"), TokenMint.jwk(key.publicKey, id: "1", extra: #""use":"sig","#),
    ])
    #expect(await desk.refusal(token) == nil)
    #expect(desk.verified.counts == (1, 1))
  }

  // MARK: - What is not

  @Test func `a remembered token ends with its time, and begins with it`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    let now = Int(Self.start.timeIntervalSince1970)
    let tokens = [try token(), try token(1, #""nbf":\#(now + 20),"#)]
    for (offset, refusals): (TimeInterval, [TokenRefusal?]) in [
      (0, [nil, nil]), (3629, [nil, nil]), (3630, [.expired, .expired]), (-9, [nil, nil]), (-10, [nil, nil]),
      (-11, [nil, .notYetValid]), (-30, [nil, .notYetValid]), (-31, [.notYetValid, .notYetValid]), (0, [nil, nil]),
    ] {
      desk.set(offset)
      for (token, refusal) in zip(tokens, refusals) {
        #expect(await desk.refusal(token) == refusal.map(TokenError.refused), "\(offset)")
      }
    }
    #expect(desk.verified.counts == (2, 2))
  }

  @Test func `a remembered token is weighed by the rules of now`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    let token = try token()
    #expect(await desk.refusal(token) == nil)
    #expect(await desk.refusal(token, issuer: "https://issuer.test", audience: "authenticated") == nil)
    #expect(await desk.refusal(token, issuer: "https://other.test") == .refused(.issuer))
    #expect(await desk.refusal(token, audience: "other") == .refused(.audience))
    #expect(desk.verified.counts == (1, 1))
  }

  @Test func `a key that was withdrawn takes the remembered tokens with it`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    let token = try token()
    #expect(await desk.refusal(token) == nil)
    await desk.publish([TokenMint.jwk(other.publicKey, id: "2")])
    #expect(await desk.refusal(token) == .refused(.unknownKey))
    #expect(desk.verified.counts == (1, 1))
  }

  @Test func `a key that took another's ID does not vouch for what that had signed`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    let token = try token()
    #expect(await desk.refusal(token) == nil)
    await desk.publish([jwk(other)])
    #expect(await desk.refusal(token) == .refused(.signature))
    #expect(await desk.refusal(token) == .refused(.signature))
    await desk.publish([jwk(other), jwk(key)])
    #expect(await desk.refusal(token) == .refused(.unknownKey), "two keys of one ID are none")
    await desk.publish([jwk(key)])
    #expect(await desk.refusal(token) == nil)
    #expect(desk.verified.counts == (3, 1))
  }

  @Test func `keys that are too old to count take the remembered tokens with them`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    let token = try token()
    #expect(await desk.refusal(token) == nil)
    desk.provider.goAway()
    desk.provider.advance(by: KeySetSchedule.lifetime)
    #expect(await desk.refusal(token) == .keysUnavailable)
  }

  @Test func `one bit less or more, and it is not the token that is remembered`() async throws {
    let rsa = try Self.rsa.get()
    let desk = try Desk(publishing: [jwk(key), TokenMint.jwk(rsa.publicKey, id: "rsa")])
    for text in [try token(), try token(by: .rs256(rsa))] {
      #expect(await desk.refusal(text) == nil)
      let parts = text.split(separator: ".").map(String.init)
      let token = try UserToken(text)
      for (part, bytes) in [(1, Data(token.payload)), (2, Data(token.signature))] {
        for place in bytes.indices {
          var bent = bytes
          bent[place] ^= 1 << (place % 8)
          var forged = parts
          forged[part] = TokenMint.base64URL(bent)
          #expect(await desk.refusal(forged.joined(separator: ".")) == .refused(.signature))
        }
      }
      // Another spelling of the same header is another header.
      let header = TokenMint.base64URL(Data(#"{"alg":"\#(token.algorithm)","kid":"\#(token.keyID ?? "")" }"#.utf8))
      #expect(await desk.refusal("\(header).\(parts[1]).\(parts[2])") == .refused(.signature))
    }
    #expect(desk.verified.counts.remembered == 2)
  }

  @Test func `two signatures over one payload are two tokens`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    // ECDSA has chance in it.
    let (first, second) = (try token(), try token())
    try #require(first != second)
    #expect(await desk.refusal(first) == nil)
    #expect(await desk.refusal(second) == nil)
    #expect(desk.verified.counts == (2, 2))
  }

  // MARK: - What is kept

  @Test func `a refused signature is not remembered, neither as right nor as wrong`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    let token = try token(by: .es256(other))
    for _ in 0..<3 { #expect(await desk.refusal(token) == .refused(.signature)) }
    #expect(desk.verified.counts == (3, 0))
    await desk.publish([jwk(other)])
    #expect(await desk.refusal(token) == nil)
    #expect(desk.verified.counts == (4, 1))
  }

  @Test func `a token that is refused for what it says leaves nothing behind`() async throws {
    let desk = try Desk(publishing: [jwk(key)])
    let nobody = try token(0, #""role":"anon","#)
    let right = try token()
    for _ in 0..<2 { #expect(await desk.refusal(nobody) == .refused(.role)) }
    desk.set(-60)
    #expect(await desk.refusal(right) == .refused(.notYetValid))
    #expect(desk.verified.counts == (3, 0))
    desk.set(0)
    #expect(await desk.refusal(right) == nil)
    #expect(desk.verified.counts == (4, 1))
  }

  @Test func `the memory is bounded, and the token that was shown last stays`() async throws {
    let desk = try Desk(publishing: [jwk(key)], limit: 3)
    let tokens = try (0..<4).map { try token($0) }
    // After each: how many signatures were computed.
    for (number, verifications) in [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (0, 4), (2, 4), (1, 5), (3, 6)] {
      #expect(await desk.refusal(tokens[number]) == nil)
      #expect(desk.verified.counts.verifications == verifications)
      #expect(desk.verified.counts.remembered <= 3)
    }
  }

  // MARK: - The name of a key

  /// The example of RFC 7638, section 3.1.
  @Test func `a key's thumbprint is the one of RFC 7638`() {
    let material = PublishedKey.Material.rsa(
      modulus:
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3okn"
        + "jhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL"
        + "5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
      exponent: "AQAB")
    #expect(TokenMint.base64URL(Data(material.thumbprint.bytes)) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs")
  }

  @Test func `keys that differ in any number have different thumbprints`() {
    let materials: [PublishedKey.Material] = [
      .rsa(modulus: "AA", exponent: "AQAB"), .rsa(modulus: "AQAB", exponent: "AA"),
      .rsa(modulus: "AB", exponent: "AQAB"),
      .p256(x: "AA", y: "AQAB"), .p256(x: "AQAB", y: "AA"), .p256(x: "AA", y: "AB"),
    ]
    #expect(Set(materials.map(\.thumbprint)).count == materials.count)
  }
}
