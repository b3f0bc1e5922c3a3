import Dispatch
import Entitlements
import Foundation
import Ledger
import LedgerFixtures
import Synchronization
import Testing

@Suite(.ofTheFile) struct GroupCommitTests {
  /// Admits every verdict, and counts them by user.
  private final class Questions: Sendable {
    private let asked = Mutex<[UserID: Int]>([:])
    var count: [UserID: Int] { asked.withLock { $0 } }

    func admit(_ user: UserID) -> Bool {
      asked.withLock { $0[user, default: 0] += 1 }
      return true
    }
  }

  @Test func `a lone record is one commit`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 0..<5 { _ = try await ledger.record(entry(UserID("u\(number)"), [evidence("\(number)")])) }
      #expect(ledger.statistics.commits == 5)
      #expect(ledger.statistics.entries == 5)
      #expect(ledger.statistics.largestBatch == 1)
    }
  }

  /// The first record holds the writer until all others wait: 255 then make four batches of at most 64.
  @Test func `256 concurrent records are five commits, and all are in a copy of the files`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let evaluator = PausedEvaluator()
      try await withThrowingTaskGroup { group in
        group.addTask { _ = try await ledger.record(entry("u0", [evidence("0")], rules: evaluator.rules)) }
        try await evaluator.started()
        for number in 1..<256 {
          group.addTask { _ = try await ledger.record(entry(UserID("u\(number)"), [evidence("\(number)")])) }
        }
        while ledger.statistics.waiting < 255 { await Task.yield() }
        #expect(ledger.statistics.commits == 0)
        evaluator.resume()
        try await group.waitForAll()
      }
      #expect(ledger.statistics.commits == 5)
      #expect(ledger.statistics.entries == 256)
      #expect(ledger.statistics.largestBatch == 64)

      let copy = try Scratch()
      for suffix in ["", "-wal"] {
        try FileManager.default.copyItem(atPath: scratch.path + suffix, toPath: copy.path + suffix)
      }
      let reopened = try await copy.open()
      for number in 0..<256 { #expect(try await reopened.profile(of: UserID("u\(number)")) != nil) }
      try await reopened.verifyIntegrity()
      await reopened.close()
    }
  }

  @Test func `a record that fails does not spoil the others of its batch`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let evaluator = PausedEvaluator()
      let failures = try await withThrowingTaskGroup { group in
        group.addTask {
          _ = try await ledger.record(entry("first", [evidence("first")], rules: evaluator.rules))
          return false
        }
        try await evaluator.started()
        for number in 0..<20 {
          group.addTask {
            // SQLite refuses an empty receipt, after the profile and its history line were written.
            let bad = number % 5 == 0
            do {
              _ = try await ledger.record(
                entry(UserID("u\(number)"), [evidence("\(number)")], receipt: bad ? "" : "receipt"))
              return false
            } catch LedgerError.unusable {
              return true
            }
          }
        }
        while ledger.statistics.waiting < 20 { await Task.yield() }
        evaluator.resume()
        return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
      }
      #expect(failures == 4)
      #expect(ledger.statistics.commits == 2)
      #expect(ledger.statistics.entries == 17)
      for number in 0..<20 {
        let user = UserID("u\(number)")
        #expect(try await (ledger.profile(of: user) == nil) == (number % 5 == 0))
        #expect(try await ledger.wholeHistory(of: user).count == (number % 5 == 0 ? 0 : 1))
      }
      try await ledger.verifyIntegrity()
    }
  }

  /// Whoever admits verdicts counts them: too many that lower somebody stop all of them.
  @Test func `a record that fails has nobody asked twice whether the others of its batch may pass`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let evaluator = PausedEvaluator()
      let asked = Questions()
      try await withThrowingTaskGroup { group in
        group.addTask { _ = try await ledger.record(entry("first", [evidence("first")], rules: evaluator.rules)) }
        try await evaluator.started()
        for number in 0..<5 {
          group.addTask {
            let user = UserID("u\(number)")
            let counted = entry(user, [evidence("\(number)")], receipt: number == 3 ? "" : "receipt").with {
              $0.approves = { _, _ in asked.admit(user) }
            }
            do {
              _ = try await ledger.record(counted)
              #expect(number != 3)
            } catch LedgerError.unusable {
              #expect(number == 3)
            }
          }
          while ledger.statistics.waiting < number + 1 { await Task.yield() }
        }
        evaluator.resume()
        try await group.waitForAll()
      }
      #expect(ledger.statistics.entries == 5)
      #expect(asked.count == ["u0": 1, "u1": 1, "u2": 1, "u3": 1, "u4": 1])
    }
  }

  @Test func `no caller is answered before the commit`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let evaluator = PausedEvaluator()
      async let recorded = ledger.record(entry("anna", [evidence("1")], rules: evaluator.rules))
      try await evaluator.started()
      #expect(try await ledger.profile(of: "anna") == nil)
      evaluator.resume()
      _ = try await recorded
      #expect(try await ledger.profile(of: "anna") != nil)
    }
  }

  @Test func `a record whose caller was cancelled is made all the same`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let evaluator = PausedEvaluator()
      async let first = ledger.record(entry("first", [evidence("1")], rules: evaluator.rules))
      try await evaluator.started()
      let cancelled = Task { try await ledger.record(entry("anna", [evidence("2")])) }
      while ledger.statistics.waiting < 1 { await Task.yield() }
      cancelled.cancel()
      evaluator.resume()
      _ = try await first
      #expect(try await cancelled.value.recorded != nil)
      #expect(try await ledger.profile(of: "anna") != nil)
    }
  }

  @Test func `closing records the waiting writes`() async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    let evaluator = PausedEvaluator()
    async let first = ledger.record(entry("first", [evidence("1")], rules: evaluator.rules))
    try await evaluator.started()
    async let second = ledger.record(entry("second", [evidence("2")]))
    while ledger.statistics.waiting < 1 { await Task.yield() }
    async let closed: Void = ledger.close()
    evaluator.resume()
    _ = try await (first, second)
    await closed
    let reopened = try await scratch.open()
    #expect(try await reopened.profile(of: "second") != nil)
    await reopened.close()
  }

  @Test func `versions of a user have no gap, whoever writes when`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await withThrowingTaskGroup { group in
        for number in 0..<100 {
          group.addTask { _ = try await ledger.record(entry("anna", [evidence("\(number)")], request: "r\(number)")) }
        }
        try await group.waitForAll()
      }
      #expect(try await ledger.profile(of: "anna")?.version == 100)
      let lines = try await ledger.wholeHistory(of: "anna")
      #expect(Set(lines.map(\.requestID)).count == 100)
    }
  }
}

/// Holds the writer inside an evaluation until it is resumed.
final class PausedEvaluator: Sendable {
  private let isResumed = DispatchSemaphore(value: 0)
  private let isStarted = Mutex(false)

  var rules: StandInRules {
    StandInRules { [self] user, evidence, given, now in
      isStarted.withLock { $0 = true }
      isResumed.wait()
      return standIn(user, evidence, given, now)
    }
  }

  func started() async throws {
    while !isStarted.withLock({ $0 }) {
      try Task.checkCancellation()
      await Task.yield()
    }
  }

  func resume() { isResumed.signal() }
}
