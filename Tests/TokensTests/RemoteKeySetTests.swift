import Crypto
import Foundation
import Resilience
import TestSupport
import Testing

@testable import Tokens

/// Published keys: fetched, kept, replaced, and not fetched too often.
@Suite struct RemoteKeySetTests {
  private let provider = KeySetProvider()

  private static func token(_ key: P256.Signing.PrivateKey, id: String) throws -> UserToken {
    try UserToken(TokenMint.token(header: #"{"alg":"ES256","kid":"\#(id)"}"#, claims: "{}", by: .es256(key)))
  }

  private static func outcome(_ keys: RemoteKeySet, _ token: UserToken) async -> String {
    do throws(TokenError) {
      return try await keys.key(for: token).signed(token) ? "signed" : "forged"
    } catch {
      switch error {
      case .refused(let refusal): return "\(refusal)"
      case .keysUnavailable: return "unavailable"
      }
    }
  }

  private let first = P256.Signing.PrivateKey()
  private let second = P256.Signing.PrivateKey()

  @Test func `a set is fetched once and serves until it is due`() async throws {
    provider.publish([TokenMint.jwk(first.publicKey, id: "1")])
    let keys = provider.keySet()
    #expect(keys.health == .unknown)
    await keys.refreshIfDue()
    #expect(keys.health == .ok)
    for _ in 0..<100 { #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "signed") }
    provider.advance(by: KeySetSchedule.refresh - .seconds(1))
    await keys.refreshIfDue()
    #expect(provider.fetches == 1)
    provider.advance(by: .seconds(1))
    await keys.refreshIfDue()
    #expect(provider.fetches == 2)
  }

  @Test func `a token with a new key is let in at once, and a withdrawn key ends with the next fetch`() async throws {
    provider.publish([TokenMint.jwk(first.publicKey, id: "1")])
    let keys = provider.keySet()
    await keys.refreshIfDue()
    provider.publish([TokenMint.jwk(second.publicKey, id: "2")])
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "signed")
    #expect(await Self.outcome(keys, try Self.token(second, id: "2")) == "signed")
    #expect(provider.fetches == 2)
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "unknownKey")
    #expect(provider.fetches == 2)
  }

  @Test func `a first token that comes before the set does not use up the fetch that a new key needs`() async throws {
    provider.publish([TokenMint.jwk(first.publicKey, id: "1")])
    let keys = provider.keySet()
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "signed")
    provider.publish([TokenMint.jwk(second.publicKey, id: "2")])
    #expect(await Self.outcome(keys, try Self.token(second, id: "2")) == "signed")
    #expect(provider.fetches == 2)
  }

  @Test func `ten thousand unknown keys cost one fetch, and another a minute later`() async throws {
    provider.publish([TokenMint.jwk(first.publicKey, id: "1")])
    let keys = provider.keySet()
    await keys.refreshIfDue()
    let token = try Self.token(second, id: "unknown")
    await withTaskGroup { group in
      for _ in 0..<10_000 {
        group.addTask { #expect(await Self.outcome(keys, token) == "unknownKey") }
      }
    }
    #expect(provider.fetches == 2)
    provider.advance(by: KeySetSchedule.demandGap - .milliseconds(1))
    #expect(await Self.outcome(keys, token) == "unknownKey")
    #expect(provider.fetches == 2)
    provider.advance(by: .milliseconds(1))
    #expect(await Self.outcome(keys, token) == "unknownKey")
    #expect(provider.fetches == 3)
  }

  @Test func `while the provider is away the old keys count, for a day`() async throws {
    provider.publish([TokenMint.jwk(first.publicKey, id: "1")])
    let keys = provider.keySet()
    await keys.refreshIfDue()
    provider.goAway()
    provider.advance(by: KeySetSchedule.refresh)
    await keys.refreshIfDue()
    #expect(keys.health == .stale(cause: "timedOut"))
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "signed")
    // Whether it is a new key cannot be told: that is no fault of the caller's.
    #expect(await Self.outcome(keys, try Self.token(second, id: "2")) == "unavailable")
    provider.advance(by: KeySetSchedule.lifetime - KeySetSchedule.refresh - .milliseconds(1))
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "signed")
    provider.advance(by: .milliseconds(1))
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "unavailable")
    #expect(keys.health == .unavailable(cause: "timedOut"))
    provider.publish([TokenMint.jwk(first.publicKey, id: "1")])
    provider.advance(by: KeySetSchedule.retry.cap)
    await keys.refreshIfDue()
    #expect(keys.health == .ok)
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "signed")
    #expect(provider.log.contains("keys for users' tokens cannot be fetched"))
  }

  @Test func `a start without the provider is no end, and it is tried again with growing pauses`() async throws {
    let keys = provider.keySet()
    await keys.refreshIfDue()
    #expect(keys.health == .unavailable(cause: "connect"))
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "unavailable")
    #expect(provider.fetches == 2, "the first token may ask at once")
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "unavailable")
    #expect(provider.fetches == 2)
    var pauses: [Int] = []
    for _ in 0..<5 {
      let before = provider.fetches
      var waited = 0
      while provider.fetches == before, waited < 200 {
        provider.advance(by: .seconds(1))
        waited += 1
        await keys.refreshIfDue()
      }
      pauses.append(waited)
    }
    #expect(pauses == [10, 20, 40, 60, 60])
    provider.publish([TokenMint.jwk(first.publicKey, id: "1")])
    provider.advance(by: .seconds(60))
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "signed")
  }

  @Test(arguments: [
    ("", 200, "not a JWK Set"), ("<html>", 200, "not a JWK Set"), ("{}", 200, "not a JWK Set"),
    (#"{"keys":{}}"#, 200, "not a JWK Set"), (#"{"keys":[],"keys":[]}"#, 200, "not a JWK Set"),
    (#"{"keys":[]}"#, 200, "no key for RS256 or ES256 in the set"),
    (#"{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"1"}]}"#, 200, "no key for RS256 or ES256 in the set"),
    (#"{"keys":[]}"#, 404, "status 404"), (#"{"keys":[]}"#, 302, "status 302"),
  ])
  func `an answer without a key of use takes no key away`(body: String, status: Int, cause: String) async throws {
    provider.publish([TokenMint.jwk(first.publicKey, id: "1")])
    let keys = provider.keySet()
    await keys.refreshIfDue()
    provider.say(body, status: status)
    provider.advance(by: KeySetSchedule.refresh)
    await keys.refreshIfDue()
    #expect(keys.health == .stale(cause: cause))
    #expect(await Self.outcome(keys, try Self.token(first, id: "1")) == "signed")
  }

  @Test func `keys that are for something else are skipped`() async throws {
    let key = second.publicKey
    let raw = key.rawRepresentation
    let off = TokenMint.base64URL(Data(repeating: 7, count: 32))
    provider.publish([
      TokenMint.jwk(first.publicKey, id: "good", extra: #""use":"sig","alg":"ES256","key_ops":["verify"],"#),
      TokenMint.jwk(key, id: "a", extra: #""use":"enc","#), TokenMint.jwk(key, id: "b", extra: #""alg":"ES384","#),
      TokenMint.jwk(key, id: "c", extra: #""key_ops":["encrypt"],"#), TokenMint.jwk(key, id: "d", extra: #""d":"AA","#),
      #"{"kty":"EC","crv":"P-384","kid":"e","x":"AA","y":"AA"}"#,
      #"{"kty":"EC","crv":"P-256","kid":"f","x":"\#(off)","y":"\#(off)"}"#,
      #"{"kty":"EC","crv":"P-256","kid":"g","x":"\#(TokenMint.base64URL(raw.prefix(32)))"}"#,
      #"{"kty":"RSA","kid":"h","n":"AQAB","e":"AQAB"}"#, #"{"kty":"RSA","kid":"i","n":"!","e":"AQAB"}"#, "7", "null",
    ])
    let keys = provider.keySet()
    await keys.refreshIfDue()
    #expect(await Self.outcome(keys, try Self.token(first, id: "good")) == "signed")
    for id in "abcdefghi" {
      #expect(await Self.outcome(keys, try Self.token(second, id: String(id))) == "unknownKey")
    }
  }
}
