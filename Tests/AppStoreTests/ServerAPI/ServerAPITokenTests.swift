import Cryptography
import Entitlements
import FoundationEssentials
import Testing

@testable import AppStore
@testable import HTTPTransport
@testable import JSON

@Suite struct ServerAPITokenTests {
  private static let now = Date(timeIntervalSince1970: 1_718_452_800.75)

  private static func key(_ key: TestECKey) throws -> ServerAPIKey {
    try ServerAPIKey(
      keyID: "2X9R4HXF34", issuerID: "57246542-96fe-1a63-e053-0824d011072a", key: ES256PrivateKey(pem: key.pem()))
  }

  @Test func `a token says what Apple asks for, signed with our key`() throws {
    let pair = try TestECKey()
    let token = try Self.key(pair).token(for: "com.example.app", now: Self.now)
    let parts = token.text.exposed.split(separator: ".").map(String.init)
    try #require(parts.count == 3)
    let header = try JSONDocument(#require(Base64URL.decode(parts[0].utf8))).root
    #expect(try header.text("alg") == "ES256")
    #expect(try header.text("kid") == "2X9R4HXF34")
    #expect(try header.text("typ") == "JWT")
    let claims = try JSONDocument(#require(Base64URL.decode(parts[1].utf8))).root
    #expect(try claims.text("iss") == "57246542-96fe-1a63-e053-0824d011072a")
    #expect(try claims.text("aud") == "appstoreconnect-v1")
    #expect(try claims.text("bid") == "com.example.app")
    // Half a minute back, and 20 minutes long: Apple allows 60.
    #expect(try claims.integer("iat") == 1_718_452_770)
    #expect(try claims.integer("exp") == 1_718_452_770 + 1200)
    let signature = try #require(Base64URL.decode(parts[2].utf8))
    #expect(signature.count == 64)
    #expect(try pair.hasMade(signature, over: Array("\(parts[0]).\(parts[1])".utf8)))
  }

  @Test func `every character of a bundle ID arrives as it is`() throws {
    let name = "com.\"exämple\\\u{1}"
    let token = try Self.key(TestECKey()).token(for: BundleID(name), now: Self.now)
    let claims = try #require(token.text.exposed.split(separator: ".").dropFirst().first)
    #expect(try JSONDocument(#require(Base64URL.decode(claims.utf8))).root.text("bid") == name)
  }

  @Test func `a token is made once and used until a minute before its end`() throws {
    let tokens = DeveloperTokens(sign: try Self.key(TestECKey()).token)
    func token(_ seconds: Double, _ app: BundleID = "a") throws -> DeveloperToken {
      try tokens.token(for: app, now: Self.now.addingTimeInterval(seconds))
    }
    let first = try token(0)
    // iat lies half a minute back, so the end is 1170 s away.
    #expect(try token(1109) == first)
    #expect(try token(0, "b") != first)
    let second = try token(1110)
    #expect(second != first)
    #expect(second.expiresAt > first.expiresAt)
  }

  @Test func `a token made before our clock was set back is not used`() throws {
    let tokens = DeveloperTokens(sign: try Self.key(TestECKey()).token)
    let first = try tokens.token(for: "a", now: Self.now)
    #expect(try tokens.token(for: "a", now: Self.now.addingTimeInterval(-1)) != first)
  }

  @Test func `only the token that was refused is dropped`() throws {
    let tokens = DeveloperTokens(sign: try Self.key(TestECKey()).token)
    let first = try tokens.token(for: "a", now: Self.now)
    tokens.drop(first, for: "a")
    let second = try tokens.token(for: "a", now: Self.now)
    #expect(second != first)
    tokens.drop(first, for: "a")
    #expect(try tokens.token(for: "a", now: Self.now) == second)
  }

  @Test func `the client makes a new token when the old one ends`() async throws {
    let time = TestTime()
    let body = try ServerAPISample.subscriber()
    let transport = ScriptedTransport(Array(repeating: .body(body), count: 3), time: time)
    var timing = time.timing()
    timing.date = { TestTime.date.addingTimeInterval((time.now - time.start) / .seconds(1)) }
    let client = ServerAPIClient(
      transport: transport, configuration: try ServerAPISample.configuration(),
      verifier: try SignedDataPKI.made.get().verifier(), timing: timing)
    for _ in 0..<3 {
      _ = try await client.history(
        of: "1", bundleIDs: ["com.example.app"], includesOneTimePurchases: false, deadline: time.now + .seconds(10))
      time.advance(to: time.now + .seconds(600))
    }
    let tokens = transport.calls.map { $0.request.headers.last?.value }
    #expect(tokens[0] == tokens[1])
    #expect(tokens[1] != tokens[2])
  }

  @Test func `a token does not print itself`() throws {
    let token = try Self.key(TestECKey()).token(for: "a", now: Self.now)
    #expect(!"\(token)".contains("ey"))
    #expect(!String(reflecting: token).contains("ey"))
  }

  // MARK: The key

  @Test(arguments: ["2X9R4HXF34", "a", "0123456789ABCDEFabcdef"])
  func `a key ID is letters and digits`(_ id: String) throws {
    let key = try ES256PrivateKey(pem: TestECKey().pem())
    #expect(try ServerAPIKey(keyID: id, issuerID: "57246542-96FE-1a63-e053-0824d011072a", key: key).keyID == id)
  }

  @Test(arguments: [
    "", "AuthKey_2X9R4HXF34.p8", "2X9R4HXF34\n", "ключ", "\"", String(repeating: "A", count: 65),
  ])
  func `a text that is no key ID is refused in a sentence that does not quote it`(_ id: String) throws {
    let key = try ES256PrivateKey(pem: TestECKey().pem())
    let error = #expect(throws: ServerAPIKey.Fault.keyID) {
      try ServerAPIKey(keyID: id, issuerID: "57246542-96fe-1a63-e053-0824d011072a", key: key)
    }
    #expect(error.map { "\($0)".hasSuffix(".") && (id.count < 2 || !"\($0)".contains(id)) } == true)
  }

  @Test(arguments: [
    "", "57246542", "57246542-96fe-1a63-e053-0824d011072", "57246542-96fe-1a63-e053-0824d011072g",
    "5724654296fe1a63e0530824d011072a", "57246542-96fe-1a63-e053-0824d011072a ",
    "57246542-96fe-1a63-e053-0824d011072\"",
  ])
  func `a text that is no issuer ID is refused`(_ id: String) throws {
    let key = try ES256PrivateKey(pem: TestECKey().pem())
    #expect(throws: ServerAPIKey.Fault.issuerID) { try ServerAPIKey(keyID: "A", issuerID: id, key: key) }
  }
}
