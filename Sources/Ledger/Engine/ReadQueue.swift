internal import Dispatch
internal import Synchronization

/// Batched short reads: the reads queued at the same time share one turn of a dedicated connection, and one snapshot.
///
/// A read never waits for others to join it, and is answered as soon as it has run. Anything recorded before the read
/// was requested is in its snapshot, which is taken afterwards.
final class ReadQueue: Sendable {
  /// The most reads per snapshot, which blocks the log from being checkpointed while it is open.
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

  /// Guards the queue of reads and the reader's state. Never held during a read.
  private let state = Mutex(State())
  private let reader: SQLiteQueue
  /// For the reader's thread only.
  private let tables: LedgerTables
  /// Signalled by the reader that finishes after the queue was closed.
  private let end = DispatchSemaphore(value: 0)

  init(connection: SQLiteConnection) {
    reader = SQLiteQueue(connection)
    tables = LedgerTables(connection)
  }

  /// Reads that wait for the next turn.
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

  /// Waits for reads in progress; later ones fail. Must be called once.
  func close() {
    let isReading = state.withLock { state in
      state.isClosed = true
      return state.isReading
    }
    if isReading { end.wait() }
    // Waits for the reader, which may still be returning.
    reader.sync { $0.close() }
  }

  private func enqueue(_ read: Read) {
    let (isRefused, startsReader) = state.withLock { state -> (Bool, Bool) in
      guard !state.isClosed else { return (true, false) }
      state.waiting.append(read)
      defer { state.isReading = true }
      return (false, !state.isReading)
    }
    if isRefused { read.fail(.closed) }
    if startsReader { reader.async { self.drain($0) } }
  }

  /// The reader's loop, on the connection's thread.
  private func drain(_ connection: SQLiteConnection) {
    while let batch = nextBatch() { read(batch, connection) }
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

  private func read(_ batch: [Read], _ connection: SQLiteConnection) {
    do {
      try connection.rollBack()  // where an end failed before
      try tables.execute("BEGIN")
    } catch {
      let failure = LedgerFailure(error)
      for read in batch { read.fail(failure) }
      return
    }
    for read in batch { read.run(tables) }
    if connection.isInTransaction { try? tables.execute("COMMIT") }
  }
}
