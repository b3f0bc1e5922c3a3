import CountersignAPI
import Entitlements
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import CountersignServer
@testable import Ledger

/// Export and erasure, through HTTP on the running service, with Apple and the profile store beside it.
@Suite struct ErasureHTTPTests {
  private static let anna = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  private static let phone = "11111111-1111-4111-8111-111111111111"

  private func run(
    withKey: Bool = false,
    body: @Sendable (RunningService, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    let settings = Settings(
      server: ["user_rate_limit": "0"], appStore: ["deadline": "4s"], jwt: ["secret": TokenMint.secret])
    try await RunningService.besideStores(
      withServerAPI: withKey, settings: settings, deadline: "2s", body: body)
  }

  private func erase(_ service: RunningService, _ user: String = anna, key: String = RunningService.supportKey)
    async throws -> ErasureResponse
  {
    let answer = try await service.send(.delete, "/v1/profiles/\(user)", key: key)
    #expect(answer.status == 200, "\(answer.text)")
    return try JSONDecoder.countersign.decode(ErasureResponse.self, from: Data(answer.body))
  }

  /// A subscription, a grant, a trial on a phone, a consumption and a question of support's.
  @discardableResult
  private func fill(
    _ service: RunningService, _ store: SimulatedStore, _ clock: MovingClock
  ) async throws -> (receipt: String, id: String) {
    let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
    let id = try #require(receipt.originalTransactionIDs.first)
    let token = try TokenMint.user(Self.anna, at: clock.date)
    #expect(
      try await service.send(
        .post, "/v1/trials", key: token,
        body: #"{"device_id":"\#(Self.phone)","device":{"model":"iPhone15,2"},"push_token":"abc"}"#
      ).status == 201)
    _ = try await service.validate(receipt.receiptData, user: Self.anna)
    _ = try await service.send(
      .post, "/v1/profiles/\(Self.anna)/grants", key: RunningService.supportKey,
      body: #"{"tier":"premium","for":"30d","note":"for \#(Self.anna)"}"#)
    _ = try await service.send(
      .post, "/v1/profiles/me/usage/questions", key: token, body: #"{"amount":1,"time_zone":"Europe/Berlin"}"#,
      headers: [TransportHeader("Idempotency-Key", "one")])
    _ = try await service.send(
      .post, "/v1/profiles/\(Self.anna)/revalidation", key: RunningService.supportKey,
      body: #"{"note":"she asks"}"#)
    return (receipt.receiptData, id)
  }

  /// Whether the files of the ledger hold a text.
  private func isOnDisk(_ text: String, _ directory: URL) -> Bool {
    ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"].contains { name in
      let path = directory.appending(path: name).path(percentEncoded: false)
      guard let bytes = FileManager.default.contents(atPath: path) else { return false }
      return [text, text.uppercased()].contains { bytes.holds(Array($0.utf8)) }
    }
  }

  @Test func `an erased user is nobody: in reads, in the row, on the disk and in the page's searches`() async throws {
    try await run { service, store, profiles, clock in
      let (_, id) = try await fill(service, store, clock)
      #expect(try await service.profile(Self.anna)["tier"] == "premium")
      #expect(try await service.send(.get, "/v1/profiles/\(Self.anna)/access")["tier"] == "premium")
      let erased = try await erase(service)
      #expect(erased.profileWrite == .committed && erased.userID == Self.anna)
      #expect(erased.kept.purchases > 0 && erased.kept.trials == 1 && erased.kept.grants == 2)
      #expect(erased.erased.receipts == 1 && erased.erased.devices == 1 && erased.erased.usage == 3)
      #expect(erased.erased.notes == 2)
      #expect(!isOnDisk(Self.anna, service.directory))

      // The caches are as empty as the ledger.
      #expect(try await service.profile(Self.anna).verdict == "free active no_purchases")
      let access = try await service.send(.get, "/v1/profiles/\(Self.anna)/access")
      #expect(access["tier"] == "free" && access["time_zone"] != "Europe/Berlin")
      #expect(access.text.contains(#""current":0"#))
      let row = try #require(profiles.row(Self.anna))
      #expect(row["subscription_tier"] == .text("free") && row["subscription_status"] == .text("active"))
      #expect(row["subscription_expires_at"] == .null && row["original_transaction_id"] == .null)
      let found = try await service.send(.get, "/v1/lookup/\(Self.anna)", key: RunningService.supportKey)
      #expect(found["user_id"] == "null" && found.array("purchases").isEmpty)
      let purchase = try await service.send(.get, "/v1/transactions/\(id)", key: RunningService.supportKey)
      #expect(purchase.status == 200 && purchase.text.contains(#""user_id":"(erased)""#), "\(purchase.text)")
      #expect(!purchase.text.contains("erased/") && !purchase.text.contains(Self.anna))
      let trial = try await service.send(.get, "/v1/trials/\(Self.phone)")
      #expect(trial["user_id"] == "(erased)")
      #expect(!service.log.lines.contains { $0.contains("a user was erased") && $0.contains(Self.anna) })

      let moved = try await service.send(
        .post, "/v1/transactions/\(id)/transfer", key: RunningService.supportKey,
        body: #"{"to":"\#(Self.anna)","note":"she is back","create":true}"#)
      #expect(moved.status == 200 && moved.text.contains(#""from_user_id":"(erased)""#), "\(moved.text)")
      #expect(try await service.profile(Self.anna).verdict == "pro active renewing")
      #expect(profiles.row(Self.anna)?["subscription_tier"] == .text("pro"))
    }
  }

  @Test func `a row that is not there is not waited for, and a second erasure answers as the first of nobody does`()
    async throws
  {
    try await run { service, store, profiles, clock in
      try await fill(service, store, clock)
      profiles.remove(Self.anna)
      #expect(try await erase(service).profileWrite == .missing)
      #expect(!isOnDisk(Self.anna, service.directory))
      var again = try await erase(service, key: RunningService.serviceKey)
      let nobody = try await erase(service, "nobody-ever")
      again.userID = nobody.userID
      #expect(again == nobody && nobody.profileWrite == .none && nobody.kept.purchases == 0)
      let strange = try await service.send(.delete, "/v1/profiles/erased%2F0123", key: RunningService.supportKey)
      #expect(strange.status == 400)
      // An ID of RevenueCat's may have signs that others have not.
      #expect(try await erase(service, "%C3%A4nne%2C").userID == "änne,")
      #expect(
        try await service.send(.delete, "/v1/profiles/me", key: RunningService.supportKey).status == 403)
    }
  }

  @Test(.ofTheFile) func `while the store is away the outbox alone keeps the ID`() async throws {
    try await run { service, store, profiles, clock in
      try await fill(service, store, clock)
      profiles.set(.http503)
      for _ in 0..<2 { #expect(try await erase(service).profileWrite == .queued) }
      #expect(try await service.profile(Self.anna).verdict == "free active no_purchases")
      #expect(isOnDisk(Self.anna, service.directory))
      #expect(profiles.row(Self.anna)?["subscription_tier"] == .text("premium"))
      profiles.set(.ok)
      try await eventually(clock) { profiles.row(Self.anna)?["subscription_tier"] == .text("free") }
      try await eventually { !isOnDisk(Self.anna, service.directory) }
      #expect(try await erase(service).profileWrite == .none)
    }
  }

  @Test func `Apple is asked about an erased purchase by its ID, where there is a key`() async throws {
    try await run(withKey: true) { service, store, profiles, clock in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      let id = try #require(receipt.originalTransactionIDs.first)
      _ = try await service.validate(receipt.receiptData, user: Self.anna)
      _ = try await erase(service)
      func evidence() async throws -> String? {
        let answer = try await service.send(.get, "/v1/transactions/\(id)", key: RunningService.supportKey)
        return (answer.array("purchases").first?["state"] as? [String: Any])?["evidence_at"] as? String
      }
      let before = try #require(try await evidence())
      clock.advance(by: 40 * 86_400)
      store.simulator.advanceClock(by: .seconds(40 * 86_400))
      try await eventually { try await evidence() != before }
      #expect(try await service.profile(Self.anna).verdict == "free active no_purchases")
      #expect(profiles.rows.keys.allSatisfy { !$0.contains("erased") })
    }
  }

  @Test func `an export is one document with everything, for servers and staff`() async throws {
    try await run { service, store, profiles, clock in
      let (receipt, _) = try await fill(service, store, clock)
      let bens = try store.simulator.issueReceipt(.renewing, subscriber: 2)
      _ = try await service.validate(bens.receiptData, user: "another-one")
      let id = try #require(bens.originalTransactionIDs.first)
      _ = try await service.send(
        .post, "/v1/transactions/\(id)/transfer", key: RunningService.supportKey,
        body: #"{"to":"\#(Self.anna)","note":"moved"}"#)
      for key in [RunningService.serviceKey, RunningService.supportKey] {
        let answer = try await service.send(.get, "/v1/profiles/\(Self.anna)/export", key: key)
        #expect(answer.status == 200 && answer.header("Content-Type") == "application/json")
        #expect(answer.header("Cache-Control") == "no-store")
        #expect(answer.header("Content-Disposition")?.contains("attachment") == true)
        let list = answer.array(_:)
        #expect(answer["user_id"] == Self.anna && answer["time_zone"] == "Europe/Berlin")
        #expect(list("grants").count == 2 && list("trials").count == 1 && list("consumptions").count == 1)
        #expect(list("devices").first?["push_token"] as? String == "abc")
        let receipts = list("purchases").compactMap { ($0["receipt"] as? [String: Any])?["receipt_data"] as? String }
        #expect(receipts.contains(receipt))
        #expect(list("history").contains { $0["note"] as? String == "she asks" })
        let change = list("history").first { $0["kind"] as? String == "ownership_change" && $0["note"] is String }
        #expect(change?["from_user_id"] as? String == "(another user)" && !answer.text.contains("another-one"))
        #expect(!answer.text.contains(RunningService.serviceKey) && !answer.text.contains("a-shared-secret"))
      }
      // Nobody knows the length before it is written.
      let head = try await service.exchange(
        "HEAD /v1/profiles/\(Self.anna)/export HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
          + "Authorization: Bearer \(RunningService.supportKey)\r\n\r\n")
      #expect(head.hasPrefix("HTTP/1.1 200 ") && head.hasSuffix("\r\n\r\n"), "\(head)")
      #expect(!head.lowercased().contains("content-length"), "\(head)")
      let users = try TokenMint.user(Self.anna, at: clock.date)
      #expect(try await service.send(.get, "/v1/profiles/\(Self.anna)/export", key: users).status == 403)
      #expect(try await service.send(.delete, "/v1/profiles/\(Self.anna)", key: users).status == 403)
      #expect(try await service.profile(Self.anna)["tier"] == "premium", "nothing was erased")
      // Nobody has as little as somebody who was erased.
      _ = try await erase(service)
      func empty(_ user: String) async throws -> String {
        try await service.send(.get, "/v1/profiles/\(user)/export").text.replacing(user, with: "?")
      }
      #expect(try await empty(Self.anna) == empty("nobody-ever"))
      // A history of many pages is whole.
      for number in 0..<230 {
        _ = try await service.ledger.keepNote(
          Note(author: "desk", text: "note \(number)", requestID: "r", recordedAt: noon), about: "ben")
      }
      let many = try await service.send(.get, "/v1/profiles/ben/export").array("history")
      #expect(many.compactMap { $0["note"] as? String } == (0..<230).reversed().map { "note \($0)" })
    }
  }
}
