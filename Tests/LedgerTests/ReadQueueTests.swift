import Dispatch
import Entitlements
import LedgerFixtures
import Synchronization
import Testing

@testable import Ledger

/// Short reads, which share a turn and a state of the ledger.
@Suite(.ofTheFile) struct ReadQueueTests {
  private struct Broken: Error {}

  /// A ledger, and a queue of reads of its own on the same file.
  private func withQueue(_ body: @Sendable (Ledger, ReadQueue) async throws -> Void) async throws {
    try await Scratch.withLedger { ledger, scratch in
      let queue = ReadQueue(connection: try SQLiteConnection(path: scratch.path, isReadOnly: true))
      do { try await body(ledger, queue) } catch {
        queue.close()
        throw error
      }
      queue.close()
    }
  }

  /// A read that stays at work until it is let go.
  private final class HeldRead: Sendable {
    private let gate = DispatchSemaphore(value: 0)
    private let hasBegun = Atomic(false)

    @Sendable func run(_ tables: LedgerTables) throws -> Int64 {
      let version = try ReadQueueTests.version("anna")(tables)
      hasBegun.store(true, ordering: .releasing)
      gate.wait()
      return version
    }

    func begun() async {
      while !hasBegun.load(ordering: .acquiring) { await Task.yield() }
    }

    func releaseStatements() { gate.signal() }
  }

  fileprivate static func version(_ user: UserID) -> @Sendable (LedgerTables) throws -> Int64 {
    { tables in try tables.accounts.account(of: user)?.version ?? 0 }
  }

  @Test func `a read sees what was recorded before it was asked for`() async throws {
    try await withQueue { ledger, queue in
      for version in 1...20 as ClosedRange<Int64> {
        _ = try await ledger.record(entry("anna", [evidence("\(version)")]))
        #expect(try await queue.submit(Self.version("anna")).get() == version)
      }
    }
  }

  @Test func `a read sees what was recorded before it, also while an older read is at work`() async throws {
    try await withQueue { ledger, queue in
      let held = HeldRead()
      async let old = queue.submit(held.run)
      await held.begun()
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      async let new = queue.submit(Self.version("anna"))
      while queue.waiting < 1 { await Task.yield() }
      held.releaseStatements()
      #expect(try await old.get() == 0)
      #expect(try await new.get() == 1)
    }
  }

  @Test func `reads that wait together share one state`() async throws {
    try await withQueue { ledger, queue in
      let first = HeldRead()
      let second = HeldRead()
      async let one = queue.submit(first.run)
      await first.begun()
      async let two = queue.submit(second.run)
      while queue.waiting < 1 { await Task.yield() }
      async let three = queue.submit(Self.version("anna"))
      while queue.waiting < 2 { await Task.yield() }
      first.releaseStatements()
      await second.begun()
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      second.releaseStatements()
      _ = try await (one.get(), two.get())
      #expect(try await three.get() == 0, "as its turn had begun")
      #expect(try await queue.submit(Self.version("anna")).get() == 1)
    }
  }

  @Test func `a read that fails does not spoil the others`() async throws {
    try await withQueue { ledger, queue in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      let held = HeldRead()
      async let first = queue.submit(held.run)
      await held.begun()
      async let broken = queue.submit { _ in throw Broken() }
      while queue.waiting < 1 { await Task.yield() }
      async let good = queue.submit(Self.version("anna"))
      while queue.waiting < 2 { await Task.yield() }
      held.releaseStatements()
      #expect(try await first.get() == 1)
      let failed = await broken
      #expect(throws: LedgerFailure.self) { try failed.get() }
      #expect(try await good.get() == 1)
    }
  }

  @Test func `closing waits for what is read, and later reads fail`() async throws {
    try await withQueue { (_, queue) async throws -> Void in
      let held = HeldRead()
      async let read = queue.submit(held.run)
      await held.begun()
      held.releaseStatements()
      queue.close()
      #expect(try await read.get() == 0)
      let late = await queue.submit(Self.version("anna"))
      #expect(throws: LedgerFailure.self) { try late.get() }
    }
  }
}
