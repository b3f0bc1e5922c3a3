import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// Extensions of renewal dates, for one customer and for all of a product.
@Suite struct ExtensionTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800.123456789)
  fileprivate static let product = "com.example.app.pro.monthly"

  private static func run(
    settings: Settings = Settings(), _ body: @Sendable (World) async throws -> Void
  ) async throws {
    try await World.run(at: start, withServerAPI: true, withSecret: false, settings: settings, body: body)
  }

  @Test func `an extension counts at once, and the history says who gave it and why`() async throws {
    try await Self.run { world in
      let id = try await world.buy()
      #expect(try await world.end("u1") == 30)
      world.pass(60)
      let answer = try await world.extend(id)
      let record = answer.object
      #expect(answer.status == 200 && answer.header("Location") == "/v1/extensions/1")
      #expect(record["state"] as? String == "done" && record["author"] as? String == "desk")
      #expect(record["expires_at"] as? String == "2024-07-29T12:00:00Z")
      #expect(record["original_transaction_id"] as? String == id && record["product_id"] is NSNull)
      #expect(try await world.end("u1") == 44)
      let history = try await world.service.send(.get, "/v1/profiles/u1/history", key: RunningService.supportKey).text
      #expect(
        history.contains(
          "Apple extended the renewal date by 14 days, to 2024-07-29T12:00:00Z (customer_satisfaction). Ticket 4711"))
      let list = try await world.service.send(
        .get, "/v1/purchases/\(id)/extensions", key: RunningService.supportKey
      ).array("extensions")
      #expect(list.map { $0["id"] as? String } == ["1"])
      let export = try await world.service.send(.get, "/v1/profiles/u1/export").text
      #expect(export.contains(#""requestIdentifier":"#) || export.contains(#""request_identifier":"#))
      let metrics = try await world.service.send(.get, "/metrics", key: nil).text
      #expect(metrics.contains(#"countersign_renewal_extensions_total{of="purchase",outcome="done"} 1"#))
      // It renews at the new end.
      world.pass(43 * 86_400)
      #expect(
        try await world.service.validate(
          try world.simulator.newestTransaction(ofOriginal: id).signedTransaction, user: "u1"
        ).status == 200)
      #expect(try await world.end("u1") == 44)
    }
  }

  @Test func `a lost answer extends nothing twice, and the job finds out what Apple did`() async throws {
    try await Self.run { world in
      let id = try await world.buy()
      world.pass(60)
      world.simulator.setTrouble(.reset, count: 1, service: .serverAPI)
      let answer = try await world.extend(id)
      let waiting = answer.object
      #expect(answer.status == 202 && waiting["state"] as? String == "due")
      #expect(waiting["problem"] as? String != nil && waiting["closed_at"] is NSNull)
      #expect(try await world.extend(id).object["id"] as? String == "1", "asked for already")
      let other = try await world.extend(id, days: 30)
      #expect(other.status == 422 && other.text.contains("whether it extends this subscription by 14 days"))
      world.pass(60)
      try await eventually { try await world.state()["state"] as? String == "done" }
      #expect(world.simulator.calls.serverAPI.byEndpoint["extend"] == 2)
      try await eventually { try await world.end("u1") == 44 }
    }
  }

  @Test func `an idempotency key extends once, and refuses another extension`() async throws {
    try await Self.run { world in
      let id = try await world.buy()
      world.pass(60)
      for _ in 0..<2 {
        let answer = try await world.extend(id, idempotencyKey: "form-1")
        #expect(answer.status == 200)
        #expect(answer.object["id"] as? String == "1")
      }
      #expect(try await world.extend(id, days: 15, idempotencyKey: "form-1").status == 422)
      #expect(try await world.end("u1") == 44)
      #expect(try await world.extend(id, idempotencyKey: "form-2").object["state"] as? String == "done")
      #expect(try await world.end("u1") == 58)
      let third = try await world.extend(id, idempotencyKey: "form-3").object
      #expect(third["state"] as? String == "refused")
      #expect(third["problem"] as? String == "Apple extends a subscription twice in 365 days at most.")
    }
  }

  @Test func `a refusal of Apple's is said in words, and a request that cannot be asked is refused here`() async throws
  {
    try await Self.run { world in
      let trial = try await world.buy(.trial, 1)
      let shared = try await world.buy(.familyShared, 2)
      for (id, words) in [(trial, "not in a free offer"), (shared, "shared in a family")] {
        let record = try await world.extend(id).object
        #expect(record["state"] as? String == "refused")
        #expect((record["problem"] as? String)?.contains(words) == true)
      }
      #expect(try await world.extend("7").status == 404)
      #expect(try await world.extend(trial, days: 91).status == 400)
      #expect(try await world.extend(trial, days: 0).status == 400)
      #expect(try await world.extend(trial, reason: "kindness").status == 400)
      #expect(try await world.extend(trial, note: nil).status == 400)
      #expect(try await world.extend(trial, note: nil, key: RunningService.serviceKey).status == 200)
    }
    try await RunningService.besideStore(at: Self.start) { service, _ in
      let answer = try await service.send(
        .post, "/v1/purchases/7/extensions", body: #"{"days":1,"reason":"other"}"#)
      #expect(answer.status == 404 && answer.text.contains("app_store.server_api"))
    }
  }

  @Test func `all subscribers of a product are extended, paced by Apple, and each counts by its notification`()
    async throws
  {
    try await Self.run { world in
      for (index, scenario) in [Scenario.subscriber, .renewalOff, .trial].enumerated() {
        _ = try await world.buy(scenario, Int64(index + 1))
      }
      let before = try await world.end("u1")
      try world.simulator.deliverNotifications(to: "http://127.0.0.1:\(world.service.port)/v1/notifications/app-store")
      world.pass(60)
      let body = #"{"days":3,"reason":"service_issue","note":"the outage of Friday","storefronts":["USA"]}"#
      let answer = try await world.extendAll(body)
      let begun = answer.object
      #expect(answer.status == 202 && begun["product_id"] as? String == Self.product)
      #expect((begun["progress"] as? [String: Any])?["expected"] as? Int == 3)
      #expect(try await world.extendAll(body).object["id"] as? String == "1", "it is under way")
      try await eventually { try await world.state()["state"] as? String == "running" }
      #expect(try await world.end("u1") == before)
      world.pass(3_660)
      _ = await world.simulator.deliveries()
      let done = try await world.state()
      #expect(done["state"] as? String == "done" && done["closed_at"] is String)
      let progress = done["progress"] as? [String: Int]
      #expect(progress == ["expected": 3, "extended": 2, "failed": 1])
      #expect(try await world.end("u1") == before + 3)
      let events = try await world.service.send(.get, "/v1/events").array("events").map { $0["type"] as? String }
      #expect(events.count { $0 == "apple.renewal_extended" } == 2)
      #expect(events.count { $0 == "apple.renewal_extension" } == 2, "a failure and the summary")
      let list = try await world.service.send(.get, "/v1/extensions").array("extensions")
      #expect(list.count == 1)
      #expect(world.simulator.calls.serverAPI.byEndpoint["extend_mass"] == 1)
    }
  }

  @Test func `without notifications the status tells the end of it`() async throws {
    try await Self.run { world in
      _ = try await world.buy()
      world.simulator.setTrouble(.http500, count: 1, service: .serverAPI)
      #expect(try await world.extendAll(#"{"days":3,"reason":"service_issue"}"#).status == 202)
      try await eventually { try await world.state()["problem"] is String }
      try await eventually(looks: 4_000) {
        world.pass(40)
        return try await world.state()["state"] as? String == "running"
      }
      for _ in 0..<2 { world.pass(3_600) }
      try await eventually { try await world.state()["state"] as? String == "done" }
      let progress = try await world.state()["progress"] as? [String: Int]
      #expect(progress == ["expected": 1, "extended": 1, "failed": 0])
      for (body, product) in [
        (#"{"days":3,"reason":"service_issue"}"#, "none"), (#"{"days":3,"reason":"x"}"#, Self.product),
        (#"{"days":3,"reason":"other","storefronts":["de"]}"#, Self.product),
        (#"{"days":3,"reason":"other","bundle_id":"x.y"}"#, Self.product),
      ] {
        let status = try await world.extendAll(body, product: product).status
        #expect(status == (product == "none" ? 404 : 400), "\(body)")
      }
    }
  }
}

extension World {
  fileprivate func buy(_ scenario: Scenario = .subscriber, _ subscriber: Int64 = 1) async throws -> String {
    let bought = try simulator.issueTransaction(scenario, subscriber: subscriber)
    #expect(try await service.validate(bought.signedTransaction, user: "u\(subscriber)").status == 200)
    return bought.originalTransactionID
  }

  fileprivate func extend(
    _ id: String, days: Int = 14, reason: String = "customer_satisfaction", note: String? = "Ticket 4711",
    key: String = RunningService.supportKey, idempotencyKey: String? = nil
  ) async throws -> Answer {
    let said = note.map { #","note":"\#($0)""# } ?? ""
    return try await service.send(
      .post, "/v1/purchases/\(id)/extensions", key: key, body: #"{"days":\#(days),"reason":"\#(reason)"\#(said)}"#,
      headers: idempotencyKey.map { [TransportHeader("Idempotency-Key", $0)] } ?? [])
  }

  fileprivate func extendAll(_ body: String, product: String = ExtensionTests.product) async throws -> Answer {
    try await service.send(.post, "/v1/products/\(product)/extensions", body: body)
  }

  fileprivate func state(_ id: String = "1") async throws -> [String: Any] {
    try await service.send(.get, "/v1/extensions/\(id)", key: RunningService.supportKey).object
  }

  /// The end of a user's paid period, in days from the start.
  fileprivate func end(_ user: String) async throws -> Double {
    let text = try #require(try await service.profile(user).object["expires_at"] as? String)
    let date = try Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: text.contains(".")))
    return (date.timeIntervalSince(ExtensionTests.start) / 86_400).rounded(.toNearestOrEven)
  }
}
