internal import Dispatch
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
  /// Signalled by the reader that ends after the queue was closed.
  private let end = DispatchSemaphore(value: 0)
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

  /// Waits for what is read just now; what comes later fails. To be called once.
  func close() {
    let isReading = state.withLock { state in
      state.isClosed = true
      return state.isReading
    }
    if isReading { end.wait() }
    // Behind the reader, which may still be on its way out.
    connection.unsafeReentrantRead { _ in }
    tables.withLock { $0 = nil }
    try? connection.close()
  }

  private func enqueue(_ read: Read) {
    let enqueued: Enqueued = state.withLock { state in
      guard !state.isClosed else { return .refused }
      state.waiting.append(read)
      if state.isReading { return .waits }
      state.isReading = true
      return .startsReader
    }
    switch enqueued {
    case .refused: read.fail(Self.closed)
    case .waits: break
    // Nothing is written: it is a connection for reading.
    case .startsReader: connection.asyncWriteWithoutTransaction { db in self.drain(db) }
    }
  }

  private enum Enqueued {
    case refused
    case waits
    case startsReader
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
        if state.isClosed { end.signal() }
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
