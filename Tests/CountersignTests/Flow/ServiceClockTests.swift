import Foundation
import HTTPTransport
import Synchronization
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// A machine whose clock jumps ends nobody's access.
@Suite struct ServiceClockTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800)
  static let year: TimeInterval = 365 * 86_400

  /// A machine: a time of day that can be set, and an uptime that only goes on.
  private final class Machine: Sendable {
    private let state: Mutex<(wall: Date, uptime: Duration)>

    init(_ wall: Date = ServiceClockTests.start) { state = Mutex((wall, .seconds(1000))) }

    func run(for seconds: Double) {
      state.withLock { state in
        state.wall += seconds
        state.uptime += .seconds(seconds)
      }
    }

    func jump(by seconds: Double) { state.withLock { $0.wall += seconds } }

    var clock: ServiceClock {
      ServiceClock(wall: { self.state.withLock { $0.wall } }, uptime: { self.state.withLock { $0.uptime } })
    }
  }

  @Test func `it starts at the machine's time of day and goes on with its uptime`() {
    let machine = Machine()
    let clock = machine.clock
    #expect(clock.now == Self.start)
    machine.run(for: 90)
    #expect(clock.now == Self.start + 90)
    #expect(clock.skew == nil)
  }

  @Test(arguments: [year, -year, 10 * year, -10 * year, 3600, -3600])
  func `a jump of the machine's clock is told and not followed`(jump: TimeInterval) {
    let machine = Machine()
    let clock = machine.clock
    machine.run(for: 60)
    machine.jump(by: jump)
    #expect(clock.now == Self.start + 60)
    #expect(clock.skew == jump)
    machine.run(for: 60)
    #expect(clock.now == Self.start + 120)
    // Set right again, nothing is left of it.
    machine.jump(by: -jump)
    #expect(clock.now == Self.start + 120)
    #expect(clock.skew == nil)
  }

  @Test(arguments: [year, -year, 301, -301])
  func `Apple's clock puts a wrong start right`(wrong: TimeInterval) {
    let machine = Machine(Self.start + wrong)
    let clock = machine.clock
    machine.run(for: 10)
    #expect(clock.observe(Self.start + 10) == wrong)
    #expect(clock.now == Self.start + 10)
    #expect(clock.skew == wrong)
    machine.run(for: 5)
    #expect(clock.now == Self.start + 15)
    // It is said once; after that the two agree.
    #expect(clock.observe(Self.start + 15) == nil)
  }

  @Test(arguments: [0, 1, -1, 300, -300] as [TimeInterval])
  func `differences that clocks have anyway are let be`(difference: TimeInterval) {
    let machine = Machine()
    let clock = machine.clock
    #expect(clock.observe(Self.start - difference) == nil)
    #expect(clock.now == Self.start)
    machine.jump(by: difference)
    #expect(clock.skew == nil)
  }

  @Test(arguments: [year, -year])
  func `a machine whose clock jumps a year under the running service changes nothing that is read`(
    jump: TimeInterval
  ) async throws {
    let machine = Machine()
    try await SimulatedStore.run(at: Self.start) { store in
      try await RunningService.run(apple: store.apple, clock: machine.clock) { service in
        let users: [(String, Scenario)] = [
          ("renewing", .renewing), ("ending", .renewalOff), ("grace", .grace), ("lifetime", .lifetime),
        ]
        var before: [String: String] = [:]
        for (number, (user, scenario)) in users.enumerated() {
          let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 1)).receiptData
          #expect(try await service.validate(receipt, user: user).status == 200)
          before[user] = try await service.profile(user).text
        }
        #expect(try await service.send(.get, "/readyz", key: nil)["clock"] == "ok")
        machine.jump(by: jump)
        store.simulator.setTrouble(.http503, count: nil, environment: nil)
        for (user, _) in users { #expect(try await service.profile(user).text == before[user]) }
        let ready = try await service.send(.get, "/readyz", key: nil)
        #expect(ready.status == 200)
        #expect(ready["clock"] == "off")
        let metrics = try await service.send(.get, "/metrics", key: nil).text
        #expect(metrics.contains("countersign_clock_skew_seconds \(Int(jump))\n"))
      }
    }
  }

  @Test func `a service that starts with a wrong clock goes by Apple's from the first answer`() async throws {
    let machine = Machine(Self.start + Self.year)
    try await SimulatedStore.run(at: Self.start) { store in
      try await RunningService.run(apple: store.apple, clock: machine.clock) { service in
        let receipt = try store.simulator.issueReceipt(.renewing).receiptData
        #expect(try await service.validate(receipt).verdict == "pro active renewing")
        #expect(try await service.profile().verdict == "pro active renewing")
        #expect(try await service.profile()["stale"] == "false")
        #expect(try await service.send(.get, "/readyz", key: nil)["clock"] == "off")
        #expect(
          service.log.lines.contains {
            $0.contains(#""level":"error""#) && $0.contains("the machine's clock is wrong")
          })
      }
    }
  }
}
