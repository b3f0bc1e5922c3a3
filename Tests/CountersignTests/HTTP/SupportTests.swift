import Entitlements
import Foundation
import HTTPTransport
import Ledger
import LedgerFixtures
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// Support's day: why is this user on this tier, ask Apple anew, and whose is this purchase?
@Suite struct SupportTests {
  static let support = RunningService.supportKey

  private func run(
    _ settings: Settings = Settings(), jobPause: Duration = .seconds(3600), body: @Sendable (World) async throws -> Void
  ) async throws {
    try await World.run(settings: settings, jobPause: jobPause, body: body)
  }

  // MARK: The history

  @Test func `a history explains each verdict in words, with the machine's members beside them`() async throws {
    try await run { world in
      let receipt = try world.store.simulator.issueReceipt(.grace, subscriber: 1)
      let id = try #require(receipt.originalTransactionIDs.first)
      _ = try await world.service.validate(receipt.receiptData)
      world.advance(days: 14)
      _ = try await world.service.validate(originalTransactionID: id)
      world.advance(days: 60)
      _ = try await world.service.validate(originalTransactionID: id)

      let history = try await world.service.history()
      #expect(history.kinds == ["verdict", "verdict", "verdict", "ownership_change"])
      #expect(
        history.explanations == [
          """
          Apple could not renew the payment. The subscription ended on 12 June 2024. The tier is free, as before.
          """,
          """
          Apple could not renew the payment. The subscription ended on 12 June 2024. The tier is free; it was pro until \
          then.
          """,
          """
          Apple could not renew the payment on 12 June 2024, and grants a grace period; access to pro runs until \
          28 June 2024. Apple keeps trying; a new payment method in the customer's Apple account resolves this. The tier \
          is pro.
          """,
          "The purchase \(id) was presented for the first time.",
        ])
      let grace = try #require(history.entries.dropFirst(2).first)
      #expect(grace["tier"] as? String == "pro")
      #expect(grace["status"] as? String == "grace_period")
      #expect(grace["reason"] as? String == "billing_grace")
      #expect(grace["expires_at"] as? String == "2024-06-12T12:00:00Z")
      #expect(grace["access_until"] as? String == "2024-06-28T12:00:00Z")
      #expect(grace["product_id"] as? String == "com.example.app.pro.monthly")
      #expect(grace["original_transaction_id"] as? String == id)
      #expect(grace["environment"] as? String == "production")
      #expect(grace["evidence_at"] as? String == "2024-06-15T12:00:00Z")
      #expect(grace["recorded_at"] as? String == "2024-06-15T12:00:00Z")
      #expect((grace["request_id"] as? String)?.isEmpty == false)
      #expect(grace["changed"] as? Bool == true)
      #expect(grace["asked_by"] is NSNull && grace["note"] is NSNull)
      let decision = try #require(grace["decision"] as? [String: Any])
      #expect(decision["reason"] as? String == "billing_grace")
      #expect(history.now["tier"] as? String == "free")
      let period = try #require(history.periods.first)
      #expect(period["ends_at"] as? String == "2024-06-12T12:00:00Z")
      #expect(period["starts_at"] as? String == "2024-05-12T12:00:00Z")
      #expect(period["tier"] as? String == "pro")
      #expect(history.answer.header("Cache-Control") == "no-store")
      #expect(!history.answer.text.contains(receipt.receiptData.prefix(40)))
    }
  }

  @Test func `pages follow one another to the end and miss nothing`() async throws {
    try await run { world in
      let receipt = try world.store.simulator.issueReceipt(.subscriber, subscriber: 1)
      let user = "auth0|5f7c@example.com"
      for _ in 0..<7 {
        _ = try await world.service.validate(receipt.receiptData, user: user)
        world.advance(days: 1)
      }
      let whole = try await world.service.history(of: "auth0%7C5f7c@example.com")
      #expect(whole.entries.count == 8)
      #expect(whole.next == nil)
      var reported: [String] = []
      var path: String? = "/v1/profiles/auth0%7C5f7c%40example.com/history?limit=3"
      var pages = 0
      while let next = path {
        let page = try await world.service.history(at: next)
        reported += page.explanations
        path = page.next
        pages += 1
      }
      #expect(pages == 3)
      #expect(reported == whole.explanations)
    }
  }

  private static let wrongQueries = [
    "cursor=", "cursor=x", "cursor=h1-1-1-1", "cursor=h2-", "cursor=h2-1-1", "cursor=h2--1", "cursor=h3-1",
    "cursor=h2-01", "cursor=h2-+1", "cursor=h2-%2B1", "cursor=h2-1C", "cursor=h2-zzzzzzzzzzzzzzz",
    "cursor=h2-1&cursor=h2-1", "cursor=\(String(repeating: "h", count: 5000))", "cursor=%00", "cursor=H2-1", "limit=0",
    "limit=201", "limit=-1",
    "limit=", "limit=ten", "limit=1&limit=2", "limit=1e2", "limit=%2B5", "limit=00000000000000000000000000000001",
  ]

  @Test func `a cursor or limit that is none is a 400`() async throws {
    try await run { world in
      for query in Self.wrongQueries {
        let answer = try await world.service.send(.get, "/v1/profiles/u/history?\(query)", key: Self.support)
        #expect(answer.status == 400 && answer["code"] == "malformed_request", "\(query) \(answer.text)")
      }
    }
  }

  // MARK: Asking anew

  @Test func `re-validation asks about every receipt, past the answers of a moment ago, and keeps the note`()
    async throws
  {
    try await run(Settings(policy: ["reuse": "1h"])) { world in
      let first = try world.store.simulator.issueReceipt(.renewing, subscriber: 1)
      let second = try world.store.simulator.issueReceipt(.lifetime, subscriber: 2)
      _ = try await world.service.validate(first.receiptData)
      _ = try await world.service.validate(second.receiptData)
      world.store.simulator.advanceClock(by: .seconds(60))
      world.store.simulator.resetCalls()
      let answer = try await world.service.revalidate(note: "  The customer paid,\nand sees free.  ")
      #expect(answer.status == 200, "\(answer.text)")
      #expect(answer.verdict == "premium active lifetime")
      #expect(answer["stale"] == "false")
      #expect(answer["source"] == "verify_receipt")
      #expect(world.store.simulator.calls.total == 2)
      let history = try await world.service.history()
      #expect(history.kinds.count { $0 == "revalidation" } == 1)
      let verdicts = history.entries.filter { $0["kind"] as? String == "verdict" && $0["note"] is String }
      // The purchase for life is as old as its receipt: of it Apple has said nothing new.
      #expect(verdicts.count == 1)
      for entry in history.entries where entry["note"] is String {
        #expect(entry["note"] as? String == "The customer paid,\nand sees free.")
        #expect(entry["asked_by"] as? String == "desk")
        #expect(entry["request_id"] as? String == answer.header("X-Request-Id"))
      }
    }
  }

  @Test func `while Apple is away the answer is the proven state, stale, and the note is kept all the same`()
    async throws
  {
    let settings = Settings(appStore: ["deadline": "6s"])
    try await run(settings) { world in
      let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: 1)
      _ = try await world.service.validate(receipt.receiptData)
      world.store.simulator.setTrouble(.http503)
      world.advance(days: 1)
      let answer = try await world.service.revalidate(note: "again")
      #expect(answer.status == 200, "\(answer.text)")
      #expect(answer.verdict == "pro active renewing")
      #expect(answer["stale"] == "true")
      #expect(answer["source"] == "ledger")
      let entry = try #require(try await world.service.history().entries.first)
      #expect(entry["kind"] as? String == "revalidation")
      #expect(entry["note"] as? String == "again")
      #expect(entry["asked_by"] as? String == "desk")
    }
  }

  @Test func `a kept receipt that Apple refuses now leaves what is proven, stale, and says so in the log`() async throws
  {
    try await run { world in
      let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: 1)
      _ = try await world.service.validate(receipt.receiptData)
      world.store.simulator.setTrouble(.status21003)
      let answer = try await world.service.revalidate(note: "again")
      #expect(answer.verdict == "pro active renewing")
      #expect(answer["stale"] == "true")
      #expect(world.service.log.text.contains("a kept receipt was refused"))
    }
  }

  @Test func `a user never seen reads as one who never bought`() async throws {
    try await run { world in
      let answer = try await world.service.revalidate("nobody", note: "who?")
      #expect(answer.status == 200)
      #expect(answer.verdict == "free active no_purchases")
      #expect(answer["stale"] == "false")
      #expect(answer["source"] == "ledger")
      #expect(world.store.simulator.calls.total == 0)
      #expect(try await world.service.history(of: "nobody").kinds == ["revalidation"])
    }
  }

  @Test func `a server need not say why, nor send a body`() async throws {
    try await run { world in
      let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: 1)
      _ = try await world.service.validate(receipt.receiptData)
      let path = "/v1/profiles/user-1/revalidation"
      for body in [nil, "{}", #"{"note":null}"#] {
        let answer = try await world.service.send(.post, path, body: body)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.verdict == "pro active renewing")
      }
      #expect(try await world.service.history().kinds == ["verdict", "ownership_change"])
      #expect(try await world.service.send(.post, path, body: #"{"note":"nightly"}"#).status == 200)
      let asked = try await world.service.history().entries.first { $0["kind"] as? String == "revalidation" }
      #expect(asked?["asked_by"] as? String == "backend")
    }
  }

  private static let withoutReason = [
    nil, "{}", #"{"note":null}"#, #"{"note":""}"#, #"{"note":" \n\t "}"#, #"{"note":5}"#, #"{"note":"a","note":"b"}"#,
    #"{"note":"\u0000"}"#, #"{"note":"\u001b[31m"}"#, #"{"note":"\#(String(repeating: "ä", count: 1001))"}"#,
  ]

  @Test func `support has to say why, in plain words and not too many`() async throws {
    try await run { world in
      for body in Self.withoutReason {
        for path in ["/v1/profiles/u/revalidation", "/v1/transactions/1/transfer"] {
          let sent =
            path.hasSuffix("transfer") ? body.map { $0.replacing("{", with: #"{"to":"a","#, maxReplacements: 1) } : body
          let answer = try await world.service.send(
            .post, path, key: Self.support, body: sent?.replacing(",}", with: "}"))
          let isBodilessTransfer = body == nil && path.hasSuffix("transfer")
          #expect(answer.status == (isBodilessTransfer ? 415 : 400), "\(path) \(answer.text)")
          if body == nil, !isBodilessTransfer { #expect(answer["detail"]?.contains("'note' is missing") == true) }
        }
      }
      #expect(try await world.service.history(of: "u").entries.isEmpty)
      // A thousand characters are kept as they are.
      let note = String(repeating: "ä", count: 999) + "\u{202E}"
      #expect(try await world.service.revalidate("u", note: note).status == 200)
      #expect(try await world.service.history(of: "u").entries.first?["note"] as? String == note)
    }
  }

  @Test func `a ledger that cannot be written means no answer, and Apple is not asked`() async throws {
    try await run { world in
      await world.service.ledger.close()
      for answer in [
        try await world.service.revalidate(note: "again"),
        try await world.service.send(.get, "/v1/profiles/u/history", key: Self.support),
        try await world.service.send(.get, "/v1/transactions/1", key: Self.support),
        try await world.service.send(.get, "/v1/lookup/anna", key: Self.support),
        try await world.service.transfer("1", to: "ben"),
      ] {
        #expect(answer.status == 503)
        #expect(answer["code"] == "ledger_unavailable")
      }
      #expect(world.store.simulator.calls.total == 0)
    }
  }

  // MARK: Whose is it?

  @Test func `a purchase is found by its ID, and moves to another user with both rows and both histories`() async throws
  {
    try await ProfileStoreDouble.running { profiles in
      try await run(Settings(profileStore: .store(profiles.url))) { world in
        let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: 1)
        let id = try #require(receipt.originalTransactionIDs.first)
        _ = try await world.service.validate(receipt.receiptData, user: "anna")
        #expect(try await world.service.validate(receipt.receiptData, user: "ben")["code"] == "owned_by_another_user")

        let found = try await world.service.send(.get, "/v1/transactions/\(id)", key: Self.support)
        #expect(found.status == 200)
        let purchase = try #require(found.array("purchases").first)
        #expect(purchase["user_id"] as? String == "anna")
        #expect(purchase["owned_since"] as? String == "2024-06-15T12:00:00Z")
        #expect((purchase["state"] as? [String: Any])?["tier"] as? String == "pro")

        world.advance(days: 1)
        let moved = try await world.service.transfer(id, to: "ben", note: "Ben has the receipt on his phone")
        #expect(moved.status == 200, "\(moved.text)")
        #expect(moved["user_id"] == "ben")
        #expect(moved["owned_since"] == "2024-06-16T12:00:00Z")
        #expect(try await world.service.profile("anna").verdict == "free active no_purchases")
        #expect(try await world.service.profile("ben").verdict == "pro active renewing")
        #expect(try await world.service.profile("ben")["profile_write"] == "committed")
        #expect(profiles.row("anna")?["subscription_tier"] == .text("free"))
        #expect(profiles.row("ben")?["subscription_tier"] == .text("pro"))
        #expect(profiles.applied.suffix(2).map(\.user) == ["anna", "ben"], "the loser's row first")
        for user in ["anna", "ben"] {
          let history = try await world.service.history(of: user)
          #expect(history.kinds.prefix(2) == ["verdict", "ownership_change"])
          for entry in history.entries.prefix(2) {
            #expect(entry["note"] as? String == "Ben has the receipt on his phone")
            #expect(entry["asked_by"] as? String == "desk")
          }
          #expect(!(history.explanations.dropFirst().first ?? "").contains(user == "anna" ? "ben" : "anna"))
        }
        #expect(try await world.service.transfer(id, to: "ben", note: "again")["user_id"] == "ben")
        #expect(try await world.service.validate(receipt.receiptData, user: "ben").verdict == "pro active renewing")
        #expect(try await world.service.validate(receipt.receiptData, user: "anna")["code"] == "owned_by_another_user")
      }
    }
  }

  @Test func `a user who was never seen gets a purchase only where the caller says that they are meant`() async throws {
    try await run { world in
      let id = try await world.subscribe()
      for create in [nil, false] {
        let refused = try await world.service.transfer(id, to: "ana", create: create)
        #expect(refused.status == 409 && refused["code"] == "unknown_user", "\(refused.text)")
        #expect(refused["type"] == "/problems/unknown_user" && refused["retryable"] == "false")
      }
      #expect(try await world.service.profile("anna").verdict == "pro active renewing")
      #expect(try await world.service.lookUp("ana").kinds.isEmpty, "a refusal leaves no trace")
      // Whoever did anything is known, and so is who has it already.
      #expect(try await world.service.consume("questions", of: "ben").status == 200)
      #expect(try await world.service.lookUp("ben").kinds == ["user_id"])
      #expect(try await world.service.transfer(id, to: "anna", create: nil).status == 200)
      #expect(try await world.service.transfer(id, to: "ben", create: nil)["user_id"] == "ben")
      #expect(try await world.service.transfer(id, to: "ana")["user_id"] == "ana")
      #expect(try await world.service.transfer("990000", to: "carl", create: nil)["code"] == "unknown_transaction")
    }
  }

  @Test func `where both stores know the ID, the transfer has to say which is meant`() async throws {
    try await run { world in
      let id = try await world.subscribe()
      // The simulator never hands out one ID twice.
      let row = Purchase(
        productID: "com.example.app.pro.monthly", transactionID: "1", originalTransactionID: OriginalTransactionID(id),
        purchaseDate: noon, expiresDate: noon + 86_400)
      let evidence = PurchaseHistory(
        environment: .sandbox, source: .verifyReceipt, evidenceTime: noon, evaluatedAt: noon,
        purchases: [row]
      ).evidence()
      _ = try await world.service.ledger.record(
        LedgerEntry(
          user: "tester", evidence: evidence, contestedKeys: Set(evidence.map(\.key)),
          receipt: KeptReceipt(base64: "MIAA", environment: .sandbox, bundleID: "com.example.app"),
          origin: .presented(.keep),
          evaluatedAt: noon, recordedAt: noon, requestID: "test",
          rules: StandInRules { _, _, _, now in
            .none(
              tier: "free", reason: .noPurchases,
              explanation: Explanation(decidedBy: nil, passedOver: [], evaluatedAt: now))
          }))
      let found = try await world.service.send(.get, "/v1/transactions/\(id)", key: Self.support)
      #expect(found.array("purchases").compactMap { $0["user_id"] as? String } == ["anna", "tester"])
      #expect(try await world.service.transfer(id, to: "ben").status == 400)
      #expect(try await world.service.transfer(id, to: "ben", environment: "xcode").status == 400)
      #expect(try await world.service.transfer(id, to: "ben", environment: "sandbox")["environment"] == "sandbox")
      #expect(try await world.service.profile("anna").verdict == "pro active renewing")
      #expect(try await world.service.profile("tester").verdict == "free active no_purchases")
    }
  }

  @Test func `an ID never seen is unknown, and one that is none is refused`() async throws {
    try await run { world in
      for (method, path) in [
        (TransportRequest.Method.get, "/v1/transactions/990000"), (.post, "/v1/transactions/990000/transfer"),
      ] {
        let body = method == .post ? #"{"to":"ben","note":"n"}"# : nil
        let answer = try await world.service.send(method, path, key: Self.support, body: body)
        #expect(answer.status == 404)
        #expect(answer["code"] == "unknown_transaction")
      }
      #expect(try await world.service.transfer("990000", to: "ben", environment: "sandbox").status == 404)
      for id in ["a%20b", "%00", "%zz", String(repeating: "1", count: 65)] {
        #expect(try await world.service.send(.get, "/v1/transactions/\(id)", key: Self.support).status == 400, "\(id)")
      }
      for user in ["", "me", "a b", "a/b"] {
        #expect(try await world.service.transfer("990000", to: user)["code"] == "malformed_request", "\(user)")
      }
    }
  }
}

/// A page of a history.
struct HistoryPage: @unchecked Sendable {
  // The values of a JSON object are not Sendable, and nobody changes them.
  var answer: Answer
  var entries: [[String: Any]] { answer.array("entries") }
  var periods: [[String: Any]] { answer.array("periods") }
  var now: [String: Any] { answer.object["now"] as? [String: Any] ?? [:] }
  var next: String? { answer.object["next"] as? String }
  var kinds: [String] { entries.compactMap { $0["kind"] as? String } }
  var explanations: [String] { entries.compactMap { $0["explanation"] as? String } }
}

extension Answer {
  var object: [String: Any] {
    (try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]) ?? [:]
  }

  func array(_ member: String) -> [[String: Any]] { object[member] as? [[String: Any]] ?? [] }
}

extension RunningService {
  func history(of user: String = "user-1") async throws -> HistoryPage {
    try await history(at: "/v1/profiles/\(user)/history")
  }

  func history(at path: String) async throws -> HistoryPage {
    let answer = try await send(.get, path, key: Self.supportKey)
    if answer.status != 200 { throw Failure("\(path): \(answer.text)") }
    return HistoryPage(answer: answer)
  }

  func revalidate(_ user: String = "user-1", note: String) async throws -> Answer {
    let body = try JSONSerialization.data(withJSONObject: ["note": note])
    return try await send(
      .post, "/v1/profiles/\(user)/revalidation", key: Self.supportKey, body: String(decoding: body, as: UTF8.self))
  }

  func transfer(
    _ id: String, to user: String, note: String = "wrong account", environment: String? = nil, create: Bool? = true
  ) async throws -> Answer {
    var object: [String: Any] = ["to": user, "note": note]
    object["create"] = create
    object["environment"] = environment
    let body = try JSONSerialization.data(withJSONObject: object)
    return try await send(
      .post, "/v1/transactions/\(id)/transfer", key: Self.supportKey, body: String(decoding: body, as: UTF8.self))
  }
}
