import ArgumentParser
import Crypto
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Tokens

/// Signed access tokens, checked as another server checks them: by other cryptography, with the published keys.
@Suite struct AccessTokenTests {
  private static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

  private func run(
    _ change: (inout Settings) -> Void = { _ in },
    body: @Sendable (RunningService, SimulatedStore, MovingClock) async throws -> Void
  ) async throws {
    var settings = Settings(
      server: ["user_rate_limit": "0"], appStore: ["deadline": "6s"], jwt: ["secret": TokenMint.secret])
    change(&settings)
    try await World.run(settings: settings) { try await body($0.service, $0.store, $0.clock) }
  }

  private struct Checked {
    var header: [String: Any]
    var claims: [String: Any]

    func number(_ name: String) -> Int? { claims[name] as? Int }
  }

  private static func object(_ part: Substring) throws -> [String: Any] {
    let json = try #require(SignedDataSigner.decode(part))
    return try #require(try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any])
  }

  /// Asks for a token and checks it with the key that its header names.
  private func token(_ service: RunningService, at clock: MovingClock, user: String = user) async throws -> Checked {
    let answer = try await service.send(
      .get, "/v1/profiles/me/token", key: try TokenMint.user(user, at: clock.date))
    #expect(answer.status == 200 && answer.header("Cache-Control") == "no-store", "\(answer.text)")
    let parts = try #require(answer["token"]).split(separator: ".")
    try #require(parts.count == 3)
    let header = try Self.object(parts[0])
    let published = try await service.send(.get, "/.well-known/jwks.json", key: nil)
    #expect(published.header("Cache-Control") == "public, max-age=3600")
    let keys = try #require(published.object["keys"] as? [[String: String]])
    let jwk = try #require(keys.first { $0["kid"] == header["kid"] as? String })
    let x = try #require(SignedDataSigner.decode(Substring(jwk["x"] ?? "")))
    let y = try #require(SignedDataSigner.decode(Substring(jwk["y"] ?? "")))
    let key = try P256.Signing.PublicKey(rawRepresentation: x + y)
    let signature = try P256.Signing.ECDSASignature(rawRepresentation: try #require(SignedDataSigner.decode(parts[2])))
    #expect(key.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
    let checked = Checked(header: header, claims: try Self.object(parts[1]))
    let end = try #require(checked.number("exp"))
    #expect(answer["expires_at"] == Date(timeIntervalSince1970: Double(end)).formatted(.iso8601))
    return checked
  }

  @Test func `a token says what the user may do, until when`() async throws {
    try await run { service, store, clock in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let end = try #require(try await service.validate(receipt, user: Self.user)["access_until"])
      let token = try await token(service, at: clock)
      #expect(token.header["alg"] as? String == "ES256" && token.header["typ"] as? String == "access+jwt")
      #expect(token.claims["sub"] as? String == Self.user && token.claims["tier"] as? String == "pro")
      #expect(token.claims["status"] as? String == "active" && token.claims["environment"] as? String == "production")
      let now = Int(noon.timeIntervalSince1970)
      #expect(token.number("iat") == now && token.number("exp") == now + 3_600)
      #expect(token.number("offline_until") == now + 7 * 86_400)
      #expect(token.number("access_until") == Int(try Date(end, strategy: .iso8601).timeIntervalSince1970))
      #expect(token.claims["iss"] == nil && token.claims["aud"] == nil)
      let features = try #require(token.claims["features"] as? [String: Any])
      #expect(features["filters"] as? Bool == true && features.count == 3)
      let children = try #require(features["children"] as? [String: Any])
      #expect(children["allowed"] as? Bool == true && children["limit"] as? Int == 99)
      #expect(children["remaining"] as? Int == 99)
      let questions = try #require(features["questions"] as? [String: Any])
      #expect(questions["limit"] is NSNull && questions["remaining"] is NSNull)
    }
  }

  @Test func `no end is told later than access ends, and what has none lasts a week`() async throws {
    try await run { service, store, clock in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let end = try #require(try await service.validate(receipt, user: Self.user)["access_until"])
      clock.advance(by: try Date(end, strategy: .iso8601).timeIntervalSince(clock.date) - 1_800)
      let last = try await token(service, at: clock)
      #expect(last.number("exp") == last.number("access_until") && last.number("offline_until") == last.number("exp"))
      #expect(last.number("exp") == last.number("iat").map { $0 + 1_800 })
      let other = "00000000-0000-4000-8000-000000000002"
      let free = try await token(service, at: clock, user: other)
      #expect(free.claims["tier"] as? String == "free" && free.claims["access_until"] is NSNull)
      #expect(free.number("offline_until") == free.number("iat").map { $0 + 7 * 86_400 })
      _ = try await service.validate(
        try store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData, user: other)
      let lifetime = try await token(service, at: clock, user: other)
      #expect(lifetime.claims["tier"] as? String == "premium" && lifetime.claims["access_until"] is NSNull)
    }
  }

  @Test func `a state that is held is told until the hold is over`() async throws {
    try await run { service, store, clock in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let end = try #require(try await service.validate(receipt, user: Self.user)["access_until"])
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      clock.advance(by: try Date(end, strategy: .iso8601).timeIntervalSince(clock.date) + 86_400)
      let held = try await token(service, at: clock)
      #expect(held.claims["tier"] as? String == "pro" && held.number("exp") == held.number("iat").map { $0 + 3_600 })
      // The period ended a day ago; policy.outage_hold is seven.
      #expect(held.number("offline_until") == held.number("iat").map { $0 + 6 * 86_400 })
      clock.advance(by: 7 * 86_400)
      #expect(try await token(service, at: clock).claims["tier"] as? String == "free")
    }
  }

  @Test func `issuer and audience are told where they are configured`() async throws {
    try await run {
      $0.signing = ["signing_issuer": "https://countersign.example.com", "signing_audience": "app"]
    } body: { service, _, clock in
      let token = try await token(service, at: clock)
      #expect(token.claims["iss"] as? String == "https://countersign.example.com")
      #expect(token.claims["aud"] as? String == "app")
    }
  }

  @Test func `an access token is no credential`() async throws {
    try await run { service, _, clock in
      let answer = try await service.send(
        .get, "/v1/profiles/me/token", key: try TokenMint.user(Self.user, at: clock.date))
      #expect(try await service.send(.get, "/v1/profiles/me", key: answer["token"]).status == 401)
      // Nor is one with the claims and the key of a credential.
      let now = Int(clock.date.timeIntervalSince1970)
      for (type, status) in [("JWT", 200), ("access+jwt", 401), ("Access+JWT", 401)] {
        let forged = try TokenMint.token(
          header: #"{"alg":"HS256","typ":"\#(type)"}"#,
          claims: #"{"sub":"\#(Self.user)","iat":\#(now),"exp":\#(now + 60)}"#)
        #expect(try await service.send(.get, "/v1/profiles/me", key: forged).status == status, "\(type)")
      }
    }
  }

  @Test func `without a key there is no token`() async throws {
    try await run {
      $0.signingKey = nil
    } body: { service, _, clock in
      let user = try TokenMint.user(Self.user, at: clock.date)
      for path in ["/v1/profiles/me/token", "/.well-known/jwks.json"] {
        let answer = try await service.exchange(
          "GET \(path) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(user)\r\nConnection: close\r\n\r\n")
        #expect(answer.hasPrefix("HTTP/1.1 404 "), "\(answer)")
      }
    }
  }

  // MARK: Keys

  @Test func `a new key is written for its owner alone, and nothing is overwritten`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/signing.pem"
    try KeysCommand.New.parse(["--out", path]).run()
    let pem = try String(contentsOfFile: path, encoding: .utf8)
    #expect(try AccessTokenKeys(pem: pem).published.count == 1)
    let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    #expect(mode == 0o600)
    #expect(throws: ExitCode.self) { () throws in try KeysCommand.New.parse(["--out", path]).run() }
    #expect(try String(contentsOfFile: path, encoding: .utf8) == pem)
  }

  @Test func `a key that cannot sign is told at the start, and what has no effect`() throws {
    for (key, value, sentence) in [
      ("auth.signing_key", #""-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----""#, "cannot be read"),
      ("auth.signing_issuer", "https://a.example", "has no effect without auth.signing_key_file"),
    ] {
      let sample = SampleConfiguration().setting(key, value)
      do {
        _ = try sample.load()
        Issue.record("\(key) was taken")
      } catch let error as ConfigurationError {
        #expect(error.problems.contains { $0.sentence.contains(sentence) }, "\(error.problems)")
      }
    }
  }

  @Test func `a key that cannot be read is one problem, whatever is set beside it`() throws {
    let sample = SampleConfiguration().setting("auth.signing_key", "broken").setting("auth.signing_audience", "app")
    let problems = sample.problems()
    #expect(problems.count == 1 && problems.allSatisfy { $0.contains("auth.signing_key") }, "\(problems)")
  }

  // MARK: Pages

  @Test func `pages of the app's own origins may call, and no others; the library's version is in the log`()
    async throws
  {
    try await run {
      $0.server["page_origins"] = #"["https://app.example.com"]"#
    } body: { service, _, clock in
      let user = try TokenMint.user(Self.user, at: clock.date)
      func ask(_ method: String, _ origin: String, _ headers: String) async throws -> String {
        try await service.exchange(
          "\(method) /v1/profiles/me HTTP/1.1\r\nHost: a\r\nConnection: close\r\nOrigin: \(origin)\r\n\(headers)\r\n"
        ).lowercased()
      }
      let preflight =
        "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: authorization,countersign-client\r\n"
      let allowed = try await ask("OPTIONS", "https://app.example.com", preflight)
      #expect(allowed.hasPrefix("http/1.1 204"))
      #expect(allowed.contains("access-control-allow-origin: https://app.example.com\r\n"))
      #expect(allowed.contains("access-control-allow-methods: get, post, put, patch, delete\r\n"))
      #expect(
        allowed.contains("access-control-allow-headers: authorization,countersign-client\r\n")
          && allowed.contains("vary: origin"))
      let answer = try await ask("GET", "https://app.example.com", "Authorization: Bearer \(user)\r\n")
      #expect(
        answer.hasPrefix("http/1.1 200") && answer.contains("\r\nx-request-id: ")
          && answer.contains("access-control-expose-headers: date, etag, retry-after, x-request-id\r\n"))
      for said in ["javascript/0.1.0", "no version", "a/b/c", "javascript/\(String(repeating: "1", count: 60))"] {
        _ = try await ask(
          "GET", "https://app.example.com", "Authorization: Bearer \(user)\r\nCountersign-Client: \(said)\r\n")
      }
      let clients = service.log.lines.compactMap { line in
        (try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])?["client"] as? String
      }
      #expect(clients == ["javascript/0.1.0"])
      for origin in ["https://evil.example", "null", "https://app.example.com.evil.example"] {
        let other = try await ask("GET", origin, "Authorization: Bearer \(user)\r\n")
        #expect(!other.contains("access-control-allow-origin") && other.contains("vary: origin"), "\(origin)")
      }
    }
  }
}
