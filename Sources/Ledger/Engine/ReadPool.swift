internal import Dispatch
internal import Synchronization

/// Connections for reads that may be long. Each read has a snapshot of its own, and at most `limit` run at a time.
final class ReadPool: Sendable {
  /// A long read keeps the log from being emptied, and a connection costs some megabytes of cache.
  static let limit = 5

  typealias Read = @Sendable (Result<LedgerTables, any Error>) -> Void

  /// A connection, opened for its first read, with a thread of its own.
  private final class Reader: @unchecked Sendable {
    let thread = DispatchQueue(label: "ledger.reader", qos: .userInitiated)
    /// For the thread only.
    var connection: SQLiteConnection?
  }

  private struct State {
    var idle: [Reader]
    var waiting: [Read] = []
    var isClosed = false
  }

  /// Guards the queue of reads and the idle readers. Never held during a read.
  private let state: Mutex<State>
  private let readers: [Reader]
  private let open: @Sendable () throws -> SQLiteConnection

  /// - Parameter open: opens a connection; called on a reader's thread.
  init(open: @escaping @Sendable () throws -> SQLiteConnection) {
    readers = (0..<Self.limit).map { _ in Reader() }
    state = Mutex(State(idle: readers))
    self.open = open
  }

  func submit<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async -> Result<Value, LedgerFailure> {
    await withCheckedContinuation { continuation in
      enqueue { tables in
        continuation.resume(returning: Result { try operation(tables.get()) }.mapError { LedgerFailure($0) })
      }
    }
  }

  private func enqueue(_ read: @escaping Read) {
    let (isRefused, reader) = state.withLock { state -> (Bool, Reader?) in
      guard !state.isClosed else { return (true, nil) }
      let reader = state.idle.popLast()
      if reader == nil { state.waiting.append(read) }
      return (false, reader)
    }
    if isRefused { read(.failure(LedgerFailure.closed)) }
    if let reader { reader.thread.async { self.drain(read, on: reader) } }
  }

  /// A reader's loop, on its thread.
  private func drain(_ first: @escaping Read, on reader: Reader) {
    var next = Optional(first)
    while let read = next {
      run(read, on: reader)
      next = state.withLock { state in
        guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
        state.idle.append(reader)
        return nil
      }
    }
  }

  private func run(_ read: Read, on reader: Reader) {
    do {
      let connection = try reader.connection ?? open()
      reader.connection = connection
      try connection.rollBack()  // where an end failed before
      try connection.run("BEGIN")
      read(.success(LedgerTables(connection)))
      if connection.isInTransaction { try? connection.run("COMMIT") }
    } catch {
      read(.failure(error))
    }
  }

  /// Waits for the reads that were submitted; later ones fail.
  func close() {
    state.withLock { $0.isClosed = true }
    for reader in readers { reader.thread.sync { reader.connection?.close() } }
  }
}
