import Cryptography
import JSON
import Testing

@testable import Tokens

@Suite struct AccessTokenKeysTests {
  @Test func `the first of two keys signs, and both are published by their thumbprints`() throws {
    let (one, two) = (try ES256PrivateKey.random(), try ES256PrivateKey.random())
    let (first, second) = (try AccessTokenKeys(pem: one.pem()), try AccessTokenKeys(pem: two.pem()))
    let both = try AccessTokenKeys(pem: "a note\n" + one.pem() + "\n" + two.pem())
    #expect(both.published == first.published + second.published)
    #expect(Set(both.published.map(\.kid)).count == 2 && both.published.allSatisfy { $0.kid.utf8.count == 43 })
    #expect(throws: AccessTokenKeys.Invalid.twice) { () throws in try AccessTokenKeys(pem: one.pem() + one.pem()) }
    #expect(throws: AccessTokenKeys.Invalid.tooMany) { () throws in
      try AccessTokenKeys(pem: one.pem() + two.pem() + ES256PrivateKey.random().pem())
    }
    #expect(throws: AccessTokenKeys.Invalid.key(.notPEM)) { () throws in try AccessTokenKeys(pem: "") }
    #expect(throws: AccessTokenKeys.Invalid.self) { () throws in
      try AccessTokenKeys(pem: one.pem().replacing("M", with: "N"))
    }
    // RFC 7638, section 3: the thumbprint of a published example (RFC 7517, appendix A.1), with other members left out.
    let example =
      #"{"crv":"P-256","kty":"EC","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","#
      + #""y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}"#
    #expect(
      Base64URL.encode(SHA256Digest(of: Array(example.utf8)).bytes) == "cn-I_WNMClehiVp51i_0VpOENW1upEerA8sEam5hn-s")
  }
}
