import Access
import Entitlements
import Foundation
import Resilience
import Synchronization
import Testing
import Webhooks

@testable import Ledger
@testable import Validation

/// The order in which the job delivers events, on a real ledger.
@Suite struct WebhookDelivererTests {
  /// Takes the events of every user but those whose IDs begin with `bad`.
  private final class Receiver: WebhookSender {
    private let taken = Mutex<[String]>([])
    var bodies: [String] { taken.withLock { $0 } }

    func send(_ message: WebhookMessage, to endpoint: WebhookEndpoint, at timestamp: Int64) async -> WebhookOutcome {
      let body = String(decoding: message.body, as: UTF8.self)
      guard !body.contains(#""user_id":"bad"#) else { return .failed(problem: "http_500", retryAfter: nil) }
      taken.withLock { $0.append(body) }
      return .delivered
    }
  }

  private static func event(_ type: String, of user: String) -> AppEvent {
    AppEvent(user: UserID(user), type: type, at: UseCase.start, properties: "{}")
  }

  /// Records that the receiver failed to take some events, which are due again at once.
  private static func fail(_ events: [ChangeEvent], attempts: Int, _ ledger: Ledger) async throws {
    try await ledger.settleWebhook(
      "shop",
      events.map { WebhookResult(of: $0, .failed(attempts: attempts, due: UseCase.start, problem: "http_500")) },
      through: events.last?.sequence, isGone: false, at: UseCase.start)
  }

  @Test func `events that are never taken hold up no other user's`() async throws {
    try await UseCase.run { useCase in
      let ledger = useCase.ledger
      let endpoint = WebhookEndpoint(name: "shop", url: "https://shop.example", secrets: [], events: ["viewed"])
      try await ledger.keepWebhooks([endpoint.name: endpoint.url])
      // The receiver cannot read them: each failed before, and is due.
      try await ledger.record((0..<20).map { Self.event("viewed", of: "bad-\($0)") }, at: UseCase.start)
      let failed = try await ledger.webhookWork(of: "shop", dueAt: UseCase.start, due: 1, fresh: 100).fresh
      try await Self.fail(failed, attempts: 1, ledger)
      let receiver = Receiver()
      let clock = Mutex(UseCase.start)
      let deliverer = WebhookDeliverer(
        endpoints: [endpoint], sender: receiver, ledger: ledger, logger: UseCase.logger,
        now: { clock.withLock { $0 } }, jitter: { _ in .zero }, pause: .seconds(1),
        catalog: try Catalog(tiers: ["free"], products: [:]), entitlements: .exact, onAttempt: { _, _, _ in })
      var pace = WebhookDeliverer.Pace()
      #expect(await !deliverer.turn(endpoint, &pace))
      // More than a page that it did not ask for, and then one.
      for _ in 0..<3 {
        try await ledger.record((0..<50).map { Self.event("other", of: "user-\($0)") }, at: UseCase.start)
      }
      try await ledger.record([Self.event("viewed", of: "zoe")], at: UseCase.start)
      for _ in 0..<30 {
        clock.withLock { $0.addTimeInterval(1) }
        while await deliverer.turn(endpoint, &pace) {}
      }
      #expect(receiver.bodies.count == 1 && receiver.bodies.first?.contains("zoe") == true)
    }
  }

  @Test func `an event that cannot be read is given up untried, and holds up nothing`() async throws {
    try await UseCase.run { useCase in
      let ledger = useCase.ledger
      let endpoint = WebhookEndpoint(name: "shop", url: "https://shop.example", secrets: [], events: ["viewed"])
      try await ledger.keepWebhooks([endpoint.name: endpoint.url])
      for (type, user) in [("viewed", "anna"), ("other", "ben"), ("viewed", "anna"), ("viewed", "carl")] {
        try await ledger.record([Self.event(type, of: user)], at: UseCase.start)
      }
      try await ledger.engine.submit { tables in
        try tables.execute(#"UPDATE change_event SET data = '{"given":1}' WHERE sequence IN (1, 2, 4)"#)
      }
      // One was tried before it was damaged, and the receiver may have been away.
      let fresh = try await ledger.webhookWork(of: "shop", dueAt: UseCase.start, due: 1, fresh: 1).fresh
      try await Self.fail(fresh, attempts: 3, ledger)
      let receiver = Receiver()
      let deliverer = WebhookDeliverer(
        endpoints: [endpoint], sender: receiver, ledger: ledger, logger: UseCase.logger,
        now: { UseCase.start }, jitter: { _ in .zero }, pause: .seconds(1),
        catalog: try Catalog(tiers: ["free"], products: [:]), entitlements: .exact, onAttempt: { _, _, _ in })
      var pace = WebhookDeliverer.Pace(failures: 1)
      for _ in 0..<3 { _ = await deliverer.turn(endpoint, &pace) }
      #expect(receiver.bodies.count == 1 && receiver.bodies.first?.contains("anna") == true)
      let dead = try await ledger.deadLetters(of: "shop", after: 0, limit: 10)
      #expect(dead.map(\.event.user) == ["anna", "carl"] && dead.map(\.attempts) == [3, 0])
      #expect(Set(dead.map(\.problem)) == ["unreadable"])
      let status = try #require(try await ledger.webhookStatus("shop"))
      #expect(status.waiting == 0)
    }
  }

  @Test func `a rest that a clock ahead has begun ends with the correction, and the event is due`() async throws {
    try await UseCase.run { useCase in
      let ledger = useCase.ledger
      let endpoint = WebhookEndpoint(name: "shop", url: "https://shop.example", secrets: [], events: ["viewed"])
      try await ledger.keepWebhooks([endpoint.name: endpoint.url])
      try await ledger.record([Self.event("viewed", of: "bad-1")], at: UseCase.start)
      let clock = Mutex(UseCase.start.addingTimeInterval(7_200))
      let tried = Mutex(0)
      let deliverer = WebhookDeliverer(
        endpoints: [endpoint], sender: Receiver(), ledger: ledger, logger: UseCase.logger,
        now: { clock.withLock { $0 } }, jitter: { _ in .zero }, pause: .seconds(1),
        catalog: try Catalog(tiers: ["free"], products: [:]), entitlements: .exact,
        onAttempt: { _, _, _ in tried.withLock { $0 += 1 } })
      var pace = WebhookDeliverer.Pace()
      for _ in 0..<2 { #expect(await !deliverer.turn(endpoint, &pace)) }
      #expect(tried.withLock { $0 } == 1)
      clock.withLock { $0 = UseCase.start }
      try await ledger.releaseClaims()
      #expect(await !deliverer.turn(endpoint, &pace))
      #expect(tried.withLock { $0 } == 2)
    }
  }
}
