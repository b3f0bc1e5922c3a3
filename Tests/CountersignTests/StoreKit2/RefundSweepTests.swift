import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Ledger
@testable import Validation

/// Refunds that no notification told, and how Apple's own list brings them to light.
@Suite struct RefundSweepTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800.123456789)
  private static let day = 86_400.0

  /// Services beside a simulated store whose clocks go together.
  private struct World {
    var simulator: RunningSimulator
    var apple: Apple
    var clock: MovingClock
    var directory: URL
    var settings: Settings

    func pass(_ days: Double) {
      clock.advance(by: days * day)
      simulator.setClock(clock.date)
    }

    func run(_ body: @Sendable (RunningService) async throws -> Void) async throws {
      try await RunningService.run(
        apple: apple, settings: settings, directory: directory, now: { clock.date }, asksForMissed: true, body: body)
    }

    /// Customers who bought for life.
    func buy(_ count: Int, _ service: RunningService) async throws {
      for number in 1...count {
        let bought = try simulator.issueTransaction(.lifetime, subscriber: Int64(number))
        #expect(try await service.validate(bought.signedTransaction, user: "user-\(number)").status == 200)
      }
    }

    /// Apple gives the money back, and nobody hears of it.
    func refund(_ subscribers: ClosedRange<Int>) throws {
      for number in subscribers { _ = try simulator.issueTransaction(.lifetimeRefunded, subscriber: Int64(number)) }
    }

    var lookUps: Int { simulator.calls.serverAPI.byEndpoint["refund_lookup"] ?? 0 }
  }

  private static func run(
    interval: String? = "1d", _ change: (inout Settings) -> Void = { _ in },
    _ body: @Sendable (World) async throws -> Void
  ) async throws {
    let directory = try TemporaryDirectory()
    var settings = Settings(server: ["address_rate_limit": "0"])
    settings.appStore["refund_sweep"] = interval
    settings.revalidation["rate"] = "1000"
    change(&settings)
    let set = settings
    let clock = MovingClock(start)
    try await SimulatedStore.run(at: start) { store in
      try await body(
        World(
          simulator: store.simulator, apple: store.apple(withSecret: false), clock: clock, directory: directory.url,
          settings: set))
    }
  }

  /// The sweeps that ended.
  private static func sweeps(_ service: RunningService) -> [String] {
    service.log.lines.filter { $0.contains("Apple was asked for refunds") }
  }

  private static func refunded(_ service: RunningService) async throws -> Int {
    let answer = try await service.send(.get, "/v1/events?limit=500")
    let events = try #require(answer.object["events"] as? [[String: Any]])
    return events.count { $0["type"] as? String == "subscription.refunded" }
  }

  private static func free(_ count: Int, _ service: RunningService) async throws -> Int {
    var free = 0
    for number in 1...count where try await service.profile("user-\(number)")["tier"] == "free" { free += 1 }
    return free
  }

  @Test func `a sweep that a wrong clock began in the future does not put off the next`() async throws {
    try await Self.run { world in
      world.pass(400)
      try await world.run { service in
        try await eventually { Self.sweeps(service).count == 1 }
        world.pass(-400)
        try await eventually { Self.sweeps(service).count == 2 }
      }
    }
  }

  @Test func `a refund of a purchase for life that nobody told ends access within the interval, once`() async throws {
    try await Self.run { world in
      try await world.run { service in
        try await eventually { Self.sweeps(service).count == 1 }
        try await world.buy(2, service)
        world.pass(2)
        try await eventually { Self.sweeps(service).count == 2 }
        #expect(world.lookUps == 2)
        try world.refund(1...1)
        #expect(try await service.state(of: "user-1") == "premium active lifetime until null")
        world.pass(1)
        try await eventually { Self.sweeps(service).count == 3 }
        #expect(Self.sweeps(service).last?.contains(#""asked":2,"found":1,"#) == true)
        #expect(try await service.profile("user-1").verdict == "free expired refunded")
        #expect(try await service.profile("user-2").verdict == "premium active lifetime")
        #expect(world.lookUps == 4)
        #expect(try await Self.refunded(service) == 1)
        let metrics = try await service.send(.get, "/metrics", key: nil).text
        #expect(metrics.contains(#"countersign_refunds_found_total{source="sweep"} 1"#))
        #expect(metrics.contains("countersign_refund_sweep_age_seconds 0\n"))
        #expect(service.log.text.contains("a refund was found that no notification had told"))
        try await eventually {
          let figures = try await service.send(.get, "/v1/figures?from=2024-03-01&to=2024-03-31").text
          return figures.contains(#""refunds":"99.99""#)
        }
        // Who has nothing left is asked about no more.
        world.pass(1)
        try await eventually { Self.sweeps(service).count == 4 }
        #expect(world.lookUps == 5)
        #expect(try await Self.refunded(service) == 1)
      }
    }
  }

  @Test func `only what no check looks after is asked about: no subscription, no sandbox, nothing that is over`()
    async throws
  {
    try await Self.run { world in
      try await world.run { service in
        try await eventually { Self.sweeps(service).count == 1 }
        for (number, scenario) in [Scenario.subscriber, .nonRenewing, .lifetimeRefunded, .expiredVoluntary].enumerated()
        {
          let bought = try world.simulator.issueTransaction(scenario, subscriber: Int64(number + 1))
          _ = try await service.validate(bought.signedTransaction, user: "user-\(number)")
        }
        let tester = try world.simulator.issueTransaction(.lifetime, environment: .sandbox, subscriber: 9)
        _ = try await service.validate(tester.signedTransaction, user: "tester")
        world.pass(1)
        try await eventually { Self.sweeps(service).count == 2 }
        #expect(world.lookUps == 1)
        #expect(world.simulator.calls.serverAPI.byTransactionID["480000000020000"] ?? 0 > 0)
      }
    }
  }

  @Test func `no sweep comes before its time after a restart, and none where it is off`() async throws {
    try await Self.run(interval: "2d") { world in
      try await world.run { service in
        try await world.buy(1, service)
        try await eventually { Self.sweeps(service).count == 1 }
      }
      let before = world.lookUps
      world.pass(1)
      try await world.run { service in
        try await eventually { try await service.gauge("countersign_refund_sweep_age_seconds") == 86_400 }
        #expect(world.lookUps == before && Self.sweeps(service).isEmpty)
        world.pass(1)
        try await eventually { Self.sweeps(service).count == 1 }
        #expect(world.lookUps == before + 1)
      }
    }
    try await Self.run(interval: "0") { world in
      try await world.run { service in
        try await world.buy(1, service)
        world.pass(40)
        // The other jobs have run for a while.
        try await eventually { world.simulator.calls.serverAPI.byEndpoint["notifications_history"] ?? 0 > 4 }
        #expect(world.lookUps == 0)
      }
    }
  }

  @Test func `more refunds than can be right engage the brake, and a person's word lets the rest pass`() async throws {
    let count = 30
    try await Self.run(interval: "1d") { world in
      try await world.run { service in
        try await eventually { Self.sweeps(service).count == 1 }
        try await world.buy(count, service)
        try world.refund(1...count)
        world.pass(1)
        try await eventually {
          try await service.send(.get, "/readyz", key: nil)["downgrade_brake"] == "engaged"
        }
        #expect(try await Self.free(count, service) == 10)
        #expect(try await Self.refunded(service) == 10)
        let asked = world.lookUps
        for _ in 0..<5 { _ = try await service.send(.get, "/v1/status") }
        #expect(world.lookUps == asked)
        #expect(try await service.send(.delete, "/v1/brake").status == 200)
        try await eventually { Self.sweeps(service).count == 2 }
        #expect(try await Self.free(count, service) == count)
        #expect(try await Self.refunded(service) == count)
      }
    }
  }

  @Test func `a sweep that was killed goes on where it was noted, and records each refund once`() async throws {
    try await Self.run { world in
      try await world.run { service in
        try await eventually { Self.sweeps(service).count == 1 }
        try await world.buy(4, service)
        let before = try #require(try await service.ledger.memo(RefundSweep.memo))
        try world.refund(1...2)
        world.pass(1)
        try await eventually { Self.sweeps(service).count == 2 }
        #expect(try await Self.refunded(service) == 2)
        // As if the process had ended before anything was noted.
        try await service.ledger.keepMemo(RefundSweep.memo, before)
        try await eventually { Self.sweeps(service).count == 3 }
        #expect(try await Self.refunded(service) == 2)
        let history = try await service.send(.get, "/v1/profiles/user-1/history", key: RunningService.supportKey).text
        #expect(history.components(separatedBy: #""request_id":"refunds-"#).count == 2)
      }
      #expect(world.lookUps == 6)
    }
  }

  @Test func `Apple's trouble makes the sweep rest, and it goes on where it was`() async throws {
    try await Self.run { world in
      try await world.run { service in
        try await eventually { Self.sweeps(service).count == 1 }
        try await world.buy(3, service)
        try world.refund(3...3)
        world.pass(1)
        world.simulator.setTrouble(.serverAPIKeyRejected, service: .serverAPI)
        try await eventually { service.log.text.contains("Apple cannot be asked for refunds") }
        #expect(try await Self.free(3, service) == 0)
        world.simulator.setTrouble(nil)
        // The job rests by the service's clock, for its tokens' sake together with the store's.
        try await eventually {
          world.pass(0.001)
          return Self.sweeps(service).count == 2
        }
        #expect(try await service.profile("user-3").verdict == "free expired refunded")
      }
    }
  }

  @Test func `one of two replicas asks, and about each customer once`() async throws {
    guard TestEngine.isPostgreSQL else { return }
    let count = 30
    try await Self.run { world in
      try await world.run { first in
        try await eventually { Self.sweeps(first).count == 1 }
        try await world.buy(count, first)
        try world.refund(1...5)
        try await world.run { second in
          world.simulator.resetCalls()
          world.pass(1)
          try await eventually(looks: 2_000) { Self.sweeps(first).count + Self.sweeps(second).count == 2 }
          #expect(try await Self.refunded(second) == 5)
        }
      }
      #expect(world.lookUps == count)
      #expect(world.simulator.calls.serverAPI.byTransactionID.values.allSatisfy { $0 == 1 })
    }
  }

  @Test func `support is shown Apple's list, and what nothing had told of counts at once`() async throws {
    @Sendable func list(_ user: String, _ service: RunningService) async throws -> [String: Any] {
      let answer = try await service.send(.get, "/v1/profiles/\(user)/refunds", key: RunningService.supportKey)
      #expect(answer.status == 200)
      return try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
    }
    try await Self.run(interval: "0") { world in
      try await world.run { service in
        try await world.buy(1, service)
        #expect(try await list("user-1", service)["refunds"] as? [String] == [])
        #expect(try await list("nobody", service)["app_store"] as? String == "not_asked")
        world.pass(0.1)
        try world.refund(1...1)
        for isNew in [true, false] {
          let answer = try await list("user-1", service)
          let refund = try #require((answer["refunds"] as? [[String: Any]])?.first)
          #expect(answer["app_store"] as? String == "answered")
          #expect(refund["transaction_id"] as? String == "480000000010000")
          #expect(refund["product_id"] as? String == "com.example.app.forever")
          #expect(refund["user_id"] as? String == "user-1" && refund["new"] as? Bool == isNew)
          #expect(refund["refunded_at"] as? String == "2024-06-14T14:24:00Z")
        }
        #expect(try await service.profile("user-1").verdict == "free expired refunded")
        #expect(try await Self.refunded(service) == 1)
        let prorated = try world.simulator.issueTransaction(.refundedProrated, subscriber: 2)
        _ = try await service.validate(prorated.signedTransaction, user: "user-2")
        let part = try #require((try await list("user-2", service)["refunds"] as? [[String: Any]])?.first)
        #expect(part["revocation_type"] as? String == "REFUND_PRORATED" && part["new"] as? Bool == false)
        #expect(part["revocation_percentage"] as? Int == 45_000)
        world.simulator.setTrouble(.http500, service: .serverAPI)
        let away = try await service.send(.get, "/v1/profiles/user-1/refunds", key: RunningService.supportKey)
        #expect(away.status == 503 && away["code"] == "app_store_unavailable")
      }
    }
  }
}
