import Entitlements
import Foundation
import LedgerFixtures
import SeededRandom
import TestSupport
import Testing
import TestSupport

@testable import Ledger

@Suite struct RunTests {
  private static let day: Duration = .seconds(86_400)
  private static let hours: Double = 3_600

  private func answer(_ user: UserID, _ evidence: [SubscriptionEvidence], receipt: String = "YQ==") -> LedgerEntry {
    entry(user, evidence, receipt: receipt, rules: checkedRules)
  }

  /// Subscription `n` of user `un` ends so many hours from now.
  private func subscribe(_ ledger: Ledger, _ hours: [Double]) async throws {
    for (number, hours) in hours.enumerated() {
      _ = try await ledger.record(
        answer(
          UserID("u\(number)"), [evidence("\(number)", time: -1e7, expires: hours * Self.hours, evaluatedAt: -1e7)],
          receipt: "receipt-\(number)"))
    }
  }

  private func start(_ ledger: Ledger, limit: Int = 1_000, at now: Double = 0) async throws -> Run {
    switch try await ledger.startRun(RunOrder(expiringWithin: Self.day, limit: limit), key: nil, at: clock(now)) {
    case .started(let run): return run
    case .known(let run):
      Issue.record("\(run)")
      return run
    case .mismatch: throw StoredForm.Unstorable()
    }
  }

  private func claim(_ ledger: Ledger, _ run: Run, limit: Int = 100, now: Double = 0) async throws -> RunClaim {
    try await ledger.claimRunItems(of: run.id, dueAt: clock(now), until: at(now + 900), limit: limit)
  }

  // MARK: What is taken

  @Test func `subscriptions that end within the time or are overdue are taken, the longest waiting first`() async throws
  {
    try await Scratch.withLedger { ledger, _ in
      // Ends in: 30 h, 24 h, 1 h; ended 2 h and 59 days ago, 61 days ago.
      try await subscribe(ledger, [30, 24, 1, -2, -59 * 24, -61 * 24])
      let order = RunOrder(expiringWithin: Self.day, limit: 10)
      #expect(try await ledger.countDue(order, at: clock(0)) == 4)
      let run = try await start(ledger)
      #expect(run.state == .running)
      #expect(run.counts == RunCounts(due: 4))
      #expect(run.startedAt == at(0))
      let claim = try await claim(ledger, run)
      #expect(claim.items.map(\.owner) == ["u4", "u3", "u2", "u1"])
      #expect(claim.isExhausted)
      let receipt = KeptReceipt(
        base64: "receipt-2", environment: .production, bundleID: "com.example.app", owner: "u2")
      #expect(
        claim.items.dropFirst(2).first
          == RunItem(id: 3, run: run.id, key: key("2"), owner: "u2", receipt: receipt, attempts: 0))
    }
  }

  @Test func `one that cannot be read has failed, and the run ends`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await subscribe(ledger, [1, 2])
      let run = try await start(ledger)
      try await scratch.change("UPDATE purchase SET evidence = '[]' WHERE original_transaction_id = '0'")
      let claim = try await claim(ledger, run)
      #expect(claim.items.map(\.key) == [key("1")] && claim.unreadable == [key("0")])
      for item in claim.items { try await ledger.settle(item, .done(changed: false)) }
      let ended = try #require(try await ledger.finishRun(run.id, at: clock(1)))
      #expect(ended.state == .finished(at: at(1)))
      #expect((ended.counts.done, ended.counts.failed) == (1, 1))
    }
  }

  @Test func `no more are taken than the limit says, and these end first`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [5, 3, 1, 4, 2])
      #expect(try await ledger.countDue(RunOrder(expiringWithin: Self.day, limit: 3), at: clock(0)) == 3)
      let run = try await start(ledger, limit: 3)
      #expect(run.counts.due == 3)
      #expect(try await claim(ledger, run).items.map(\.owner) == ["u2", "u4", "u1"])
    }
  }

  @Test func `with nothing ahead only what is overdue is taken`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1, -1])
      let order = RunOrder(expiringWithin: .zero, limit: 10)
      guard case .started(let run) = try await ledger.startRun(order, key: nil, at: clock(0)) else {
        throw Unexpected()
      }
      #expect(try await claim(ledger, run).items.map(\.owner) == ["u1"])
    }
  }

  @Test func `a run over nothing is finished at once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [100])
      let run = try await start(ledger)
      #expect(run.state == .finished(at: at(0)))
      #expect(run.counts == RunCounts(due: 0))
      #expect(try await ledger.activeRun() == nil)
    }
  }

  // MARK: One at a time

  @Test func `one of many callers at once starts a run, and all are told of it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1, 2, 3])
      let starts = try await withThrowingTaskGroup(of: RunStart.self) { group in
        for _ in 0..<40 {
          group.addTask {
            try await ledger.startRun(RunOrder(expiringWithin: Self.day, limit: 10), key: nil, at: clock(0))
          }
        }
        return try await group.reduce(into: [RunStart]()) { $0.append($1) }
      }
      let started = starts.compactMap { if case .started(let run) = $0 { run } else { nil } }
      #expect(started.count == 1)
      let known = starts.compactMap { if case .known(let run) = $0 { run.id } else { nil } }
      #expect(Set(known) == Set(started.map(\.id)))
      #expect(known.count == 39)
    }
  }

  @Test func `the same wish again is answered with its run, also after the end`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1])
      let order = RunOrder(expiringWithin: Self.day, limit: 10)
      guard case .started(let first) = try await ledger.startRun(order, key: "tonight", at: clock(0)) else {
        throw Unexpected()
      }
      for item in try await claim(ledger, first).items { try await ledger.settle(item, .failed) }
      let ended = try await ledger.finishRun(first.id, at: clock(5))
      #expect(ended?.state == .finished(at: at(5)))
      #expect(try await ledger.startRun(order, key: "tonight", at: clock(9)) == .known(try #require(ended)))
      guard case .started(let second) = try await ledger.startRun(order, key: "tomorrow", at: clock(10)) else {
        throw Unexpected()
      }
      #expect(second.id != first.id)
      #expect(second.counts.due == 1)
    }
  }

  // MARK: Exactly once

  @Test func `a subscription is handed out once, and again when its lease is over`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1, 2, 3, 4, 5])
      let run = try await start(ledger)
      let first = try await claim(ledger, run, limit: 3)
      #expect(first.items.count == 3)
      #expect(!first.isExhausted)
      let second = try await claim(ledger, run, limit: 3)
      #expect(second.items.count == 2)
      #expect(second.isExhausted)
      #expect(Set((first.items + second.items).map(\.key)).count == 5)
      #expect(try await claim(ledger, run, now: 899).items.isEmpty)
      #expect(try await claim(ledger, run, now: 900).items.count == 5)
    }
  }

  @Test func `a verdict settles its subscription in the same transaction`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1, 2])
      let run = try await start(ledger)
      let items = try await claim(ledger, run).items
      // The first is renewed, the second unchanged.
      _ = try await ledger.record(
        answer("u0", [evidence("0", time: 1, expires: 1e6)]).with { $0.origin = .recheck(items.first) })
      _ = try await ledger.record(
        answer("u1", [evidence("1", time: 1, expires: 2 * Self.hours)]).with { $0.origin = .recheck(items.last) })
      let counts = try #require(try await ledger.run(run.id)?.counts)
      #expect((counts.done, counts.changed, counts.remaining) == (2, 1, 0))
      #expect(try await ledger.finishRun(run.id, at: clock(2))?.state == .finished(at: at(2)))
    }
  }

  @Test func `a verdict that was not recorded settles nothing`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1, 2])
      let run = try await start(ledger)
      let items = try await claim(ledger, run).items
      let heldBack = try await ledger.record(
        answer("u0", [evidence("0", time: 4_000, expires: Self.hours)]).with {
          $0.origin = .recheck(items.first)
          $0.approves = { _, _ in false }
        })
      let refused = try await ledger.record(
        answer("u0", [evidence("1", time: 1, expires: 2 * Self.hours)]).with { $0.origin = .recheck(items.last) })
      #expect(heldBack.recorded == nil && refused.isRefused)
      #expect(try await ledger.run(run.id)?.counts.remaining == 2)
    }
  }

  @Test func `settled twice is counted once, whatever the second says`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1])
      let run = try await start(ledger)
      let item = try #require(try await claim(ledger, run).items.first)
      try await ledger.settle(item, .heldBack)
      try await ledger.settle(item, .failed)
      _ = try await ledger.record(
        answer("u0", [evidence("0", time: 1, expires: 1e6)]).with { $0.origin = .recheck(item) })
      let counts = try #require(try await ledger.run(run.id)?.counts)
      #expect((counts.heldBack, counts.failed, counts.done, counts.remaining) == (1, 0, 0, 0))
    }
  }

  @Test func `a subscription that Apple has told of since the run began is done and not handed out`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1, 2, 3, 4])
      let run = try await start(ledger, at: 10)
      // A caller posted; the scheduler found a renewal; another ended for good. Nobody asked about the last.
      _ = try await ledger.record(answer("u0", [evidence("0", time: 11, expires: Self.hours)]))
      _ = try await ledger.record(answer("u1", [evidence("1", time: 5, expires: 1e6)]))
      var ended = evidence("2", time: 5, expires: 3 * Self.hours)
      ended.isAccountGone = true
      _ = try await ledger.record(answer("u2", [ended]))
      let claim = try await claim(ledger, run, now: 20)
      #expect(claim.items.map(\.owner) == ["u3"])
      let counts = try #require(try await ledger.run(run.id)?.counts)
      #expect((counts.done, counts.changed, counts.remaining) == (3, 0, 1))
    }
  }

  @Test func `an item that is put off comes again at its time, and the attempts are counted`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1, 2])
      let run = try await start(ledger)
      let items = try await claim(ledger, run).items
      try await ledger.retry(try #require(items.first), at: at(30), isCounted: true)
      try await ledger.giveBack(Array(items.dropFirst()))
      #expect(try await claim(ledger, run, now: 1).items.map(\.key) == [key("1")])
      #expect(try await ledger.finishRun(run.id, at: clock(2))?.state == .running)
      #expect(try await claim(ledger, run, now: 29).items.isEmpty)
      #expect(try await claim(ledger, run, now: 30).items.map(\.attempts) == [1])
    }
  }

  @Test func `the scheduler does not ask at the same time`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [-2])
      let run = try await start(ledger)
      #expect(try await claim(ledger, run).items.count == 1)
      #expect(try await ledger.claimRechecks(dueAt: clock(119), limit: 10).isEmpty)
      // The run has come to nothing: the subscription is not forgotten.
      #expect(try await ledger.claimRechecks(dueAt: clock(120), limit: 10).map(\.key) == [key("0")])
    }
  }

  // MARK: The end

  @Test func `a stopped run hands out nothing, keeps its counts, and lets the next one begin`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await subscribe(ledger, [1, 2, 3])
      let run = try await start(ledger)
      let items = try await claim(ledger, run, limit: 2).items
      try await ledger.settle(try #require(items.first), .heldBack)
      let stopped = try #require(try await ledger.stopRun(run.id, .downgradeBrake, at: clock(7)))
      #expect(stopped.state == .stopped(.downgradeBrake, at: at(7)))
      #expect((stopped.counts.heldBack, stopped.counts.remaining) == (1, 2))
      #expect(try await claim(ledger, run, now: 1e6).items.isEmpty)
      #expect(try await ledger.stopRun(run.id, .downgradeBrake, at: clock(8)) == stopped)
      #expect(try await ledger.finishRun(run.id, at: clock(8)) == stopped)

      let next = try await start(ledger, at: 9)
      #expect(next.counts.due == 3)
      // Whoever comes late with a claim of the first run settles nothing of the second.
      for item in items { try await ledger.settle(item, .failed) }
      #expect(try await ledger.run(next.id)?.counts.remaining == 3)
      #expect(try await ledger.run(run.id) == stopped)
    }
  }

  @Test func `the last hundred runs are kept`() async throws {
    try await Scratch.withLedger { ledger, _ in
      var runs: [Run] = []
      for second in 0..<103 { runs.append(try await start(ledger, at: Double(second))) }
      #expect(try await ledger.run(try #require(runs.last).id) == runs.last)
      #expect(try await ledger.run(runs[3].id) != nil)
      for run in runs.prefix(3) { #expect(try await ledger.run(run.id) == nil) }
      #expect(try await ledger.run(RunID(9_999)) == nil)
    }
  }

  /// Processes that end at any moment: what was claimed comes back, what was settled does not, and the counts add up.
  @Test(arguments: 1...5) func `through many restarts everything is settled once`(seed: UInt64) async throws {
    let scratch = try Scratch()
    var random = SeededRandom(seed: seed)
    var ledger = try await scratch.open()
    try await subscribe(ledger, (0..<60).map { Double($0) / 10 })
    let run = try await start(ledger)
    var expected = RunCounts(due: 60)
    var settled: Set<SubscriptionKey> = []
    var round = 0.0
    while settled.count < 60 {
      // Replicas leave the claims of others alone until they end; one process alone takes them back when it starts.
      let now = TestEngine.isPostgreSQL ? round * 1_000 : 0
      round += 1
      let claim = try await claim(ledger, run, limit: Int.random(in: 1...20, using: &random), now: now)
      for item in claim.items {
        #expect(!settled.contains(item.key))
        switch Int.random(in: 0..<6, using: &random) {
        case 0: continue
        case 1:
          try await ledger.settle(item, .failed)
          expected.failed += 1
        case 2:
          try await ledger.settle(item, .heldBack)
          expected.heldBack += 1
        case 3:
          try await ledger.retry(item, at: at(now + 1_000), isCounted: true)
          continue
        default:
          // Before the run began by Apple's clock, so that it is this that settles it.
          _ = try await ledger.record(
            answer(item.owner, [evidence(item.key.originalTransactionID.rawValue, time: -5, expires: 1e6)]).with {
              $0.origin = .recheck(item)
            })
          expected.done += 1
          expected.changed += 1
        }
        settled.insert(item.key)
      }
      #expect(try await ledger.run(run.id)?.counts == expected)
      await ledger.close()
      ledger = try await scratch.open()
      #expect(try await ledger.activeRun()?.counts == expected)
    }
    #expect(try await ledger.finishRun(run.id, at: clock(50))?.state == .finished(at: at(50)))
    try await ledger.verifyIntegrity()
    await ledger.close()
  }
}
