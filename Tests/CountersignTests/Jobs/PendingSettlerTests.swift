import Entitlements
import Foundation
import Ledger
import Resilience
import Synchronization
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Validation

/// Receipts that were acknowledged while Apple was away, before, in and after the outage.
@Suite struct PendingSettlerTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800.123456789)

  private func run(
    body: @Sendable (JobBench, SimulatedStore, MovingClock) async throws -> Void
  ) async throws {
    try await JobBench.besideStore(
      by: MovingClock(Self.start), settings: Settings(appStore: ["deadline": "4s"]), body: body)
  }

  private func postpone(_ receipt: String, of user: UserID, _ bench: JobBench) async throws {
    let pending = PendingReceipt(user: user, base64: receipt, requestID: "r-\(user)", receivedAt: bench.now())
    let context = bench.validator.verdicts.evaluationContext
    #expect(try await bench.ledger.run(Postpone(pending, provisional: [], context)) == .kept)
  }

  /// Receipts of `u1`, `u2`, …
  private func postpone(
    _ numbers: ClosedRange<Int>, of scenario: Scenario = .renewing,
    in environment: AppStoreSimulator.StoreEnvironment = .production,
    _ store: SimulatedStore, _ bench: JobBench
  ) async throws {
    for number in numbers {
      let receipt = try store.simulator.issueReceipt(scenario, environment: environment, subscriber: Int64(number))
      try await postpone(receipt.receiptData, of: UserID("u\(number)"), bench)
    }
  }

  private func waiting(_ bench: JobBench) async throws -> [UserID: Int] {
    let receipts = try await bench.ledger.pendingReceipts(dueAt: .distantFuture, limit: 100)
    return Dictionary(uniqueKeysWithValues: receipts.map { ($0.user, $0.attempts) })
  }

  /// 21004 opens no breaker: each attempt is a call.
  @Test func `after an outage of six hours a receipt is settled as soon as Apple has answered anybody`() async throws {
    try await run { bench, store, clock in
      let isAway = Mutex(true)
      let settler = bench.settler(isAppleDoubtful: { isAway.withLock { $0 } })
      var course = PendingSettler.Course()
      store.simulator.setTrouble(.status21004)
      try await postpone(1...2, store, bench)
      for _ in 0..<360 {
        #expect(await settler.turn(&course) != nil)
        #expect(course.isAppleAway)
        clock.advance(by: 60)
        store.simulator.setClock(clock.date)
      }
      // Both were tried a moment ago.
      for _ in 0..<3 { #expect(await settler.turn(&course) != nil) }
      let attempts = try await waiting(bench)
      #expect(attempts.count == 2 && attempts.values.allSatisfy { $0 <= 1 }, "\(attempts)")
      store.simulator.setTrouble(nil)
      isAway.withLock { $0 = false }
      let other = try store.simulator.issueReceipt(.renewing, subscriber: 3).receiptData
      try await bench.validate(other, user: "u3")
      while await settler.turn(&course) == nil {}
      #expect(!course.isAppleAway)
      #expect(try await waiting(bench).isEmpty)
      for number in 1...2 { #expect(try await bench.verdict("u\(number)").hasPrefix("pro active")) }
    }
  }

  @Test func `an empty sweep does not end an outage, and one receipt alone is tried in it`() async throws {
    try await run { bench, store, clock in
      let settler = bench.settler()
      var course = PendingSettler.Course()
      store.simulator.setTrouble(.status21004)
      try await postpone(1...20, store, bench)
      for turn in 1...20 {
        store.simulator.resetCalls()
        #expect(await settler.turn(&course) == Duration.seconds(min(10, 1 << turn)))
        #expect(store.simulator.calls.total == 1)
      }
      #expect(await settler.turn(&course) == .seconds(1), "nothing is due")
      #expect(course.isAppleAway)
      #expect(try await waiting(bench).values.reduce(0, +) == 1, "the attempt that showed it")
    }
  }

  @Test func `while the sandbox is away production's receipts do not wait behind its own`() async throws {
    try await run { bench, store, _ in
      let breaker = try #require(bench.appStore.verifyReceiptBreakers[.sandbox])
      let settler = bench.settler(isAppleDoubtful: { [appStore = bench.appStore] in appStore.isDoubtful })
      var course = PendingSettler.Course()
      store.simulator.setTrouble(.http503, count: nil, environment: .sandbox)
      try await postpone(1...40, in: .sandbox, store, bench)
      var turns = 0
      while breaker.counts.opened == 0, turns < 20 {
        _ = await settler.turn(&course)
        turns += 1
      }
      try await postpone(
        try store.simulator.issueReceipt(.renewing, subscriber: 41).receiptData, of: "payer", bench)
      // The breaker may let a call through in between.
      var pauses = 0
      while try await waiting(bench)["payer"] != nil, pauses < 4 {
        if await settler.turn(&course) != nil { pauses += 1 }
      }
      #expect(try await bench.verdict("payer").hasPrefix("pro active"))
      #expect(try await waiting(bench).count == 40)
    }
  }

  @Test func `a call that the breaker refuses is no attempt`() async throws {
    try await run { bench, store, _ in
      let breaker = try #require(bench.appStore.verifyReceiptBreakers[.production])
      let settler = bench.settler(isAppleDoubtful: { breaker.state != .closed })
      var course = PendingSettler.Course()
      store.simulator.setTrouble(.http503)
      try await postpone(1...20, store, bench)
      for _ in 0..<20 { #expect(await settler.turn(&course) != nil) }
      #expect(breaker.counts.opened > 0)
      #expect(try await waiting(bench).values.reduce(0, +) == 1)
      #expect(try await bench.ledger.pendingReceipts(dueAt: bench.now(), limit: 100).isEmpty, "each waits a moment")
    }
  }

  /// 21005 says that Apple has trouble, and its receipt is authentic.
  @Test func `one receipt that Apple has trouble with opens no breaker for the others`() async throws {
    try await run { bench, store, _ in
      let breaker = try #require(bench.appStore.verifyReceiptBreakers[.production])
      let settler = bench.settler(isAppleDoubtful: { [appStore = bench.appStore] in appStore.isDoubtful })
      var course = PendingSettler.Course()
      store.simulator.setTrouble(.status21005, subscriber: 1)
      try await postpone(1...1, store, bench)
      for number in 2...8 {
        #expect(await settler.turn(&course) != nil)
        try await bench.validate(
          try store.simulator.issueReceipt(.renewing, subscriber: Int64(number)).receiptData, user: "u\(number)")
      }
      #expect(breaker.counts.opened == 0)
      #expect(try await waiting(bench) == ["u1": 1])
    }
  }

  @Test func `nothing that was given ends by a clock that is not confirmed`() async throws {
    try await run { bench, _, clock in
      _ = try await bench.ledger.run(
        Give(
          user: "anna", kind: .support, tier: "pro", startsAt: bench.now(), endsAt: bench.now().addingTimeInterval(60),
          author: "desk", requestID: "grant", evaluationContext: bench.validator.verdicts.evaluationContext))
      clock.advance(by: 60)
      var course = PendingSettler.Course()
      for (isConfirmed, tier) in [(false, "pro"), (true, "free")] as [(Bool, Tier)] {
        var settler = bench.settler()
        settler.isClockConfirmed = { isConfirmed }
        _ = await settler.turn(&course)
        #expect(try await bench.ledger.profile(of: "anna")?.entitlement.tier == tier)
      }
    }
  }

  @Test func `a user who cannot be read holds up nobody's receipt, and is told of once`() async throws {
    try await run { bench, store, clock in
      let settler = bench.settler()
      var course = PendingSettler.Course()
      try await bench.validate(try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData, user: "u1")
      _ = try await bench.ledger.run(
        Give(
          user: "u1", kind: .support, tier: "pro", startsAt: bench.now(), endsAt: bench.now().addingTimeInterval(60),
          author: "desk", requestID: "grant", evaluationContext: bench.validator.verdicts.evaluationContext))
      try await bench.spoilPurchases(of: "u1")
      clock.advance(by: 60)
      store.simulator.setClock(clock.date)
      try await postpone(1...3, store, bench)
      for _ in 0..<3 { _ = await settler.turn(&course) }
      let left = try await waiting(bench)
      #expect(left["u2"] == nil && left["u3"] == nil, "\(left)")
      #expect(!course.isAppleAway)
      #expect(bench.log.lines.count { $0.contains("grants and trials do not end") } == 1)
    }
  }

  struct Mistake: Sendable, CustomTestStringConvertible {
    var problem: String
    var environment = AppStoreSimulator.StoreEnvironment.production
    var format = ReceiptFormat.der
    var change: @Sendable (inout Settings) -> Void

    var settings: Settings {
      var settings = Settings(appStore: ["deadline": "4s"])
      change(&settings)
      return settings
    }
    var testDescription: String { problem }
  }

  static let wrongApp = Mistake(problem: "wrong_app") { $0.bundleIDs = ["com.example.other"] }
  static let mistakes = [
    wrongApp,
    Mistake(problem: "sandbox_refused", environment: .sandbox) { $0.policy["sandbox"] = "reject" },
    Mistake(problem: "not_authentic", format: .ios6) { $0.policy["local_verification"] = "require" },
  ]

  /// The app has finished the transaction after the 202: nobody posts it again.
  @Test(arguments: mistakes)
  func `a receipt that a mistaken configuration refuses is settled by the right one`(mistake: Mistake) async throws {
    let clock = MovingClock(Self.start)
    let directory = try TemporaryDirectory()
    try await SimulatedStore.run(at: clock.date) { store in
      let receipt = try store.simulator.issueReceipt(
        .renewing, environment: mistake.environment, format: mistake.format)
      try await JobBench.run(
        apple: store.apple, settings: mistake.settings, directory: directory.url, now: { clock.date }
      ) { bench in
        var course = PendingSettler.Course()
        try await postpone(receipt.receiptData, of: "u1", bench)
        _ = await bench.settler().turn(&course)
        #expect(try await waiting(bench) == ["u1": 1])
        #expect(
          bench.log.lines.contains {
            $0.contains(#""level":"warning""#) && $0.contains("a pending receipt is refused by the configuration")
              && $0.contains(mistake.problem)
          })
      }
      clock.advance(by: 60)
      try await JobBench.run(
        apple: store.apple, settings: Settings(appStore: ["deadline": "4s"]), directory: directory.url,
        now: { clock.date }
      ) { bench async throws in
        var course = PendingSettler.Course()
        _ = await bench.settler().turn(&course)
        #expect(try await waiting(bench).isEmpty)
        #expect(try await bench.verdict("u1") == "pro active renewing")
      }
    }
  }

  @Test func `a receipt that the configuration refuses is kept for a week`() async throws {
    let clock = MovingClock(Self.start)
    try await JobBench.besideStore(by: clock, settings: Self.wrongApp.settings) { bench, store, clock in
      let settler = bench.settler()
      var course = PendingSettler.Course()
      try await postpone(1...1, store, bench)
      for (seconds, waits) in [(0.0, true), (7 * 86_400 - 1, true), (1, false)] {
        clock.advance(by: seconds)
        store.simulator.setClock(clock.date)
        try await bench.ledger.releaseClaims()
        _ = await settler.turn(&course)
        #expect(try await waiting(bench).isEmpty == !waits)
      }
      #expect(bench.log.lines.count { $0.contains(#""a pending receipt was refused""#) } == 1)
    }
  }

  @Test func `a receipt that always fails holds up no other, and is asked about ever more rarely`() async throws {
    try await run { bench, store, clock in
      let settler = bench.settler()
      var course = PendingSettler.Course()
      store.simulator.setTrouble(.status21004, subscriber: 1)
      try await postpone(1...5, of: .lifetime, store, bench)
      #expect(await settler.turn(&course) != nil)
      #expect(course.isAppleAway)
      // The others are due for longer.
      clock.advance(by: 1)
      while await settler.turn(&course) == nil {}
      #expect(try await waiting(bench) == ["u1": 1], "not asked again because the others were answered")
      store.simulator.resetCalls()
      for _ in 0..<60 {
        clock.advance(by: 60)
        store.simulator.setClock(clock.date)
        // Somebody else's answer.
        bench.validator.gateway.appStoreHealth.answered()
        _ = await settler.turn(&course)
      }
      #expect(5...12 ~= store.simulator.calls.total, "\(store.simulator.calls.total)")
    }
  }
}
