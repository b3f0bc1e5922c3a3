import Foundation
import HTTPTransport
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import Countersign
@testable import Ledger

/// `/v1/events`: what the service tells, and what apps report.
@Suite struct EventsTests {
  static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

  /// One event of a page.
  struct Event {
    var id: String
    var type: String
    var timestamp: String
    var user: String
    var data: [String: Any]

    /// A member of the data.
    func text(_ name: String) -> String? { data[name] as? String }
  }

  struct Page {
    var events: [Event]
    var next: String

    init(_ answer: Answer) throws {
      let page = try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
      next = try #require(page["next"] as? String)
      events = try #require(page["events"] as? [[String: Any]]).map { event in
        Event(
          id: try #require(event["id"] as? String), type: try #require(event["type"] as? String),
          timestamp: try #require(event["timestamp"] as? String), user: try #require(event["user_id"] as? String),
          data: try #require(event["data"] as? [String: Any]))
      }
    }
  }

  private func events(_ service: RunningService, _ query: String = "") async throws -> Page {
    let answer = try await service.send(.get, "/v1/events\(query)")
    #expect(answer.status == 200, "\(answer.text)")
    return try Page(answer)
  }

  private func run(
    _ settings: Settings = Settings(server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret]),
    body: @Sendable (RunningService, SimulatedStore, MovingClock) async throws -> Void
  ) async throws {
    try await World.run(settings: settings) { try await body($0.service, $0.store, $0.clock) }
  }

  @Test func `a purchase is told once, however often it is posted, and read in pages`() async throws {
    try await run { service, store, _ in
      #expect(try await events(service).events.isEmpty)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      for user in ["anna", "anna"] { _ = try await service.validate(receipt, user: user) }
      _ = try await service.validate(try store.simulator.issueReceipt(.grace, subscriber: 2).receiptData, user: "ben")
      let page = try await events(service)
      #expect(
        page.events.map { "\($0.user) \($0.type)" } == [
          "anna subscription.started", "ben subscription.started", "ben subscription.billing_issue",
        ])
      let first = try #require(page.events.first)
      #expect(first.id.hasPrefix("evt_1718452800000_") && first.timestamp == "2024-06-15T12:00:00Z")
      #expect(first.text("tier") == "pro" && first.text("status") == "active" && first.text("reason") == "renewing")
      #expect(first.text("expires_at") == "2024-07-01T12:00:00Z" && first.text("environment") == "production")
      #expect(first.data["previous"] is NSNull && first.data["will_renew"] as? Bool == true)
      // One after the other.
      var (seen, after) = ([String](), "")
      while true {
        let next = try await events(service, "?limit=1\(after)")
        guard let event = next.events.first else { break }
        #expect(next.events.count == 1)
        seen.append(event.id)
        after = "&after=\(next.next)"
      }
      #expect(seen == page.events.map(\.id))
      #expect(page.next == page.events.last?.id)
      #expect(try await events(service, "?after=\(page.next)").next == page.next)
      // A ledger that was restored has another event of that number, or none yet.
      for id in ["evt_1_1", "evt_1718452800000_4"] {
        let lost = try await service.send(.get, "/v1/events?wait=30&after=\(id)")
        #expect(lost.status == 410 && lost["code"] == "unknown_cursor", "\(lost.text)")
      }
    }
  }

  @Test func `an event that cannot be read is passed over, and a follower goes on after it`() async throws {
    try await run { service, _, _ in
      let posted = #"{"events":[{"type":"a","user_id":"anna"},{"type":"b","user_id":"anna"}]}"#
      #expect(try await service.send(.post, "/v1/events", body: posted).status == 200)
      try await service.ledger.engine.submit { tables in
        try tables.execute(#"UPDATE change_event SET data = '{"given":1}' WHERE type = 'a'"#)
      }
      #expect(try await events(service).events.map(\.type) == ["b"])
      let first = try await events(service, "?limit=1")
      #expect(first.events.isEmpty && first.next != "0")
      #expect(try await events(service, "?limit=1&after=\(first.next)").events.map(\.type) == ["b"])
    }
  }

  @Test func `a purchase is told at the price that Apple signed, a refund with what goes back`() async throws {
    try await run { service, store, _ in
      let bought = try store.simulator.issueTransaction(.refundedProrated, age: .seconds(2 * 86_400))
      _ = try await service.validate(bought.signedTransaction, user: "anna")
      let refunded = try store.simulator.newestTransaction(ofOriginal: bought.originalTransactionID)
      _ = try await service.validate(refunded.signedTransaction, user: "anna")
      let trial = try store.simulator.issueTransaction(.trial, subscriber: 2).signedTransaction
      _ = try await service.validate(trial, user: "ben")
      // verifyReceipt tells no price, and the catalog's is none that was paid.
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 3).receiptData
      _ = try await service.validate(receipt, user: "carl")
      let told = try await events(service).events
      #expect(
        told.map(\.type) == [
          "subscription.started", "subscription.refunded", "trial.started", "subscription.started",
        ])
      try #require(told.count == 4)
      for event in told.prefix(2) {
        #expect(event.text("price") == "9.99" && event.text("currency") == "USD" && event.text("country") == "USA")
        #expect(event.data["offer_type"] is NSNull && event.data["offer_id"] is NSNull)
      }
      #expect(told[0].data["refund"] == nil && told[1].text("refund") == "4.496")
      #expect(told[2].text("price") == "0.00" && told[2].text("offer_type") == "introductory")
      for member in ["price", "currency", "country", "offer_type", "offer_id"] {
        #expect(told[3].data[member] is NSNull)
      }
    }
  }

  @Test func `grants, a reached limit and trials are told with their particulars`() async throws {
    try await run { service, _, clock in
      let given = try await service.send(
        .post, "/v1/profiles/cleo/grants", key: RunningService.supportKey,
        body: #"{"tier":"pro","for":"2d","note":"why"}"#)
      #expect(given.status == 201)
      for _ in 0..<4 { _ = try await service.send(.post, "/v1/profiles/anna/usage/questions", body: "{}") }
      let device = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a12"
      for user in ["anna", "ben", "ben"] {
        _ = try await service.send(
          .post, "/v1/trials", body: #"{"trial":"week","device_id":"\#(device)","user_id":"\#(user)"}"#)
      }
      clock.advance(by: 2 * 86_400)
      try await eventually { try await events(service).events.count == 5 }
      let told = try await events(service).events
      try #require(told.count == 5)
      #expect(
        told.map { "\($0.user) \($0.type)" } == [
          "cleo grant.started", "anna limit.reached", "anna trial.started", "ben trial.refused", "cleo grant.ended",
        ])
      for event in [told[0], told[4]] {
        #expect(event.text("kind") == "support" && event.text("tier") == "pro" && event.text("grant_id") == "1")
        #expect(event.text("ends_at") == "2024-06-17T12:00:00Z")
      }
      #expect(told[0].data["ended_at"] is NSNull)
      #expect(told[1].text("feature") == "questions" && told[1].data["limit"] as? Int == 2)
      #expect(told[1].text("resets_at") == "2024-06-16T00:00:00Z")
      #expect(told[2].text("trial") == "week" && told[2].text("device_id") == device)
      #expect(told[3].text("refused_by") == "device")
    }
  }

  @Test func `a reader who waits is answered as soon as there is an event`() async throws {
    try await run { service, store, _ in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      async let waiting = service.send(.get, "/v1/events?wait=30")
      _ = try await service.validate(receipt, user: "anna")
      #expect(try Page(try await waiting).events.map(\.type) == ["subscription.started"])
    }
  }

  @Test func `a reader who waits in vain is answered, within the deadline of a request`() async throws {
    let settings = Settings(server: ["request_deadline": "15s"], appStore: ["deadline": "6s"])
    try await run(settings) { service, _, _ in
      let page = try await events(service, "?after=0&wait=30")
      #expect(page.events.isEmpty && page.next == "0")
    }
  }

  @Test func `support reads the newest purchases first, and no other types`() async throws {
    try await run { service, store, _ in
      for number in 1...3 as ClosedRange<Int64> {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: number).receiptData
        _ = try await service.validate(receipt, user: "user-\(number)")
        _ = try await service.send(
          .post, "/v1/events", body: #"{"events":[{"type":"seen","user_id":"user-\#(number)"}]}"#)
      }
      let path = "/v1/events/newest?types=subscription.started,trial.started"
      let newest = try await service.send(.get, "\(path)&limit=2", key: RunningService.supportKey)
      #expect(newest.status == 200 && newest.header("Cache-Control") == "no-store", "\(newest.text)")
      #expect(newest.array("events").map { $0["user_id"] as? String } == ["user-3", "user-2"])
      let older = try await service.send(
        .get, "\(path)&limit=2&before=\(newest.object["before"] as? String ?? "")", key: RunningService.supportKey)
      #expect(older.array("events").map { $0["user_id"] as? String } == ["user-1"])
      #expect(older.object["before"] is NSNull)
      for query in [
        "", "?types=", "?types=seen", "?types=subscription.started,", "?types=subscription.started&before=x",
        "?types=subscription.started&limit=201", "?types=subscription.started&types=trial.started",
        "?types=" + Array(repeating: "trial.started", count: 7).joined(separator: ","),
      ] {
        let answer = try await service.send(.get, "/v1/events/newest\(query)")
        #expect(answer.status == 400 && answer["code"] == "malformed_request", "\(query)")
      }
    }
  }

  @Test func `a query that is none is refused`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      for query in [
        "limit=0", "limit=501", "limit=x", "wait=31", "wait=-1", "after=x", "after=-1", "after=9999999999999999999",
        "after=7",
        "after=1&after=2",
      ] {
        let answer = try await service.send(.get, "/v1/events?\(query)")
        #expect(answer.status == 400 && answer["code"] == "malformed_request", "\(query)")
      }
    }
  }

  @Test func `an app's events are kept as the token's user's, a server's as the named users', and read in their order`()
    async throws
  {
    try await run { service, _, clock in
      let token = try TokenMint.user(Self.user, at: clock.date)
      let body = #"""
        {"events":[{"type":"paywall_viewed","id":"a1","at":"2024-06-15T11:59:00Z",
          "properties":{"source":"home","spent_ms":12,"price":4.99,"deep":{"a":[1,null,true,"x"]},"id":123456789012345678}},
         {"type":"plan_selected","user_id":"\#(Self.user)","at":"2030-01-01T00:00:00Z"}]}
        """#
      let answer = try await service.send(.post, "/v1/events", key: token, body: body)
      #expect(answer.status == 200 && answer["recorded"] == "2")
      let told = try await events(service).events
      #expect(told.map { "\($0.user) \($0.type)" } == ["\(Self.user) paywall_viewed", "\(Self.user) plan_selected"])
      #expect(told.map(\.timestamp) == ["2024-06-15T11:59:00Z", "2024-06-15T12:00:00Z"])
      let raw = try await service.send(.get, "/v1/events?limit=1").text
      #expect(
        raw.contains(
          #""data":{"deep":{"a":[1,null,true,"x"]},"id":123456789012345678,"price":4.99,"source":"home","spent_ms":12}"#
        ))
      #expect(told.last?.data.isEmpty == true)
      let servers = try await service.send(
        .post, "/v1/events", body: #"{"events":[{"type":"a","user_id":"anna","id":"a1"},{"type":"b","user_id":"ben"}]}"#
      )
      #expect(servers["recorded"] == "2")
      #expect(try await events(service).events.suffix(2).map(\.user) == ["anna", "ben"])
      let list = try await service.send(.get, "/v1/events").text
      #expect(list.components(separatedBy: #""reported_id":"a1""#).count == 3)
      let export = try await service.send(.get, "/v1/profiles/\(Self.user)/export").text
      #expect(export.contains(#""reported_id":"a1""#))
    }
  }

  private static let reports: [(String, Int)] = [
    (#"{"events":[]}"#, 400), (#"{}"#, 400), (#"{"events":[{"type":"subscription.started"}]}"#, 400),
    (#"{"events":[{"type":""}]}"#, 400), (#"{"events":[{"type":"with space"}]}"#, 400),
    (#"{"events":[{"type":"a","at":"yesterday"}]}"#, 400),
    (#"{"events":[{"type":"a","id":""}]}"#, 400), (#"{"events":[{"type":"a","id":"two words"}]}"#, 400),
    (#"{"events":[{"type":"a","id":7}]}"#, 400), (#"{"events":[{"type":"a","id":"\u00e9"}]}"#, 400),
    (#"{"events":[{"type":"a","id":"\#(String(repeating: "x", count: 129))"}]}"#, 400),
    (#"{"events":[{"type":"a","id":"\#(String(repeating: "x", count: 128))"}]}"#, 200),
    (#"{"events":[{"type":"a","at":"2020-01-01T00:00:00Z"}]}"#, 400),
    (#"{"events":[{"type":"a","properties":[1]}]}"#, 400),
    (#"{"events":[{"type":"a","user_id":"somebody else"}]}"#, 403),
    (#"{"events":[\#(Array(repeating: #"{"type":"a"}"#, count: 51).joined(separator: ","))]}"#, 400),
    (#"{"events":[{"type":"a","properties":{"x":"\#(String(repeating: "y", count: 8_192))"}}]}"#, 400),
    (#"{"events":[{"type":"a","properties":{"x":"\#(String(repeating: "y", count: 8_184))"}}]}"#, 200),
    (#"{"events":[{"type":"a","properties":{"x":"\#(String(repeating: "y", count: 600_000))"}}]}"#, 413),
  ]

  @Test func `a report that is too large or none is refused as a whole`() async throws {
    try await run { service, _, clock in
      let token = try TokenMint.user(Self.user, at: clock.date)
      var kept = 0
      for (body, status) in Self.reports {
        let answer = try await service.send(.post, "/v1/events", key: token, body: body)
        #expect(answer.status == status, "\(body.prefix(200)) \(answer.text)")
        if status == 200 { kept += 1 }
        #expect(try await events(service).events.count == kept)
      }
    }
  }
}
