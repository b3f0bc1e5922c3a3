import Crypto
import Foundation
import HTTPTransport
import Ledger
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import Countersign
@testable import Tokens

/// A phone with a user's token: it posts, reads back what is its user's, and nothing else.
@Suite struct UserAccessTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800.000_123_456)
  static let alice = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  static let bob = "00000000-0000-4000-8000-000000000002"
  static let settings = Settings(jwt: ["secret": TokenMint.secret])

  private static func token(_ user: String, _ offset: TimeInterval = 0) throws -> String {
    try TokenMint.user(user, at: clock + offset)
  }

  private func run(
    _ settings: Settings = settings, body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    try await RunningService.besideStore(at: Self.clock, settings: settings, body: body)
  }

  @Test func `a phone posts a receipt without naming its user and reads it back`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let token = try Self.token(Self.alice)
      let answer = try await service.post(["receipt_data": receipt], key: token)
      #expect(answer.status == 200)
      #expect(answer["user_id"] == Self.alice)
      #expect(answer.verdict == "pro active renewing")
      for path in ["me", Self.alice] {
        let read = try await service.profile(path, key: token)
        #expect(read["user_id"] == Self.alice)
        #expect(read.verdict == "pro active renewing")
        let tag = try #require(read.header("ETag"))
        let again = try await service.profile(path, key: token, headers: [TransportHeader("If-None-Match", tag)])
        #expect(again.status == 304)
      }
      #expect(try await service.profile("me", key: Self.token(Self.bob)).verdict == "free active no_purchases")
    }
  }

  @Test func `the token says whose purchase it is, whatever the body says`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      for named in [#""00000000-0000-4000-8000-000000000002""#, "7", "null", "{}", #""me""#] {
        let answer = try await service.send(
          .post, "/v1/validations", key: Self.token(Self.alice),
          body: #"{"receipt_data":"\#(receipt)","user_id":\#(named)}"#)
        #expect(answer.status == 200 && answer["user_id"] == Self.alice, "\(named)")
        #expect(try await service.profile(Self.bob).verdict == "free active no_purchases")
      }
    }
  }

  @Test func `a refused caller is in the log, a user as a digest`() async throws {
    let settings = Settings(jwt: ["secret": TokenMint.secret])
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      let clock = Self.clock
      // A UUID is the same user in capitals.
      let token = try TokenMint.user(DialectBench.user.uppercased(), at: clock)
      #expect(try await service.profile("somebody", key: token).status == 403)
      #expect(try await service.send(.get, "/v1/brake", key: RunningService.publicKey).status == 403)
      #expect(
        try await service.send(.post, "/v1/revalidations", key: RunningService.supportKey, body: "{}").status == 403)
      #expect(try await service.profile("me", key: token).status == 200)
      let lines = try service.log.lines.compactMap {
        try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
      }.filter { $0["message"] as? String == "a request was forbidden" }
      #expect(lines.map { $0["caller"] as? String } == ["(user)", "app", "desk"])
      #expect(
        lines.map { $0["route"] as? String } == ["/v1/profiles/{user_id}", "/v1/brake", "/v1/revalidations"])
      #expect(
        lines.map { $0["user_sha256"] as? String } == [String(Settings.sha256(DialectBench.user).prefix(16)), nil, nil])
      #expect(!service.log.text.lowercased().contains(DialectBench.user))
    }
  }

  @Test func `other users are forbidden alike, known or not, and so are their purchases`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let bought = try await service.post(["receipt_data": receipt], key: Self.token(Self.alice))
      let id = try #require(bought["original_transaction_id"])
      let bob = try Self.token(Self.bob)
      let sameID = [TransportHeader("X-Request-Id", "same")]
      var bodies: Set<String> = []
      for path in [Self.alice, "nobody", "a%20b", Self.alice.uppercased()] {
        let answer = try await service.profile(path, key: bob, headers: sameID)
        #expect(answer.status == 403)
        #expect(answer["code"] == "forbidden")
        bodies.insert(answer.text)
      }
      #expect(bodies.count == 1)
      bodies = []
      for id in [id, "999"] {
        let answer = try await service.send(
          .post, "/v1/validations", key: bob, body: #"{"original_transaction_id":"\#(id)"}"#, headers: sameID)
        #expect(answer.status == 404)
        bodies.insert(answer.text)
      }
      #expect(bodies.count == 1)
    }
  }

  @Test func `every invalid credential gets the same answer, and no token is logged`() async throws {
    try await run { service, store in
      let expired = try Self.token(Self.alice, -7200)
      let forged = String(try Self.token(Self.alice).dropLast(4)) + "AAAA"
      let good = try Self.token(Self.alice)
      let sameID = [TransportHeader("X-Request-Id", "same")]
      var bodies: Set<String> = []
      for credential in [nil, "x", "a.b.c", expired, forged] {
        let answer = try await service.profile("me", key: credential, headers: sameID)
        #expect(answer.status == 401)
        #expect(answer.header("WWW-Authenticate") == "Bearer")
        bodies.insert(answer.text)
      }
      #expect(bodies.count == 1)
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await service.post(["receipt_data": receipt], key: good).status == 200)
      let log = service.log.text
      #expect(log.contains(TokenRefusal.expired.rawValue))
      #expect(log.contains(TokenRefusal.signature.rawValue))
      #expect(log.contains(#""caller":"(user)""#))
      #expect(!log.contains(TokenMint.secret))
      for token in [expired, forged, good] {
        for part in token.split(separator: ".") { #expect(!log.contains(part)) }
      }
    }
  }

  @Test func `without user tokens configured a token is no credential`() async throws {
    try await RunningService.run(apple: .unreachable, now: { Self.clock }) { (service) async throws in
      #expect(try await service.profile("me", key: Self.token(Self.alice)).status == 401)
      #expect(try await service.send(.get, "/readyz", key: nil)["user_keys"] == nil)
    }
  }

  @Test func `published keys rotate without a restart, and readiness shows how they are`() async throws {
    let old = P256.Signing.PrivateKey()
    let new = P256.Signing.PrivateKey()
    @Sendable func token(_ key: P256.Signing.PrivateKey, _ id: String) throws -> String {
      try TokenMint.token(
        header: #"{"alg":"ES256","kid":"\#(id)"}"#,
        claims: #"{"sub":"\#(Self.alice)","exp":\#(Int(Self.clock.timeIntervalSince1970) + 60)}"#, by: .es256(key))
    }
    try await WebhookReceiver.running { provider in
      provider.publish(TokenMint.set([TokenMint.jwk(old.publicKey, id: "old")]))
      let settings = Settings(jwt: ["jwks_url": "\"\(provider.keySetURL)\""])
      try await RunningService.run(apple: .unreachable, settings: settings, now: { Self.clock }) {
        (service) async throws in
        #expect(try await service.profile("me", key: token(old, "old")).status == 200)
        #expect(try await service.send(.get, "/readyz", key: nil)["user_keys"] == "ok")
        provider.publish(
          TokenMint.set([TokenMint.jwk(old.publicKey, id: "old"), TokenMint.jwk(new.publicKey, id: "new")]))
        #expect(try await service.profile("me", key: token(new, "new")).status == 200)
        #expect(try await service.profile("me", key: token(old, "old")).status == 200)
        #expect(try await service.profile("me", key: token(new, "old")).status == 401)
        #expect(try await service.profile("me", key: token(new, "newer")).status == 401)
      }
    }
  }

  @Test func `when the keys cannot be had, a user is told to come back, and a server is served`() async throws {
    // Nobody listens on the port of a server that has ended.
    let url = try await WebhookReceiver.running { $0.keySetURL }
    let settings = Settings(jwt: ["jwks_url": "\"\(url)\""])
    try await RunningService.run(apple: .unreachable, settings: settings, now: { Self.clock }) { service in
      let key = P256.Signing.PrivateKey()
      let token = try TokenMint.token(header: #"{"alg":"ES256","kid":"1"}"#, claims: "{}", by: .es256(key))
      let answer = try await service.profile("me", key: token)
      #expect(answer.status == 503)
      #expect(answer["code"] == "authentication_unavailable")
      #expect(answer["retryable"] == "true")
      #expect(answer.header("Retry-After") == "5")
      #expect(try await service.profile(Self.alice).status == 200)
      let ready = try await service.send(.get, "/readyz", key: nil)
      #expect(ready.status == 200)
      #expect(ready["user_keys"]?.hasPrefix("unavailable: ") == true)
    }
  }

  // MARK: - Whom a purchase names

  @Test func `each user gets those purchases of a receipt that do not name another`() async throws {
    try await ReplayedAppleTests.run { (service, script, receipt) async throws in
      script.say(
        ReplayedAppleTests.answer(
          inApp: [],
          latest: [
            ReplayedAppleTests.row("premium.monthly", id: "1", expires: 86_400, account: Self.alice),
            ReplayedAppleTests.row("pro.monthly", id: "2", expires: 86_400, account: Self.bob),
          ]))
      #expect(try await service.validate(receipt, user: Self.bob).verdict == "pro active renewing")
      #expect(try await service.validate(receipt, user: Self.alice).verdict == "premium active renewing")
      #expect(try await service.profile(Self.bob).verdict == "pro active renewing")
      // Where user IDs are no UUIDs, what a purchase names cannot be compared; who comes first has it.
      #expect(try await service.validate(receipt, user: "carol").status == 409)
    }
  }
}

extension WebhookReceiver {
  /// The address at which the keys of users' tokens are published.
  var keySetURL: String { url + "/auth/v1/.well-known/jwks.json" }

  func publish(_ keySet: String) { answer { _ in .json(keySet) } }
}
