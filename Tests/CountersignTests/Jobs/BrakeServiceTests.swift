import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// Sixty subscriptions that were to renew and turn out to be refunded: more than can be right, so the service lowers no
/// more of them and waits for a person.
@Suite struct BrakeServiceTests {
  static let users = 60
  static let settings = Settings(revalidation: ["rate": "1000"])
  /// When the periods are over, in seconds.
  static let untilTheEnd: TimeInterval = 17 * 86_400

  private func subscribe(_ service: RunningService, _ store: SimulatedStore) async throws -> [String] {
    // Refunded yesterday, as seen from tomorrow: today nothing is known of it.
    store.simulator.setClock(noon.addingTimeInterval(1.5 * 86_400))
    let receipts = try (1...Self.users).map {
      try store.simulator.issueReceipt(.refunded, subscriber: Int64($0)).receiptData
    }
    store.simulator.setClock(noon)
    for (number, receipt) in receipts.enumerated() {
      let answer = try await service.validate(receipt, user: "user-\(number)")
      #expect(answer.verdict == "premium active renewing")
    }
    return receipts
  }

  /// How many of the users have the lowest tier.
  private func lowered(_ service: RunningService) async throws -> Int {
    var lowered = 0
    for number in 0..<Self.users where try await service.profile("user-\(number)")["tier"] == "free" { lowered += 1 }
    return lowered
  }

  private func isEngaged(_ service: RunningService) async throws -> Bool {
    try await service.send(.get, "/readyz", key: nil)["downgrade_brake"] == "engaged"
  }

  @Test func `ten are lowered, then nobody until a person says so, and then all the others`() async throws {
    let directory = try TemporaryDirectory()
    let clock = MovingClock()
    try await SimulatedStore.run { store in
      let receipts = try await RunningService.run(
        apple: store.apple, settings: Self.settings, directory: directory.url, now: { clock.date }
      ) { service in
        let receipts = try await subscribe(service, store)
        #expect(
          try await service.send(.get, "/v1/brake").text
            == #"{"engaged":false,"looked_at":null,"lowered":null,"since":null,"withheld":null,"withheld_by_rules":0}"#
            + "\n")

        clock.advance(by: Self.untilTheEnd)
        store.simulator.setClock(clock.date)
        try await eventually { try await isEngaged(service) }
        #expect(try await lowered(service) == 10)
        func alarms() -> Int {
          service.log.lines.count {
            $0.contains(#""level":"critical""#) && $0.contains("too many subscribers would be downgraded")
          }
        }
        try await eventually { alarms() > 0 }
        #expect(alarms() == 1)
        // Operators are told; whoever balances the load keeps sending callers here.
        #expect(try await service.send(.get, "/readyz", key: nil).status == 200)
        let metrics = try await service.send(.get, "/metrics", key: nil).text
        #expect(metrics.contains("countersign_downgrade_brake_engaged 1\n"))

        // Hours go by, and Apple says the same again and again.
        for _ in 0..<5 {
          clock.advance(by: 3600)
          store.simulator.setClock(clock.date)
          #expect(try await lowered(service) == 10)
        }
        return receipts
      }

      try await RunningService.run(
        apple: store.apple, settings: Self.settings, directory: directory.url, now: { clock.date }
      ) { service in
        #expect(try await isEngaged(service), "a restart is no release")
        let state = try await service.send(.get, "/v1/brake", key: RunningService.supportKey)
        #expect(state.status == 200)
        #expect(state["engaged"] == "true")
        #expect(state["lowered"] == "10")
        #expect(state["since"] == "2024-07-02T12:00:00Z")
        #expect(Int(state["looked_at"] ?? "") == 11)
        // Fifty, each of them again and again.
        #expect(Int(state["withheld"] ?? "") ?? 0 >= 50)
        #expect(try await lowered(service) == 10)

        // A caller who asks gets Apple's word, whatever it is.
        var tiers: [String] = []
        for number in 0..<Self.users where tiers.count < 3 {
          guard try await service.profile("user-\(number)")["tier"] == "premium" else { continue }
          let answer = try await service.validate(receipts[number], user: "user-\(number)")
          #expect(answer.status == 200)
          tiers.append(answer.verdict)
        }
        #expect(tiers == Array(repeating: "free expired refunded", count: 3))
        #expect(try await lowered(service) == 13)
        #expect(try await isEngaged(service))

        let released = try await service.send(.delete, "/v1/brake", key: RunningService.supportKey)
        #expect(released.status == 200)
        #expect(released["engaged"] == "false")
        #expect(try await !isEngaged(service))
        // The users who were held back had been claimed, and are due again after two minutes.
        try await eventually(clock) {
          store.simulator.setClock(clock.date)
          return try await lowered(service) == Self.users
        }
        #expect(try await !isEngaged(service))
        #expect(service.log.lines.contains { $0.contains("the downgrade brake is released") })
      }
    }
  }

  @Test func `a service key releases it too, and a release survives a restart`() async throws {
    let directory = try TemporaryDirectory()
    let clock = MovingClock()
    try await SimulatedStore.run { store in
      try await RunningService.run(
        apple: store.apple, settings: Self.settings, directory: directory.url, now: { clock.date }
      ) { service in
        _ = try await subscribe(service, store)
        clock.advance(by: Self.untilTheEnd)
        store.simulator.setClock(clock.date)
        try await eventually { try await isEngaged(service) }
        // No time goes by: what is claimed stays claimed.
        #expect(try await service.send(.delete, "/v1/brake").status == 200)
      }
      try await RunningService.run(
        apple: store.apple, settings: Self.settings, directory: directory.url, now: { clock.date }
      ) { service in
        // But for a replica's, which waits for the end of the lease.
        try await eventually(clock, step: TestEngine.isPostgreSQL ? 5 : 0) {
          store.simulator.setClock(clock.date)
          return try await lowered(service) == Self.users
        }
        #expect(try await !isEngaged(service))
      }
    }
  }

  @Test func `posts of callers neither engage it nor are held back by it`() async throws {
    let clock = MovingClock()
    // The jobs rest: every verdict comes of a post.
    try await RunningService.besideStore(
      settings: Self.settings, jobPause: .seconds(3600), now: { clock.date }
    ) { service, store in
      let receipts = try await subscribe(service, store)
      clock.advance(by: Self.untilTheEnd)
      store.simulator.setClock(clock.date)
      for (number, receipt) in receipts.enumerated() {
        #expect(try await service.validate(receipt, user: "user-\(number)").verdict == "free expired refunded")
      }
      #expect(try await !isEngaged(service))
    }
  }
}
