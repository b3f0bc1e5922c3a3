import Entitlements
import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Validation

/// The runner that works on runs: each step is made by the test itself.
@Suite struct RevalidationRunnerTests {
  static let day: TimeInterval = 86_400
  /// `renewing` ends 2024-07-01T12:00:00Z: 16 days after the start.
  static let order = RunOrder(expiringWithin: .seconds(20 * 86_400), limit: 1_000)

  private func run(
    _ settings: Settings = Settings(appStore: ["deadline": "4s"]), directory: URL? = nil, at clock: MovingClock? = nil,
    body: @Sendable (JobBench, SimulatedStore, MovingClock) async throws -> Void
  ) async throws {
    try await JobBench.besideStore(
      by: clock ?? MovingClock(), settings: settings, directory: directory, body: body)
  }

  private func begin(_ bench: JobBench) async throws -> Run {
    guard case .started(let run) = try await bench.ledger.startRun(Self.order, key: nil, at: bench.now()) else {
      throw RunningService.Failure("no run")
    }
    return run
  }

  @Test func `everything is asked about once, and the run is finished`() async throws {
    try await run { bench, store, clock in
      try await bench.subscribe(1...25, store)
      let run = try await begin(bench)
      #expect(run.counts.due == 25)
      #expect(await bench.runner(width: 4).advance(probing: false) == .idle)
      #expect(store.simulator.calls.total == 25)
      let ended = try #require(try await bench.ledger.run(run.id))
      #expect(ended.state == .finished(at: clock.date))
      #expect((ended.counts.done, ended.counts.changed, ended.counts.failed) == (25, 0, 0))
      #expect(await bench.runner().advance(probing: false) == .idle)
      #expect(store.simulator.calls.total == 25)
      #expect(
        bench.log.lines.contains { $0.contains("a re-validation run ended") && $0.contains(#""done":25"#) })
    }
  }

  @Test func `one that cannot be read has failed, and the others are asked about`() async throws {
    try await run { bench, store, clock in
      try await bench.subscribe(1...3, store)
      let run = try await begin(bench)
      try await bench.spoilPurchases(of: "user-1")
      #expect(await bench.runner().advance(probing: false) == .idle)
      let ended = try #require(try await bench.ledger.run(run.id))
      #expect(ended.state == .finished(at: clock.date))
      #expect((ended.counts.done, ended.counts.failed) == (2, 1))
      #expect(bench.log.lines.contains { $0.contains("cannot be read, and count as failed") })
    }
  }

  // MARK: Pace

  /// Time goes on only as the pacer sleeps: what is between the calls is the pacer's doing alone.
  @Test func `calls keep the pace, and the scheduler's are within it`() async throws {
    try await run { bench, store, clock in
      try await bench.subscribe(1...20, store)
      try await bench.subscribe(21...30, store, .grace)
      clock.advance(by: 7 * 3600)
      store.simulator.setClock(clock.date)
      let run = try await begin(bench)
      #expect(run.counts.due == 30)
      clock.advance(by: 1)
      store.simulator.setClock(clock.date)
      let time = SleepingClock()
      let pacer = Pacer(rate: 10, clock: { time.now }, sleep: { try await time.sleep(until: $0) })
      var scheduler = bench.scheduler()
      scheduler.pacer = pacer
      #expect(await scheduler.sweep() == 10)
      #expect(await bench.runner(pacer: pacer).advance(probing: false) == .idle)
      // Those that the scheduler has just asked about are not asked about again.
      #expect(store.simulator.calls.total == 30)
      #expect(try await bench.ledger.run(run.id)?.counts.done == 30)
      #expect(time.elapsed >= .milliseconds(2_860) && time.elapsed < .milliseconds(3_200), "\(time.elapsed)")
    }
  }

  @Test func `no more are asked about at once than the width`() async throws {
    try await run(Settings()) { bench, store, _ in
      try await bench.subscribe(1...12, store)
      store.simulator.setDelay(.milliseconds(50))
      _ = try await begin(bench)
      #expect(await bench.runner(width: 3).advance(probing: false) == .idle)
      #expect(bench.appStore.transport.statistics.peakInFlight <= 3)
      #expect(store.simulator.calls.peakInFlight > 1, "a slow Apple does not slow the pace")
    }
  }

  // MARK: Apple away

  @Test func `while Apple is away nothing is asked, nothing fails, and the run goes on after`() async throws {
    try await run { bench, store, _ in
      try await bench.subscribe(1...10, store)
      let run = try await begin(bench)
      let progress = RunProgress()
      for _ in 0..<3 {
        #expect(await bench.runner(isAppleAway: { true }, progress: progress).advance(probing: false) == .obstacle)
      }
      #expect(store.simulator.calls.total == 0)
      #expect(progress.obstacle(of: run.id) == .appStore)
      #expect(try await bench.ledger.run(run.id)?.counts == RunCounts(due: 10))
      #expect(await bench.runner(progress: progress).advance(probing: true) == .idle)
      #expect(progress.obstacle(of: run.id) == nil)
      #expect(try await bench.ledger.run(run.id)?.counts.done == 10)
      #expect(store.simulator.calls.total == 10)
    }
  }

  @Test(arguments: [Trouble.html, .http503, .status21004, .status21005])
  func `an outage of hours fails nothing, and one subscription at a time finds out about its end`(_ trouble: Trouble)
    async throws
  {
    try await run { bench, store, clock in
      try await bench.subscribe(1...40, store)
      let run = try await begin(bench)
      store.simulator.setTrouble(trouble, count: nil, environment: nil)
      let runner = bench.runner()
      #expect(await runner.advance(probing: false) == .obstacle)
      store.simulator.resetCalls()
      for _ in 0..<20 {
        #expect(await runner.advance(probing: true) == .obstacle)
        clock.advance(by: 600)
      }
      // A probe may try again, and never with a second subscription.
      #expect(store.simulator.calls.total <= 20 * 4, "\(store.simulator.calls.total)")
      #expect(try await bench.ledger.run(run.id)?.counts == RunCounts(due: 40))

      store.simulator.setTrouble(nil)
      try await eventually { await runner.advance(probing: true) == .idle }
      #expect(try await bench.ledger.run(run.id)?.counts.done == 40)
    }
  }

  @Test func `a subscription that Apple has trouble with is tried three times, then it has failed`() async throws {
    try await run { bench, store, clock in
      try await bench.subscribe(1...3, store)
      // A wrong date in the answer to one receipt: Apple's trouble is with this one.
      let bad = try store.simulator.issueReceipt(.renewing, subscriber: 7).receiptData
      try await bench.validate(bad, user: "user-7")
      let run = try await begin(bench)
      #expect(run.counts.due == 4)
      store.simulator.setTrouble(.status21009, count: nil, environment: nil)
      // Told apart from an outage by the status; the breaker, which would take it for one, is left out.
      let runner = bench.runner(isAppleAway: { false }, width: 1)
      #expect(await runner.advance(probing: false) != .idle)
      store.simulator.setTrouble(nil)
      #expect(try await bench.ledger.run(run.id)?.counts.failed == 0)
      clock.advance(by: 30)
      try await eventually {
        clock.advance(by: 30)
        return await runner.advance(probing: true) == .idle
      }
      #expect(try await bench.ledger.run(run.id)?.counts.done == 4)
    }
  }

  @Test func `a receipt that is refused has failed, and its state stands`() async throws {
    try await run { bench, store, _ in
      try await bench.subscribe(1...2, store)
      let run = try await begin(bench)
      // Twice each, as a refusal is made sure of.
      store.simulator.setTrouble(.status21003, count: 2, environment: nil)
      #expect(await bench.runner(width: 1).advance(probing: false) == .idle)
      let counts = try #require(try await bench.ledger.run(run.id)?.counts)
      #expect((counts.done, counts.failed, counts.remaining) == (1, 1, 0))
      #expect(try await bench.verdict("user-1") == "pro active renewing")
    }
  }

  // MARK: The brake

  @Test func `the brake stops the run, and a new one after the release takes what is left`() async throws {
    try await run(Settings()) { bench, store, clock in
      // Refunded yesterday, as seen from tomorrow: today nothing is known of it.
      store.simulator.setClock(noon.addingTimeInterval(1.5 * Self.day))
      let receipts = try (1...60).map {
        try store.simulator.issueReceipt(.refunded, subscriber: Int64($0)).receiptData
      }
      store.simulator.setClock(noon)
      for (number, receipt) in receipts.enumerated() { try await bench.validate(receipt, user: "user-\(number)") }
      let run = try await begin(bench)
      #expect(run.counts.due == 60)
      clock.advance(by: 2 * Self.day)
      store.simulator.setClock(clock.date)

      #expect(await bench.runner(width: 4).advance(probing: false) == .idle)
      let stopped = try #require(try await bench.ledger.run(run.id))
      #expect(stopped.state == .stopped(.downgradeBrake, at: clock.date))
      #expect(stopped.counts.changed == 10)
      #expect(stopped.counts.done == 10)
      #expect((1...4).contains(stopped.counts.heldBack), "\(stopped.counts)")
      #expect(stopped.counts.failed == 0)
      #expect(bench.log.lines.contains { $0.contains("the downgrade brake stopped a re-validation run") })

      // As long as it holds, another run gets no further.
      clock.advance(by: 1)
      let second = try await begin(bench)
      #expect(await bench.runner().advance(probing: false) == .idle)
      #expect(try await bench.ledger.run(second.id)?.state == .stopped(.downgradeBrake, at: clock.date))
      #expect(try await bench.ledger.run(second.id)?.counts.remaining == 50)

      await bench.brake.release(bench.log.logger)
      let third = try await begin(bench)
      #expect(await bench.runner().advance(probing: false) == .idle)
      let counts = try #require(try await bench.ledger.run(third.id)?.counts)
      #expect((counts.due, counts.done, counts.changed, counts.heldBack) == (50, 50, 50, 0))
    }
  }

  // MARK: Restart

  @Test func `a run that a process left behind is ended by the next one, with the same counts`() async throws {
    let directory = try TemporaryDirectory()
    let clock = MovingClock()
    try await run(directory: directory.url, at: clock) { bench, store, _ in
      try await bench.subscribe(1...20, store)
      let started = try await begin(bench)
      // The work is cancelled in the middle, as by SIGTERM.
      let ledger = bench.ledger
      store.simulator.setDelay(.milliseconds(20))
      let work = Task { await bench.runner(width: 2).advance(probing: false) }
      try await eventually { (try await ledger.activeRun()?.counts.done ?? 0) >= 5 }
      work.cancel()
      #expect(await work.value == .later)
      // The items that it had claimed are another replica's, without the wait for the end of its lease.
      let soon = clock.date.addingTimeInterval(120)
      let claim = try await ledger.claimRunItems(of: started.id, dueAt: soon, until: soon, limit: 100)
      #expect(try await ledger.run(started.id)?.counts.remaining == claim.items.count && !claim.items.isEmpty)
    }
    clock.advance(by: 60)
    try await run(directory: directory.url, at: clock) { bench, store, _ in
      let left = try #require(try await bench.ledger.activeRun())
      #expect(left.counts.done >= 5 && left.counts.remaining > 0)
      #expect(await bench.runner().advance(probing: false) == .idle)
      let ended = try #require(try await bench.ledger.run(left.id))
      #expect(ended.counts.done == 20)
      #expect(store.simulator.calls.total == left.counts.remaining)
    }
  }

  @Test func `a user whose sandbox purchases count no more is judged anew, and counted`() async throws {
    let directory = try TemporaryDirectory()
    let clock = MovingClock()
    try await SimulatedStore.run { store in
      let receipt = try store.simulator.issueReceipt(.renewing, environment: .sandbox).receiptData
      try await JobBench.run(apple: store.apple, directory: directory.url, now: { clock.date }) { bench in
        _ = try await bench.validate(receipt)
      }
      let settings = Settings(policy: ["sandbox": "reject"])
      try await JobBench.run(apple: store.apple, settings: settings, directory: directory.url, now: { clock.date }) {
        bench in
        let run = try await begin(bench)
        #expect(await bench.runner().advance(probing: false) == .idle)
        let counts = try #require(try await bench.ledger.run(run.id)?.counts)
        #expect((counts.done, counts.changed) == (1, 1))
        #expect(try await bench.ledger.profile(of: "user-1")?.entitlement.tier == "free")
      }
    }
  }
}

extension JobBench {
  /// Has each of these users present a receipt of their own.
  func subscribe(
    _ users: ClosedRange<Int>, _ store: SimulatedStore, _ scenario: Scenario = .renewing
  ) async throws {
    for number in users {
      try await validate(
        try store.simulator.issueReceipt(scenario, subscriber: Int64(number)).receiptData, user: "user-\(number)")
    }
    store.simulator.resetCalls()
  }
}
