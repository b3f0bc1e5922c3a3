import Dispatch
import LedgerFixtures
import Synchronization
import Testing

@testable import Ledger

private final class Count: Sendable {
  let value = Mutex(0)
}

/// Reads that may be long, on a few connections.
@Suite(.ofTheFile) struct ReadPoolTests {
  private static func value(_ tables: LedgerTables) throws -> Int {
    try tables.first("SELECT value FROM number") { try $0.get(0) } ?? 0
  }

  @Test func `so many reads run at a time, each on its own snapshot, and the next ones wait`() async throws {
    let scratch = try Scratch()
    let writer = try SQLiteConnection(path: scratch.path)
    try writer.run("PRAGMA journal_mode = WAL; CREATE TABLE number (value INTEGER); INSERT INTO number VALUES (1)")
    let opened = Mutex(0)
    let pool = ReadPool { [path = scratch.path] in
      opened.withLock { $0 += 1 }
      return try SQLiteConnection(path: path, isReadOnly: true)
    }
    #expect(opened.withLock { $0 } == 0)
    let running = Count()
    let gate = DispatchSemaphore(value: 0)
    try await withThrowingTaskGroup { group in
      for _ in 0..<(ReadPool.limit + 3) {
        group.addTask {
          try await pool.submit { tables in
            let before = try Self.value(tables)
            running.value.withLock { $0 += 1 }
            gate.wait()
            return (before, try Self.value(tables))
          }.get()
        }
      }
      while running.value.withLock({ $0 }) < ReadPool.limit { await Task.yield() }
      try writer.run("UPDATE number SET value = 2")
      #expect(running.value.withLock { $0 } == ReadPool.limit)
      for _ in 0..<(ReadPool.limit + 3) { gate.signal() }
      var found: [Int: Int] = [:]
      for try await (before, after) in group {
        #expect(before == after)
        found[before, default: 0] += 1
      }
      #expect(found == [1: ReadPool.limit, 2: 3])
    }
    #expect(opened.withLock { $0 } == ReadPool.limit)
    pool.close()
    await #expect(throws: LedgerFailure.closed) { try await pool.submit(Self.value).get() }
  }

  @Test func `a failed read and a connection that cannot be opened fail alone`() async throws {
    let scratch = try Scratch()
    let pool = ReadPool { [path = scratch.path] in try SQLiteConnection(path: path, isReadOnly: true) }
    for _ in 0..<10 {
      let failure = await #expect(throws: LedgerFailure.self) { try await pool.submit(Self.value).get() }
      #expect(failure?.sentence == "The ledger's file cannot be opened (SQLite 14)")
    }
    let writer = try SQLiteConnection(path: scratch.path)
    try writer.run("CREATE TABLE number (value INTEGER); INSERT INTO number VALUES (3)")
    let failed = await pool.submit { tables in try tables.execute("DELETE FROM number") }
    #expect(throws: LedgerFailure.self) { try failed.get() }
    for _ in 0..<10 { #expect(try await pool.submit(Self.value).get() == 3) }
    pool.close()
  }
}
