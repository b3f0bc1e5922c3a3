import Crypto
import Entitlements
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Ledger

/// Webhooks from end to end: the running service, its ledger, and a receiver.
@Suite struct WebhookTests {
  static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
  static let newSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

  private func settings(_ url: String, more: String = "", secrets: [String] = [secret]) -> Settings {
    var settings = Settings()
    settings.webhookSecrets = secrets
    settings.webhooks = ["name: shop, url: \(url)/hook?key=hidden, private: true\(more)"]
    return settings
  }

  private func run(
    more: String = "", secrets: [String] = [secret], directory: URL? = nil, clock: MovingClock = MovingClock(),
    receiver: WebhookReceiver, body: @Sendable (RunningService, MovingClock) async throws -> Void
  ) async throws {
    try await RunningService.run(
      apple: .unreachable, settings: settings(receiver.url, more: more, secrets: secrets), directory: directory,
      now: { clock.date }
    ) { service in try await body(service, clock) }
  }

  /// Makes an event of a user.
  private func grant(_ service: RunningService, to user: String) async throws {
    let answer = try await service.send(
      .post, "/v1/profiles/\(user)/grants", body: #"{"tier":"pro","for":"30d"}"#)
    #expect(answer.status == 201)
  }

  /// Waits until the one event is given up: the schedule of the specification, up to a tenth more; the pause of the whole
  /// receiver is shorter from the third on.
  static func giveUp(_ service: RunningService, _ receiver: WebhookReceiver, _ clock: MovingClock) async throws {
    try await eventually { receiver.requests.count == 1 }
    for (attempt, pause) in [300, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400].enumerated() {
      try await eventually { try await service.ledger.webhookStatus("shop")?.problemAt == clock.date }
      clock.advance(by: Double(pause) * 1.1 + 1)
      try await eventually { receiver.requests.count >= attempt + 2 }
    }
    try await eventually { try await service.ledger.webhookStatus("shop")?.dead == 1 }
  }

  /// The check of a receiver by the specification, written without our code.
  static func isAuthentic(_ request: TestRequest, _ secret: String, now: Date, body: [UInt8]? = nil) -> Bool {
    guard let id = request.header("webhook-id"), let time = request.header("webhook-timestamp"),
      let signatures = request.header("webhook-signature")
    else { return false }
    return isAuthentic(id: id, time: time, signatures: signatures, body: body ?? request.body, secret, now: now)
  }

  static func isAuthentic(
    id: String, time: String, signatures: String, body: [UInt8], _ secret: String, now: Date
  ) -> Bool {
    guard let seconds = Double(time), abs(seconds - now.timeIntervalSince1970) <= 300,
      let key = Data(base64Encoded: String(secret.dropFirst("whsec_".count)))
    else { return false }
    let content = Data("\(id).\(time).".utf8) + Data(body)
    return signatures.split(separator: " ").contains { signature in
      guard signature.hasPrefix("v1,"), let code = Data(base64Encoded: String(signature.dropFirst(3))) else {
        return false
      }
      return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: content, using: SymmetricKey(data: key))
    }
  }

  private static func event(_ request: TestRequest) throws -> (type: String, user: String) {
    let object = try #require(try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any])
    return (try #require(object["type"] as? String), try #require(object["user_id"] as? String))
  }

  @Test(.enabled(if: TestEngine.isPostgreSQL, "Replicas share a PostgreSQL database."))
  func `one replica delivers to a receiver, and the next goes on when it ends`() async throws {
    let directory = try TemporaryDirectory()
    try await WebhookReceiver.running { receiver in
      try await run(directory: directory.url, receiver: receiver) { last, clock in
        try await run(directory: directory.url, clock: clock, receiver: receiver) { first, _ in
          for number in 0..<10 {
            try await grant(number.isMultiple(of: 2) ? first : last, to: "user-\(number)")
          }
          try await eventually { receiver.requests.count >= 10 }
          let metrics = try await first.send(.get, "/metrics", key: nil).text
          #expect(metrics.contains("countersign_ledger_conflicts_total ") && metrics.contains("countersign_replicas "))
        }
        try await grant(last, to: "user-10")
        try await eventually { receiver.requests.count >= 11 }
        let users = try receiver.requests.map { try Self.event($0).user }
        #expect(users.sorted() == (0...10).map { "user-\($0)" }.sorted())
      }
    }
  }

  @Test func `an event is told once, signed, as it is listed`() async throws {
    try await WebhookReceiver.running { receiver in
      try await run(receiver: receiver) { service, clock in
        try await grant(service, to: "anna")
        try await eventually { receiver.requests.count == 1 }
        let request = try #require(receiver.requests.first)
        #expect(request.method == "POST" && request.target == "/hook?key=hidden")
        #expect(request.header("content-type") == "application/json")
        #expect(Self.isAuthentic(request, Self.secret, now: clock.date))
        // One bit of anything signed is enough.
        var tampered = request.body
        tampered[3] ^= 1
        #expect(!Self.isAuthentic(request, Self.secret, now: clock.date, body: tampered))
        #expect(!Self.isAuthentic(request, Self.newSecret, now: clock.date))
        #expect(!Self.isAuthentic(request, Self.secret, now: clock.date + 301))
        let listed = try await service.send(.get, "/v1/events").text
        let id = try #require(request.header("webhook-id"))
        #expect(listed == "{\"events\":[\(request.text)],\"next\":\"\(id)\"}\n")
        // Nothing is left to do.
        try await eventually { try await service.ledger.webhookStatus("shop")?.oldest == nil }
        #expect(try await service.ledger.webhookStatus("shop") == WebhookStatus())
        #expect(receiver.requests.count == 1)
        #expect(!service.log.text.contains("MfKQ") && !service.log.text.contains("hidden"))
      }
    }
  }

  @Test(arguments: LateRenewalTests.Source.allCases)
  func `the end of a grace period is told as that and no other end, as it is listed`(
    source: LateRenewalTests.Source
  ) async throws {
    let day: TimeInterval = 86_400
    try await WebhookReceiver.running { receiver in
      try await World.run(
        at: noon - 5 * day, withServerAPI: source == .serverAPI, withSecret: source != .serverAPI,
        settings: settings(receiver.url)
      ) { world in
        let (service, simulator) = (world.service, world.simulator)
        // At noon the period is over for three days: it is bought, and its end is seen, before.
        simulator.setClock(noon)
        let proof =
          source == .verifyReceipt
          ? try simulator.issueReceipt(.grace, age: .seconds(5 * day)).receiptData
          : try simulator.issueTransaction(.grace, age: .seconds(5 * day)).signedTransaction
        simulator.setClock(world.clock.date)
        #expect(try await service.validate(proof, user: "anna").verdict == "pro active renewing")
        if source == .notifications {
          try simulator.deliverNotifications(to: "\(service.origin)/v1/notifications/app-store")
        }
        try await eventually { receiver.requests.count == 1 }
        try await world.move(by: 2 * day + 60)
        try await eventually { receiver.requests.count == 2 }
        #expect(try await service.profile("anna").verdict == "pro grace_period billing_grace")
        // The charge is tried for weeks more.
        try await world.move(by: 16 * day)
        try await eventually { receiver.requests.count == 3 }
        #expect(try await service.profile("anna").verdict == "free expired billing_error")
        #expect(
          try receiver.requests.map { try Self.event($0).type }
            == ["subscription.started", "subscription.billing_issue", "subscription.grace_ended"])
        let listed = try await service.send(.get, "/v1/events")
        let told = receiver.requests.map(\.text).joined(separator: ",")
        #expect(listed.text.hasPrefix("{\"events\":[\(told)],"))
        let last = try #require(try EventsTests.Page(listed).events.last)
        #expect(last.text("status") == "expired" && last.text("reason") == "billing_error" && last.user == "anna")
        #expect((last.data["previous"] as? [String: Any])?["reason"] as? String == "billing_grace")
      }
    }
  }

  @Test func `an event that fails is sent again by the schedule, with the same ID, and then given up`() async throws {
    try await WebhookReceiver.running { receiver in
      receiver.answer(500)
      try await run(receiver: receiver) { service, clock in
        try await grant(service, to: "anna")
        try await eventually { receiver.requests.count == 1 }
        #expect(try await service.send(.get, "/v1/webhooks").array("webhooks").map { $0["waiting"] as? Int } == [1])
        let waiting = try await service.send(.get, "/metrics", key: nil).text
        #expect(waiting.contains(#"countersign_webhook_waiting{webhook="shop"} 1"#))
        try await Self.giveUp(service, receiver, clock)
        let requests = receiver.requests
        #expect(requests.count == 10)
        #expect(Set(requests.compactMap { $0.header("webhook-id") }).count == 1)
        #expect(Set(requests.compactMap { $0.header("webhook-timestamp") }).count == 10)
        #expect(Set(requests.map(\.text)).count == 1)
        // It is listed, and somebody has it sent again.
        let dead = try await service.send(.get, "/v1/webhooks/dead", key: RunningService.supportKey)
        #expect(
          dead.status == 200 && dead.text.contains(#""problem":"http_500""#) && dead.text.contains(#""attempts":10"#))
        let shown = try await service.send(.get, "/v1/webhooks", key: RunningService.supportKey)
        #expect(shown.text.contains(#""dead":1"#) && shown.text.contains(#""origin":"\#(receiver.url)""#))
        #expect(!shown.text.contains("hidden"))
        #expect(service.log.text.contains("an event was given up: it can be redelivered"))
        let metrics = try await service.send(.get, "/metrics", key: nil).text
        #expect(metrics.contains(#"countersign_webhook_dead{webhook="shop"} 1"#))
        #expect(metrics.contains(#"countersign_webhook_attempts_total{webhook="shop",outcome="failed"} 9"#))
        #expect(metrics.contains(#"countersign_webhook_attempts_total{webhook="shop",outcome="dead"} 1"#))
        receiver.answer(200)
        let again = try await service.send(
          .post, "/v1/webhooks/redeliver", key: RunningService.supportKey, body: #"{"webhook":"shop","dead":true}"#)
        #expect(again.status == 200 && again["redelivered"] == "1")
        clock.advance(by: 301)
        try await eventually { receiver.requests.count == 11 }
        #expect(receiver.requests.last?.header("webhook-id") == requests.first?.header("webhook-id"))
        try await eventually { try await service.ledger.webhookStatus("shop") == WebhookStatus() }
      }
    }
  }

  @Test func `an event that was sent and not answered before the process ended is sent again with the same ID`()
    async throws
  {
    let directory = try TemporaryDirectory()
    try await WebhookReceiver.running { receiver in
      receiver.answer { _ in nil }
      try await run(directory: directory.url, receiver: receiver) { service, _ in
        try await grant(service, to: "anna")
        try await eventually { receiver.requests.count == 1 }
      }
      receiver.answer(200)
      try await run(directory: directory.url, receiver: receiver) { service, _ in
        try await eventually { receiver.requests.count == 2 }
        let ids = receiver.requests.map { $0.header("webhook-id") }
        #expect(ids[0] != nil && ids[0] == ids[1])
        #expect(receiver.requests[0].text == receiver.requests[1].text)
        try await eventually { try await service.ledger.webhookStatus("shop") == WebhookStatus() }
      }
    }
  }

  @Test func `nothing more is delivered to a receiver that answered 410, until somebody enables it`() async throws {
    try await WebhookReceiver.running { receiver in
      receiver.answer(410)
      try await run(receiver: receiver) { service, clock in
        try await grant(service, to: "anna")
        try await eventually { try await service.ledger.webhookStatus("shop")?.isEnabled == false }
        try await grant(service, to: "ben")
        clock.advance(by: 10 * 86_400)
        let listed = try await service.send(.get, "/v1/webhooks")
        #expect(listed.text.contains(#""enabled":false"#))
        #expect(
          try await service.send(.get, "/metrics", key: nil).text.contains(#"webhook_disabled{webhook="shop"} 1"#))
        #expect(receiver.requests.count == 1)
        receiver.answer(200)
        let enabled = try await service.send(.post, "/v1/webhooks/redeliver", body: #"{"webhook":"shop"}"#)
        #expect(enabled["redelivered"] == "0")
        try await eventually(clock, step: 10) { receiver.requests.count >= 3 }
        #expect(try receiver.requests.map(Self.event).map(\.user) == ["anna", "anna", "ben"])
      }
    }
  }

  @Test func `one event is told again, whether it was given up or not`() async throws {
    try await WebhookReceiver.running { receiver in
      try await run(receiver: receiver) { service, _ in
        try await grant(service, to: "anna")
        try await eventually { receiver.requests.count == 1 }
        // Until it is noted, it counts as on its way.
        try await eventually { try await service.send(.get, "/v1/webhooks").text.contains(#""oldest_at":null"#) }
        let id = try #require(receiver.requests.first?.header("webhook-id"))
        let again = try await service.send(
          .post, "/v1/webhooks/redeliver", body: #"{"webhook":"shop","event_id":"\#(id)"}"#)
        #expect(again["redelivered"] == "1")
        try await eventually { receiver.requests.count == 2 }
        #expect(receiver.requests.last?.header("webhook-id") == id)
        // The app's own events are for receivers that name them.
        _ = try await service.send(
          .post, "/v1/events", body: #"{"events":[{"type":"paywall_viewed","user_id":"anna"}]}"#)
        let viewed = try #require(try EventsTests.Page(try await service.send(.get, "/v1/events")).events.last?.id)
        for (body, status) in [
          (#"{"webhook":"shop","event_id":"\#(viewed)"}"#, 400), (#"{"webhook":"shop","event_id":"evt_1_99"}"#, 404),
          (#"{"webhook":"shop","event_id":"x"}"#, 404),
          (#"{"webhook":"other"}"#, 404), (#"{"webhook":"shop","event_id":"\#(id)","dead":true}"#, 400), ("{}", 400),
          (#"{"webhook":"shop","discard":true}"#, 400),
          (#"{"webhook":"shop","event_id":"\#(id)","discard":true}"#, 404),
        ] {
          #expect(try await service.send(.post, "/v1/webhooks/redeliver", body: body).status == status, "\(body)")
        }
        #expect(try await service.send(.get, "/v1/webhooks/dead?webhook=other").status == 404)
        #expect(try await service.send(.get, "/v1/webhooks/dead?webhook=shop&after=x").status == 400)
      }
    }
  }

  @Test func `a receiver gets the events that it names, and during a change two secrets sign`()
    async throws
  {
    try await WebhookReceiver.running { receiver in
      try await run(
        more: ", events: [grant.*, paywall_viewed]", secrets: [Self.secret, Self.newSecret], receiver: receiver
      ) { service, clock in
        _ = try await service.send(
          .post, "/v1/events",
          body: #"{"events":[{"type":"paywall_viewed","user_id":"anna"},{"type":"other","user_id":"anna"}]}"#)
        for _ in 0..<3 { _ = try await service.send(.post, "/v1/profiles/anna/usage/questions", body: "{}") }
        try await grant(service, to: "anna")
        try await eventually { receiver.requests.count >= 2 }
        #expect(try receiver.requests.map(Self.event).map(\.type) == ["paywall_viewed", "grant.started"])
        for request in receiver.requests {
          #expect(Self.isAuthentic(request, Self.secret, now: clock.date))
          #expect(Self.isAuthentic(request, Self.newSecret, now: clock.date))
        }
      }
    }
  }

  @Test func `a receiver of RevenueCat's format is told in its words`() async throws {
    try await WebhookReceiver.running { receiver in
      let clock = MovingClock()
      try await RunningService.besideStore(
        settings: settings(receiver.url, more: ", format: revenuecat"), now: { clock.date }
      ) { service, store in
        let email = CustomerAttribute(value: "ben@example.com", updatedAtMilliseconds: 1_718_452_800_000)
        _ = try await service.ledger.keep(["$email": email], of: "ben", at: noon)
        _ = try await service.validate(try store.simulator.issueReceipt(.grace).receiptData, user: "anna")
        try await grant(service, to: "ben")
        for _ in 0..<3 { _ = try await service.send(.post, "/v1/profiles/carl/usage/questions", body: "{}") }
        let signed = try store.simulator.issueTransaction(.renewing, subscriber: 2).signedTransaction
        _ = try await service.validate(signed, user: "dora")
        try await eventually { receiver.requests.count == 4 }
        let events = try receiver.requests.map { request -> [String: Any] in
          let object = try #require(try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any])
          #expect(object["api_version"] as? String == "1.0")
          return try #require(object["event"] as? [String: Any])
        }.sorted { "\($0["id"] ?? "")" < "\($1["id"] ?? "")" }
        #expect(
          events.map { $0["type"] as? String } == [
            "INITIAL_PURCHASE", "BILLING_ISSUE", "NON_RENEWING_PURCHASE", "INITIAL_PURCHASE",
          ])
        #expect(events.map { $0["app_user_id"] as? String } == ["anna", "anna", "ben", "dora"])
        #expect(
          events.map { $0["store"] as? String } == ["APP_STORE", "APP_STORE", "PROMOTIONAL", "APP_STORE"])
        #expect(events.allSatisfy { $0["app_id"] as? String == "com.example.app" })
        let attributes = events.map { $0["subscriber_attributes"] as? [String: [String: Any]] ?? ["none": [:]] }
        #expect(attributes.map(\.count) == [0, 0, 1, 0])
        #expect(attributes[2]["$email"]?["value"] as? String == "ben@example.com")
        // verifyReceipt tells no price.
        #expect(events[0]["price"] is NSNull && events[0]["price_in_purchased_currency"] is NSNull)
        #expect(events[1]["price"] as? Double == 0)
        #expect(events[3]["price"] as? Double == 4.99 && events[3]["currency"] as? String == "USD")
        #expect(
          events[0]["entitlement_ids"] as? [String] == ["pro"] && events[0]["environment"] as? String == "PRODUCTION")
        #expect(events[1]["grace_period_expiration_at_ms"] as? Int == 1_719_576_000_000)
        #expect(events[2]["expiration_at_ms"] as? Int == 1_721_044_800_000)
        // Our own reader of such events takes them.
        #expect(receiver.requests.allSatisfy { Self.isAuthentic($0, Self.secret, now: clock.date) })
      }
    }
  }

  @Test func `a receiver at a private address is not connected to, unless it is named as one`() async throws {
    try await WebhookReceiver.running { receiver in
      var settings = Settings()
      settings.webhookSecrets = [Self.secret]
      settings.webhooks = ["name: shop, url: https://127.0.0.1:\(receiver.port)/hook"]
      try await RunningService.run(apple: .unreachable, settings: settings) { service in
        try await grant(service, to: "anna")
        try await eventually { try await service.ledger.webhookStatus("shop")?.problem == "private_address" }
        #expect(receiver.requests.isEmpty)
      }
    }
  }
}
