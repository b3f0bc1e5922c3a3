import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Apple's notifications, sent on as they came, and the events of what the service does not act on.
@Suite struct ForwardingTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800.123456789)

  static func payload(_ request: TestRequest) throws -> String {
    try #require(JSONSerialization.jsonObject(with: Data(request.body)) as? [String: String])["signedPayload"] ?? ""
  }

  @Test func `a receiver gets each as Apple signed it, once, in the order of its purchase`() async throws {
    let clock = MovingClock(Self.start)
    try await WebhookReceiver.running { receiver in
      var settings = Settings()
      settings.forwards = ["name: other, url: \(receiver.url)/apple, private: true"]
      try await RunningService.besideStore(at: Self.start, settings: settings, now: { clock.date }) { service, store in
        var told: [SimulatedNotification] = []
        for subscriber in 1...3 {
          let signed = try store.simulator.issueTransaction(.renewalOff, subscriber: Int64(subscriber))
          if subscriber == 1 { _ = try await service.validate(signed.signedTransaction) }
          told += try store.simulator.notifications(of: signed.originalTransactionID)
        }
        for one in told + told { #expect(try await service.notify(one).status == 200) }
        #expect(try await service.notify(#"{"signedPayload":"forged"}"#).status == 200)
        try await eventually { receiver.requests.count >= told.count }
        let came = try receiver.requests.map(Self.payload)
        #expect(Set(came) == Set(told.map(\.signedPayload)) && came.count == told.count)
        for id in Set(told.map(\.originalTransactionID)) {
          let own = told.filter { $0.originalTransactionID == id }.map(\.signedPayload)
          #expect(came.filter { own.contains($0) } == own)
        }
        #expect(receiver.requests.allSatisfy { $0.target == "/apple" && $0.header("webhook-signature") == nil })
        #expect(!(try await service.send(.get, "/v1/events").text.contains("apple.notification")))
        #expect(try await service.send(.get, "/v1/webhooks").text.contains(#""format":"app_store""#))
      }
    }
  }

  @Test func `a notification that fails is sent again as Apple does it, and others go on`() async throws {
    let clock = MovingClock(Self.start)
    try await WebhookReceiver.running { receiver in
      var settings = Settings()
      settings.forwards = ["url: \(receiver.url), private: true"]
      try await RunningService.besideStore(at: Self.start, settings: settings, now: { clock.date }) { service, store in
        var told: [SimulatedNotification] = []
        for subscriber in 1...2 {
          let signed = try store.simulator.issueTransaction(.subscriber, subscriber: Int64(subscriber))
          told += try store.simulator.notifications(of: signed.originalTransactionID)
        }
        #expect(told.count == 2)
        let refused = told[0].signedPayload
        receiver.answer { TestAnswer(status: $0.text.contains(refused) ? 410 : 200) }
        func attempts() -> Int { receiver.requests.count { $0.text.contains(refused) } }
        for one in told { _ = try await service.notify(one) }
        // The other one comes, too, although a receiver that failed rests for a moment.
        try await eventually(clock) { attempts() >= 1 && receiver.requests.count == attempts() + 1 }
        for attempt in 2...6 { try await eventually(clock, step: 3_600) { attempts() == attempt } }
        // One, 12, 24, 48 and 72 hours, and up to a tenth more.
        #expect(clock.date.timeIntervalSince(Self.start) >= 157 * 3_600)
        try await eventually { try await service.send(.get, "/v1/webhooks").text.contains(#""dead":1"#) }
        receiver.answer(200)
        let name = receiver.url.dropFirst("http://".count)
        // It is its purchase's, and no user's.
        #expect(
          try await service.send(.get, "/v1/webhooks/dead?webhook=\(name)").text.contains(#""user_id":null"#))
        let again = try await service.send(
          .post, "/v1/webhooks/redeliver", body: #"{"webhook":"\#(name)","dead":true}"#)
        #expect(again.status == 200)
        try await eventually(clock) { attempts() == 7 }
      }
    }
  }

  @Test func `a notification that the service does not act on is an event with its fields`() async throws {
    let signer = try DevelopmentPKI().signedData
    try await RunningService.besideStore(at: Self.start) { service, store in
      let signed = try store.simulator.issueTransaction(.subscriber)
      _ = try await service.validate(signed.signedTransaction)
      func post(_ type: String, _ subject: String, _ members: [(String, JSON)]) async throws {
        let payload = JSON.object([
          ("notificationType", .string(type)), ("notificationUUID", .string("uuid-\(type)")), ("version", "2.0"),
          ("signedDate", .integer(1_718_452_800_000)),
          (subject, .object([("bundleId", "com.example.app"), ("environment", "Production")] + members)),
        ])
        let answer = try await service.notify(#"{"signedPayload":"\#(try signer.sign(payload))"}"#)
        #expect(answer.status == 200)
      }
      let transaction: [(String, JSON)] = [("signedTransactionInfo", .string(signed.signedTransaction))]
      try await post("CONSUMPTION_REQUEST", "data", transaction + [("consumptionRequestReason", "UNINTENDED_PURCHASE")])
      try await post(
        "RESCIND_CONSENT", "appData", [("signedAppTransactionInfo", .string(try store.simulator.issueAppTransaction()))]
      )
      try await post(
        "EXTERNAL_PURCHASE_TOKEN", "externalPurchaseToken",
        [("externalPurchaseId", "token-1"), ("tokenCreationDate", .integer(1_718_452_800_000))])
      try await post(
        "RENEWAL_EXTENSION", "summary",
        [
          ("requestIdentifier", "request-1"), ("productId", "com.example.app.pro.monthly"),
          ("storefrontCountryCodes", .array(["USA", "DEU"])), ("succeededCount", 5), ("failedCount", .integer(2)),
        ])
      try await post("SOMETHING_NEW", "data", transaction)
      try await post("REFUND_DECLINED", "data", transaction)
      let answer = try await service.send(.get, "/v1/events")
      let events = try #require(answer.object["events"] as? [[String: Any]]).filter {
        ($0["type"] as? String)?.hasPrefix("apple.") == true
      }
      #expect(
        events.map { $0["type"] as? String } == [
          "apple.consumption_request", "apple.rescind_consent", "apple.external_purchase_token",
          "apple.renewal_extension", "apple.other", "apple.refund_declined",
        ])
      #expect(events.map { $0["user_id"] as? String } == ["user-1", nil, nil, nil, "user-1", "user-1"])
      let data = try events.map { try #require($0["data"] as? [String: Any]) }
      #expect(data[0]["consumption_request_reason"] as? String == "UNINTENDED_PURCHASE")
      #expect(data[0]["original_transaction_id"] as? String == signed.originalTransactionID)
      #expect(data[1]["app_transaction_id"] as? String != nil)
      #expect(data[2]["external_purchase_id"] as? String == "token-1")
      #expect(data[2]["token_created_at"] as? String == "2024-06-15T12:00:00Z")
      #expect(data[3]["storefronts"] as? [String] == ["USA", "DEU"] && data[3]["succeeded"] as? Int == 5)
      #expect(data[4]["notification_type"] as? String == "SOMETHING_NEW")
      #expect(data[5]["subtype"] == nil)
    }
  }
}
