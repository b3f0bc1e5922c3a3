import Entitlements
import Foundation
import LedgerFixtures
import Synchronization
import TestSupport
import Testing

@testable import Ledger

/// How the writer waits for more writes where many callers are at work.
@Suite(.ofTheFile, .timeLimit(.minutes(10))) struct GatheringTests {
  /// Records `first` at once, and then what the script says: so many more during each pause of the writer.
  ///
  /// - Returns: how many writes each commit had, and how often the writer paused.
  private func commits(first: Int, then script: [Int]) async throws -> (sizes: [Int], pauses: Int) {
    let scratch = try Scratch()
    let writer = ScriptedWriter(script)
    let ledger = try await Ledger.open(
      path: scratch.path, synchronous: .full, onFatal: { Issue.record("the ledger gave up: \($0)") },
      onCommit: writer.note, pause: writer.pause)
    try await withThrowingDiscardingTaskGroup { group in
      let evaluator = PausedEvaluator()
      group.addTask { _ = try await ledger.record(entry("gate", [evidence("gate")], rules: evaluator.rules)) }
      try await evaluator.started()
      for number in 0..<first {
        group.addTask { _ = try await ledger.record(entry(UserID("u\(number)"), [evidence("\(number)")])) }
      }
      while ledger.statistics.waiting < first { await Task.yield() }
      writer.write(to: ledger)
      evaluator.resume()
    }
    try await writer.finish()
    await ledger.close()
    return (writer.sizes, writer.pauses)
  }

  @Test func `after a batch of four the next one is gathered as long as more keep coming`() async throws {
    let gathered = try await commits(first: 4, then: [3, 2, 0])
    #expect(gathered.sizes == [1, 4, 5])
    // The last one is after the batch of five, and finds nobody.
    #expect(gathered.pauses == 4)
  }

  @Test func `a small batch among large ones does not end the gathering`() async throws {
    // Sixteen, twelve, nine and six of late are enough to gather. The last pause finds nobody.
    let gathered = try await commits(first: 16, then: [1, 0, 1, 0, 1])
    #expect(gathered.sizes == [1, 16, 1, 1, 1])
    #expect(gathered.pauses == 7)
  }

  @Test func `a batch of three is no company`() async throws {
    let gathered = try await commits(first: 3, then: [])
    #expect(gathered.sizes == [1, 3])
    #expect(gathered.pauses == 0)
  }

  @Test func `the writer waits no longer once there are enough for an fsync`() async throws {
    let gathered = try await commits(first: 4, then: [32])
    #expect(gathered.sizes == [1, 4, 32])
    #expect(gathered.pauses == 2)
  }

  @Test func `the queue looks four times and no more, so that no caller waits for long`() async throws {
    let gathered = try await commits(first: 4, then: [1, 1, 1, 1, 0])
    #expect(gathered.sizes == [1, 4, 4])
    #expect(gathered.pauses == 5)
  }

  @Test func `a commit follows at once where nobody comes`() async throws {
    let gathered = try await commits(first: 4, then: [])
    #expect(gathered.sizes == [1, 4])
    #expect(gathered.pauses == 1)
  }

  @Test func `records that wait while the ledger is closed are written without further pauses`() async throws {
    let scratch = try Scratch()
    let evaluator = PausedEvaluator()
    let pauses = ConcurrencyCounter()
    let opened = Once<Ledger>()
    let ledger = try await Ledger.open(
      path: scratch.path, synchronous: .full, onFatal: { Issue.record("the ledger gave up: \($0)") },
      pause: {
        pauses.begin()
        guard let ledger = opened.value else { return }
        Task { try await ledger.record(entry("late", [evidence("late")])) }
        hold { ledger.statistics.waiting >= 1 }
        Task { await ledger.close() }
        hold { ledger.engine.isClosed }
      })
    opened.value = ledger
    try await withThrowingDiscardingTaskGroup { group in
      group.addTask { _ = try await ledger.record(entry("gate", [evidence("gate")], rules: evaluator.rules)) }
      try await evaluator.started()
      for number in 0..<4 {
        group.addTask { _ = try await ledger.record(entry(UserID("u\(number)"), [evidence("\(number)")])) }
      }
      while ledger.statistics.waiting < 4 { await Task.yield() }
      evaluator.resume()
    }
    while !ledger.engine.isClosed {
      try Task.checkCancellation()
      await Task.yield()
    }
    await ledger.close()
    #expect(pauses.total == 1)
    #expect(ledger.statistics.entries == 6)
  }
}

/// Keeps the writer's thread, which is no task's, until something holds.
private func hold(until condition: () -> Bool) {
  let deadline = ContinuousClock.now.advanced(by: .seconds(180))
  while !condition() {
    guard ContinuousClock.now < deadline else {
      Issue.record("what the writer waits for does not come")
      return
    }
    // To ask without a rest would keep those from the lock who are to come.
    usleep(200)
  }
}

/// Plays the callers: on each pause of the writer as many of them come as the script says.
private final class ScriptedWriter: Sendable {
  private struct State {
    var script: ArraySlice<Int>
    var ledger: Ledger?
    var sizes: [Int] = []
    var pauses = 0
    var records: [Task<Void, any Error>] = []
  }

  private let state: Mutex<State>

  init(_ script: [Int]) { state = Mutex(State(script: script[...])) }

  var sizes: [Int] { state.withLock { $0.sizes } }
  var pauses: Int { state.withLock { $0.pauses } }

  func write(to ledger: Ledger) { state.withLock { $0.ledger = ledger } }

  @Sendable func note(_ commit: Ledger.Commit) { state.withLock { $0.sizes.append(commit.writes) } }

  /// On the writer's thread, which goes on when those who came wait.
  @Sendable func pause() {
    // Under one lock: whoever finds the script at its end finds all records too (`finish`).
    let awaited: (ledger: Ledger, count: Int)? = state.withLock { state in
      state.pauses += 1
      let coming = state.script.popFirst() ?? 0
      guard let ledger = state.ledger else { return nil }
      let expected = ledger.statistics.waiting + coming
      for index in 0..<coming {
        let name = "p\(state.pauses)-\(index)"
        state.records.append(Task { _ = try await ledger.record(entry(UserID(name), [evidence(name)])) })
      }
      return (ledger, expected)
    }
    guard let awaited else { return }
    hold { awaited.ledger.statistics.waiting >= awaited.count }
  }

  /// Waits until all have come and are answered.
  func finish() async throws {
    while !state.withLock({ $0.script.isEmpty }) {
      try await Task.sleep(for: .milliseconds(1))
    }
    for record in state.withLock({ $0.records }) { try await record.value }
  }
}

/// A value that is known only after something that refers to it was made.
private final class Once<Value: Sendable>: Sendable {
  private let held = Mutex<Value?>(nil)

  var value: Value? {
    get { held.withLock { $0 } }
    set { held.withLock { $0 = newValue } }
  }
}
