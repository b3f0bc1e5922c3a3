internal import GRDB
internal import Synchronization

/// Short reads: those that wait at the same time share one turn of a connection of their own, and one state of the ledger.
///
/// None waits for company, and each is answered as soon as it was read. What was recorded before a read was asked for is
/// in the state that it sees, as that is taken afterwards.
final class ReadQueue: Sendable {
  /// So many share a state, which keeps the log from being emptied while it is read.
  static let batchLimit = 64

  private struct Read: Sendable {
    var run: @Sendable (LedgerTables) -> Void
    var fail: @Sendable (LedgerFailure) -> Void
  }

  private struct State {
    var waiting: [Read] = []
    var isReading = false
    var isClosed = false
  }

  /// Guards who waits, and whether the reader is at work. Never held during a read.
  private let state = Mutex(State())
  private let connection: DatabaseQueue
  /// Those of the connection, for its thread alone; made with the first read.
  private let tables = Mutex<LedgerTables?>(nil)

  init(connection: DatabaseQueue) { self.connection = connection }

  /// Those that wait for the next turn just now.
  var waiting: Int { state.withLock { $0.waiting.count } }

  func submit<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async -> Result<Value, LedgerFailure> {
    await withCheckedContinuation { continuation in
      enqueue(
        Read(
          run: { tables in
            continuation.resume(returning: Result { try operation(tables) }.mapError { LedgerFailure($0) })
          },
          fail: { continuation.resume(returning: .failure($0)) }))
    }
  }

  /// Waits for what is read just now; what comes later fails.
  func close() {
    state.withLock { $0.isClosed = true }
    // Behind the reader, if it is at work.
    connection.unsafeReentrantRead { _ in }
    tables.withLock { $0 = nil }
    try? connection.close()
  }

  private func enqueue(_ read: Read) {
    let isRefused = state.withLock { state in
      guard !state.isClosed else { return true }
      state.waiting.append(read)
      guard !state.isReading else { return false }
      state.isReading = true
      // While the state is held, so that it is in the line before whoever closes the connection. Nothing is written: it is a
      // connection for reading.
      connection.asyncWriteWithoutTransaction { db in self.drain(db) }
      return false
    }
    if isRefused { read.fail(Self.closed) }
  }

  private static let closed = LedgerFailure(reach: .transaction, sentence: "The ledger was closed")

  /// The reader's loop, on the thread of the connection.
  private func drain(_ db: Database) {
    let tables = tables.withLock { tables in
      let known = tables ?? LedgerTables(db: db)
      tables = known
      return known
    }
    while let batch = nextBatch() { read(batch, tables, db) }
  }

  private func nextBatch() -> [Read]? {
    state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.isReading = false
        return nil
      }
      let batch = Array(state.waiting.prefix(Self.batchLimit))
      state.waiting.removeFirst(batch.count)
      return batch
    }
  }

  private func read(_ batch: [Read], _ tables: LedgerTables, _ db: Database) {
    do {
      if db.isInsideTransaction { try tables.execute("ROLLBACK") }  // an end that failed before
      try tables.execute("BEGIN")
    } catch {
      let failure = LedgerFailure(error)
      for read in batch { read.fail(failure) }
      return
    }
    for read in batch { read.run(tables) }
    if db.isInsideTransaction { try? tables.execute("COMMIT") }
  }
}
