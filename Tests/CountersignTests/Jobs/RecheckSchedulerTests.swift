import Entitlements
import Foundation
import Ledger
import Resilience
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Validation

/// The service's own questions to Apple: at the end of a period, through grace and billing retry.
@Suite struct RecheckSchedulerTests {
  static let day: TimeInterval = 86_400
  /// Rechecks of one moment are spread over a minute.
  static let spread: TimeInterval = 60

  /// Our clock and Apple's, moved together.
  struct Clocks: Sendable {
    var own: MovingClock
    var store: SimulatedStore

    func advance(by seconds: TimeInterval) {
      own.advance(by: seconds)
      store.simulator.setClock(own.date)
    }

    func move(to seconds: TimeInterval) { advance(by: noon.addingTimeInterval(seconds).timeIntervalSince(own.date)) }
  }

  private func run(
    _ settings: Settings = Settings(appStore: ["deadline": "4s"]), directory: URL? = nil,
    body: @Sendable (JobBench, SimulatedStore, Clocks) async throws -> Void
  ) async throws {
    try await JobBench.besideStore(by: MovingClock(), settings: settings, directory: directory) {
      bench, store, clock in
      try await body(bench, store, Clocks(own: clock, store: store))
    }
  }

  @Test func `nothing is claimed while Apple cannot be asked, and everything that was due is asked about after`()
    async throws
  {
    try await run { bench, store, clocks in
      try await bench.subscribe(1...5, store)
      clocks.move(to: 16 * Self.day + Self.spread)
      store.simulator.resetCalls()
      let waiting = bench.scheduler(isAppleAway: { true })
      for _ in 0..<10 { #expect(await waiting.sweep() == 0) }
      #expect(store.simulator.calls.total == 0)
      #expect(try await bench.ledger.backlog(at: bench.now()).rechecksDue == 5)
      #expect(await bench.scheduler().sweep() == 5)
      #expect(store.simulator.calls.total == 5)
      #expect(try await bench.ledger.backlog(at: bench.now()).rechecksDue == 0)
    }
  }

  @Test func `an outage longer than the hold ends it in what is recorded too, and what is due stays due`() async throws
  {
    try await run { bench, store, clocks in
      try await bench.subscribe(1...45, store)
      let lifetime = try store.simulator.issueReceipt(.lifetime, subscriber: 99).receiptData
      try await bench.validate(lifetime, user: "for-life")
      store.simulator.resetCalls()
      let waiting = bench.scheduler(isAppleAway: { true })
      let recorded: @Sendable () async throws -> [EntitlementReason?] = {
        var reasons: [EntitlementReason?] = []
        for number in 1...45 {
          reasons.append(try await bench.ledger.profile(of: UserID("user-\(number)"))?.entitlement.reason)
        }
        return reasons
      }
      // The periods end on day 16; they are held for seven more.
      clocks.own.advance(by: 23 * Self.day - 1)
      #expect(await waiting.sweep() == 0)
      #expect(try await recorded() == Array(repeating: .renewing, count: 45))
      clocks.own.advance(by: 1)
      var sweeps: [Int] = []
      repeat { sweeps.append(await waiting.sweep() ?? -1) } while sweeps.last != 0
      #expect(sweeps == [20, 20, 5, 0])
      #expect(try await recorded() == Array(repeating: .unproven, count: 45))
      #expect(try await bench.ledger.profile(of: "for-life")?.entitlement.reason == .lifetime)
      #expect(!bench.brake.isEngaged, "reads said so already")
      #expect(store.simulator.calls.total == 0)
      #expect(try await bench.ledger.backlog(at: bench.now()).rechecksDue == 45)
      // Apple is back.
      store.simulator.setClock(clocks.own.date)
      repeat { sweeps.append(await bench.scheduler().sweep() ?? -1) } while sweeps.last != 0
      #expect(try await recorded() == Array(repeating: .renewing, count: 45))
    }
  }

  /// Apple is in trouble, or knows the receipt no more.
  @Test(arguments: [Trouble.status21004, .status21003])
  func `where each question fails, what was held for long enough ends in what is recorded too`(
    trouble: Trouble
  ) async throws {
    try await run { bench, store, clocks in
      try await bench.validate(try store.simulator.issueReceipt(.renewing).receiptData)
      store.simulator.setTrouble(trouble, count: nil, environment: nil)
      let scheduler = bench.scheduler(isAppleAway: { false })
      // A refusal is an answer.
      let asked = trouble == .status21003 ? 1 : nil
      clocks.move(to: 20 * Self.day)
      #expect(await scheduler.sweep() == asked)
      #expect(try await bench.ledger.profile(of: "user-1")?.entitlement.reason == .renewing)
      // A question in vain stays claimed.
      clocks.advance(by: 119)
      #expect(await scheduler.sweep() == 0)
      clocks.advance(by: 1)
      #expect(await scheduler.sweep() == asked)
      clocks.move(to: 24 * Self.day)
      #expect(await scheduler.sweep() == asked)
      #expect(try await bench.ledger.profile(of: "user-1")?.entitlement.reason == .unproven)
      #expect(try await bench.verdict() == "free expired unproven")
    }
  }

  /// Without a key of the Server API nobody can be asked about a signed transaction.
  @Test func `a purchase that nobody can be asked about ends in the record when it ends for a reader`() async throws {
    try await run { bench, store, clocks in
      try await bench.validate(try store.simulator.issueTransaction(.renewing).signedTransaction)
      let end = try #require(try await bench.ledger.profile(of: "user-1")?.entitlement.accessUntil)
      let scheduler = bench.scheduler()
      store.simulator.resetCalls()
      clocks.advance(by: end.timeIntervalSince(clocks.own.date))
      let hours = 7 * 24
      for hour in 1...hours {
        clocks.advance(by: 3_600)
        _ = await scheduler.sweep()
        let recorded = try await bench.ledger.profile(of: "user-1")?.entitlement.reason
        #expect((recorded == .unproven) == (hour == hours), "\(hour)")
      }
      #expect(try await bench.verdict() == "free expired unproven")
      #expect(!bench.brake.isEngaged && store.simulator.calls.total == 0)
    }
  }

  /// 21004 opens no breaker: each question is a call.
  @Test func `an outage of six hours costs no checks: all that are due are asked about soon after`() async throws {
    try await run { bench, store, clocks in
      try await bench.subscribe(1...30, store)
      clocks.move(to: 16 * Self.day + Self.spread)
      let scheduler = bench.scheduler(isAppleAway: { false })
      store.simulator.setTrouble(.status21004)
      store.simulator.resetCalls()
      #expect(await scheduler.sweep() == nil)
      #expect(store.simulator.calls.total == 1)
      #expect(try await bench.ledger.backlog(at: bench.now()).rechecksDue == 29, "the others were given back")
      for _ in 0..<360 {
        #expect(await scheduler.sweep(probing: true) == nil)
        clocks.advance(by: 60)
      }
      store.simulator.setTrouble(nil)
      clocks.advance(by: 120)
      store.simulator.resetCalls()
      #expect(await scheduler.sweep(probing: true) == 1)
      #expect(await scheduler.sweep() == 20)
      #expect(await scheduler.sweep() == 9)
      #expect(await scheduler.sweep() == 0)
      #expect(store.simulator.calls.total == 30)
    }
  }

  @Test func `a probe of Apple is heard for as long as a call may take`() async throws {
    try await run(Settings(appStore: ["deadline": "60s"])) { bench, _, _ in
      let timeouts = bench.appStore.allBreakers.map(\.breaker.configuration.probeTimeout)
      #expect(timeouts == [.seconds(65), .seconds(65)])
    }
  }

  @Test func `a check that the breaker keeps from Apple is due as it was`() async throws {
    try await run { bench, store, clocks in
      try await bench.subscribe(1...12, store)
      clocks.move(to: 16 * Self.day + Self.spread)
      store.simulator.setTrouble(.http503)
      store.simulator.resetCalls()
      var scheduler = bench.scheduler(isAppleAway: { false })
      scheduler.isAppleDoubtful = { store.simulator.calls.total >= 5 }
      #expect(await scheduler.sweep() == nil)
      let due = try await bench.ledger.backlog(at: bench.now()).rechecksDue
      #expect(7...11 ~= due, "five questions at most, and the others were given back: \(due)")
    }
  }

  @Test func `the service does it by itself, and writes the row`() async throws {
    let clock = MovingClock()
    try await SimulatedStore.run { store in
      let clocks = Clocks(own: clock, store: store)
      try await ProfileStoreDouble.running { profiles in
        let settings = Settings(revalidation: ["rate": "1000"], profileStore: .store(profiles.url))
        try await RunningService.run(apple: store.apple, settings: settings, now: { clock.date }) { service in
          let renewing = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
          let ending = try store.simulator.issueReceipt(.renewalOff, subscriber: 2).receiptData
          #expect(try await service.validate(renewing, user: "renewing").status == 200)
          #expect(try await service.validate(ending, user: "ending").status == 200)
          clocks.move(to: 16 * Self.day + Self.spread)
          try await eventually {
            profiles.row("renewing")?["subscription_expires_at"] == .text("2024-08-01T12:00:00.000Z")
              && profiles.row("ending")?["subscription_tier"] == .text("free")
          }
          #expect(profiles.row("ending")?["subscription_expires_at"] == .text("2024-06-30T12:00:00.000Z"))
          #expect(try await service.profile("renewing")["access_until"] == "2024-08-01T12:00:00Z")
          #expect(try await service.profile("ending").verdict == "free expired voluntary")
        }
      }
    }
  }
}
