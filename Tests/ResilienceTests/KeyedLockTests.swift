import Foundation
import Synchronization
import Testing

@testable import Resilience

/// One task at a time for a key, in order of arrival.
@Suite struct KeyedLockTests {
  private let turns = KeyedLock<String>()

  private static var soon: ContinuousClock.Instant { .now + .seconds(3600) }
  /// Over before anybody can wait for it.
  private static var over: ContinuousClock.Instant { .now - .seconds(1) }

  /// The calls, in order.
  private final class Record: Sendable {
    private let names = Mutex<[String]>([])
    var all: [String] { names.withLock { $0 } }
    func note(_ name: String) { names.withLock { $0.append(name) } }
  }

  /// Who is at work on which key, and how many were.
  private final class Workplace: Sendable {
    private let state = Mutex<(inside: [String: Int], passed: Int)>(([:], 0))
    var passed: Int { state.withLock { $0.passed } }

    /// - Returns: how many are at work on the key now.
    func enter(_ key: String) -> Int {
      state.withLock { state in
        state.inside[key, default: 0] += 1
        return state.inside[key] ?? 0
      }
    }

    func leave(_ key: String) {
      state.withLock { state in
        state.inside[key, default: 0] -= 1
        state.passed += 1
      }
    }
  }

  /// A key that nobody has is to be had even after the deadline, without waiting: a key that was left behind is not.
  private func isFree(_ turns: KeyedLock<String>, _ key: String) async -> Bool {
    let isFree = await turns.lock(key, until: Self.over)
    if isFree { turns.unlock(key) }
    return isFree
  }

  @Test func `the first caller has the turn, the others get it in order of arrival`() async {
    let record = Record()
    #expect(await turns.lock("a", until: Self.soon))
    var tasks: [Task<Void, Never>] = []
    for number in 1...5 {
      tasks.append(
        Task {
          #expect(await turns.lock("a", until: Self.soon))
          record.note("\(number)")
          turns.unlock("a")
        })
      while turns.waiting(for: "a") < number { await Task.yield() }
    }
    #expect(record.all == [])
    turns.unlock("a")
    for task in tasks { await task.value }
    #expect(record.all == ["1", "2", "3", "4", "5"])
    #expect(await isFree(turns, "a"))
  }

  @Test func `keys do not wait for each other`() async {
    #expect(await turns.lock("a", until: Self.soon))
    #expect(turns.isLocked("a"))
    #expect(!turns.isLocked("b"))
    #expect(await isFree(turns, "b"))
    #expect(await !isFree(turns, "a"))
    turns.unlock("a")
    #expect(await isFree(turns, "a"))
  }

  @Test func `a caller who waits past the deadline does not get the turn, and nobody behind is held up`() async {
    #expect(await turns.lock("a", until: Self.soon))
    #expect(await !turns.lock("a", until: Self.over))
    #expect(await !turns.lock("a", until: .now + .milliseconds(20)))
    #expect(turns.waiting(for: "a") == 0)
    let patient = Task { await turns.lock("a", until: Self.soon) }
    while turns.waiting(for: "a") < 1 { await Task.yield() }
    turns.unlock("a")
    #expect(await patient.value)
    turns.unlock("a")
    #expect(await isFree(turns, "a"))
  }

  @Test func `a caller who is cancelled while waiting leaves the line`() async {
    #expect(await turns.lock("a", until: Self.soon))
    let first = Task { await turns.lock("a", until: Self.soon) }
    while turns.waiting(for: "a") < 1 { await Task.yield() }
    let second = Task { await turns.lock("a", until: Self.soon) }
    while turns.waiting(for: "a") < 2 { await Task.yield() }
    first.cancel()
    #expect(await !first.value)
    #expect(turns.waiting(for: "a") == 1)
    turns.unlock("a")
    #expect(await second.value)
    turns.unlock("a")
    #expect(await isFree(turns, "a"))
  }

  @Test func `a caller who was cancelled before has nothing to wait for`() async {
    #expect(await turns.lock("a", until: Self.soon))
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      return await turns.lock("a", until: Self.soon)
    }
    task.cancel()
    #expect(await !task.value)
    turns.unlock("a")
    #expect(await isFree(turns, "a"))
  }

  @Test func `a thousand tasks on ten keys: never two at once, and no key is left behind`() async {
    let workplace = Workplace()
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<1000 {
        let key = "key-\(number % 10)"
        group.addTask {
          guard await turns.lock(key, until: Self.soon) else { return }
          #expect(workplace.enter(key) == 1)
          await Task.yield()
          workplace.leave(key)
          turns.unlock(key)
        }
      }
      // Some leave before it is their turn.
      for number in 0..<200 {
        let key = "key-\(number % 10)"
        group.addTask {
          guard await turns.lock(key, until: .now + .microseconds(number)) else { return }
          turns.unlock(key)
        }
      }
    }
    #expect(workplace.passed == 1000)
    for number in 0..<10 { #expect(await isFree(turns, "key-\(number)")) }
  }
}
