import Foundation
import TestSupport
import Testing

@testable import Validation

/// The proof that RevenueCat sent an event.
@Suite struct RevenueCatAuthenticationTests {
  private static let now = Date(timeIntervalSince1970: 1_718_452_800).withNanoseconds
  private static let body = Array(#"{"event":{}}"#.utf8)

  private static func signed(_ secret: String = "one", late seconds: Int = 0, uppercase: Bool = false) -> String {
    revenueCatSignature(body, by: secret, at: 1_718_452_800 - seconds, uppercase: uppercase)
  }

  private static func prove(
    _ authorizations: [String], _ secrets: [String], _ authorization: String?, _ signature: String?,
    body: [UInt8] = Self.body
  ) -> Bool {
    RevenueCatSecrets(authorizations: authorizations, signingSecrets: secrets)
      .prove(body, authorization: authorization, signature: signature, now: now)
  }

  @Test func `nothing is proven where no secret is configured`() {
    #expect(!Self.prove([], [], "", Self.signed()))
    #expect(!Self.prove([], [], nil, nil))
  }

  @Test func `the header has to be one of the values, word for word`() {
    for value in ["Bearer one", "two"] { #expect(Self.prove(["Bearer one", "two"], [], value, nil)) }
    for value in [nil, "", "one", "bearer one", "Bearer one ", "Bearer oneBearer one"] {
      #expect(!Self.prove(["Bearer one", "two"], [], value, nil))
    }
  }

  @Test func `the signature is one of either secret's, in either case, over these bytes`() {
    for secret in ["one", "two"] { #expect(Self.prove([], ["one", "two"], nil, Self.signed(secret))) }
    #expect(Self.prove([], ["one"], nil, Self.signed(uppercase: true)))
    #expect(!Self.prove([], ["one"], nil, Self.signed("three")))
    #expect(!Self.prove([], ["one"], nil, Self.signed(), body: Self.body + [0x20]))
  }

  @Test func `any of several signatures counts, and what else is in the header does not`() {
    let good = Self.signed()
    let other = Self.signed("three").split(separator: ",")[1]
    #expect(Self.prove([], ["one"], nil, good + ",\(other)"))
    #expect(Self.prove([], ["one"], nil, "\(other)," + good))
    #expect(Self.prove([], ["one"], nil, good.replacing(",", with: ", ") + ", v2=abc"))
    let time = good.prefix { $0 != "," }
    let shorter = String(repeating: ",v1=00", count: 20)
    #expect(Self.prove([], ["one"], nil, time + shorter + good.dropFirst(time.count)))
  }

  @Test func `a signature counts for five minutes before and after`() {
    for seconds in [300, -300, 0] { #expect(Self.prove([], ["one"], nil, Self.signed(late: seconds))) }
    for seconds in [301, -301, 1_000_000] { #expect(!Self.prove([], ["one"], nil, Self.signed(late: seconds))) }
  }

  @Test(arguments: [
    "", "t=", "t=1718452800", "v1=00", "t=1718452800,v1=", "t=1718452800,v1=zz", "t=+1718452800,v1=00",
    "t=99999999999999999999,v1=00", "nonsense", ",,,", "t=1718452800;v1=00",
  ]) func `a header that is no signature proves nothing`(_ header: String) {
    #expect(!Self.prove([], ["one"], nil, header))
  }

  @Test func `a time that is given twice proves nothing`() {
    #expect(!Self.prove([], ["one"], nil, "t=1," + Self.signed()))
  }

  @Test func `where both are configured both are required`() {
    #expect(Self.prove(["value"], ["one"], "value", Self.signed()))
    #expect(!Self.prove(["value"], ["one"], "value", nil))
    #expect(!Self.prove(["value"], ["one"], nil, Self.signed()))
    #expect(!Self.prove(["value"], ["one"], "other", Self.signed()))
    #expect(!Self.prove(["value"], ["one"], "value", Self.signed("two")))
  }
}
