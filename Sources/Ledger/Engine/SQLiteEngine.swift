internal import CGatheringVFS

/// The ledger in one SQLite file: one connection that writes, in batches, and others that read beside it.
final class SQLiteEngine: LedgerEngine {
  private let file: LedgerFile
  private let writer: SQLiteQueue
  private let queue: CommitQueue
  private let shortReads: ReadQueue
  private let longReads: ReadPool

  var isShared: Bool { false }
  var statistics: Ledger.Statistics { queue.statistics }
  var isClosed: Bool { queue.isClosed }
  var isNew: Bool { file.isNew }
  var exposures: [LedgerExposure] { file.exposures }

  /// Opens the file, creating it or migrating it to the present schema first. Blocks.
  init(
    path: String, synchronous: Ledger.Synchronous, onFatal: @escaping @Sendable (String) -> Void,
    onCommit: @escaping @Sendable (Ledger.Commit) -> Void,
    onChanged: @escaping @Sendable (TransactionChanges.Changes) -> Void,
    schema: LedgerSchema, pause: @escaping @Sendable () -> Void
  ) throws(LedgerOpenError) {
    let file = try LedgerFile(path: path)
    do {
      let registered = gathering_vfs_register()
      guard registered == 0 else { throw SQLiteError(code: registered) }
      if file.isNew { try Self.stamp(file.path) }
      let connection = try Self.connect(file.path)
      try Self.prepare(connection, file, synchronous: synchronous, schema)
      file.rememberLog()
      let reading = try Self.connect(file.path, isReadOnly: true)
      try reading.run("PRAGMA cache_size = -\(Self.cacheSize)")
      self.file = file
      shortReads = ReadQueue(connection: reading)
      longReads = ReadPool { [path = file.path] in
        try Self.connect(path, isReadOnly: true, patience: .seconds(10))
      }
      writer = SQLiteQueue(connection)
      queue = CommitQueue(
        writer: writer, isInPlace: { file.isInPlace }, onFatal: onFatal, onCommit: onCommit, onChanged: onChanged,
        pause: pause)
    } catch let error as LedgerOpenError {
      throw error
    } catch {
      let failure = LedgerFailure(error)
      guard failure.reach == .process else { throw .inaccessible(path: file.path, problem: failure.sentence) }
      let isDisk = (error as? SQLiteError)?.kind == .inputOutput
      throw isDisk
        ? .diskFailed(path: file.path, problem: failure.sentence)
        : .damaged(path: file.path, problem: failure.sentence)
    }
  }

  /// Sets the application ID of a new file before anything else is written, in the file itself rather than in its log.
  private static func stamp(_ path: String) throws {
    let connection = try connect(path)
    defer { connection.close() }
    try connection.run("PRAGMA application_id = \(LedgerFile.applicationID)")
  }

  private static func connect(
    _ path: String, isReadOnly: Bool = false, patience: Duration = .seconds(2)
  ) throws -> SQLiteConnection {
    let connection = try SQLiteConnection(path: path, isReadOnly: isReadOnly, patience: patience)
    // Deleted values are overwritten, so that an erasure need not search for values that were deleted before it.
    // https://www.sqlite.org/pragma.html#pragma_secure_delete
    try connection.run("PRAGMA secure_delete = ON")
    // A savepoint may spill to a file; a container's root file system may be read-only.
    try connection.run("PRAGMA temp_store = MEMORY")
    try connection.run("PRAGMA cell_size_check = ON")
    // Until the queue writes: for a migration.
    try connection.run("PRAGMA wal_autocheckpoint = \(CommitQueue.longLog)")
    return connection
  }

  /// Page cache of each busy connection in KiB. SQLite's 2 MB do not hold the inner pages of the indexes, of which each
  /// record touches some twenty. A small ledger does not fill it.
  private static let cacheSize = 16_384

  private static func prepare(
    _ connection: SQLiteConnection, _ file: LedgerFile, synchronous: Ledger.Synchronous, _ schema: LedgerSchema
  ) throws {
    let path = file.path
    guard try connection.value(of: "PRAGMA journal_mode = WAL", as: String.self) == "wal" else {
      throw LedgerOpenError.notDurable(path: path, problem: "SQLite refuses the write-ahead log")
    }
    // Else closing the ledger after the disk failed would copy and remove a log of which pages may be in the kernel's
    // memory alone.
    try connection.keepLog()
    try connection.run("PRAGMA synchronous = \(synchronous.rawValue)")
    try connection.run("PRAGMA cache_size = -\(cacheSize)")
    try expect(connection, "synchronous", synchronous.rawValue, path: path)
    try expect(connection, "foreign_keys", 1, path: path)
    try expect(connection, "secure_delete", 1, path: path)
    try expect(connection, "application_id", Int(LedgerFile.applicationID), path: path)
    // Where the disk failed under the process before, its last pages may be in the kernel's memory alone: the log is
    // copied, and the copy synced, before anything is recorded on top of them.
    if file.hadLog { try CommitQueue.copyLog(connection) }
    guard try !schema.isSuperseded(in: connection) else { throw LedgerOpenError.newerSchema(path: path) }
    try schema.migrate(connection)
    // A migration may change settings temporarily.
    try expect(connection, "synchronous", synchronous.rawValue, path: path)
    try expect(connection, "foreign_keys", 1, path: path)
    // Pages of a transaction that is then rolled back would be gathered (`CGatheringVFS`) until this connection writes or
    // reads again, over what another process has committed meanwhile. A transaction has some 1 000 pages at most, and the
    // `VACUUM` of a small file 64 MiB.
    try connection.run("PRAGMA cache_spill = OFF")
    try expect(connection, "cache_spill", 0, path: path)
    try connection.write { try LedgerTables(connection).release() }
  }

  static func expect(_ connection: SQLiteConnection, _ pragma: String, _ expected: Int, path: String) throws {
    let actual: Int? = try connection.value(of: "PRAGMA \(pragma)")
    guard actual == expected else {
      throw LedgerOpenError.notDurable(
        path: path, problem: "SQLite says \(pragma)=\(actual.map(String.init) ?? "nothing"), not \(expected)")
    }
  }

  func close() async {
    guard await queue.close() else { return }
    await blocking { [self] in
      // A failure here must not fail the stop: uncopied pages are in the log.
      if !queue.isFailed { try? writer.sync { try $0.copyLog(emptying: true) } }
      shortReads.close()
      longReads.close()
      writer.sync { $0.close() }
      file.release()
    }
  }

  /// `secure_delete` overwrites what is deleted. A copy of a row may still be in the free space of an index page from when
  /// SQLite had filled that page anew, so a small file is rebuilt before its log is emptied.
  func emptyLog() async throws(LedgerError) {
    guard !queue.isClosed else { throw .closed }
    let result: Result<Void, LedgerFailure> = await withCheckedContinuation { continuation in
      writer.async { connection in
        continuation.resume(
          returning: Result {
            try Self.rebuildIfSmall(connection)
            try connection.copyLog(emptying: true)
          }.mapError { LedgerFailure($0) })
      }
    }
    try value(result)
  }

  /// Bytes of a file that is rebuilt in some tenths of a second.
  private static let smallFile = 64 * 1024 * 1024

  private static func rebuildIfSmall(_ connection: SQLiteConnection) throws {
    let pages: Int = try connection.value(of: "PRAGMA page_count") ?? 0
    let size: Int = try connection.value(of: "PRAGMA page_size") ?? 0
    guard pages * size <= smallFile else { return }
    do { try connection.run("VACUUM") } catch {
      // Without room for it, the rows are overwritten all the same.
      guard LedgerFailure(error).reach != .process else { throw error }
    }
  }

  func submit<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    try await queue.submit(operation)
  }

  func submitLater(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Void, orElse: @escaping @Sendable () -> Void
  ) { queue.submitLater(operation, orElse: orElse) }

  /// Bytes of the largest usual record.
  private static let usualRecord = 256 * 1024

  /// Writes as much as a record takes, after a failed write: a full disk may still have a page for a heartbeat. Two
  /// transactions are needed, since one would write only its final state.
  private func proveRoom() async throws(LedgerError) {
    let filler = String(repeating: "0", count: Self.usualRecord)
    try await queue.submit { tables in try tables.keepMemo("room", filler) }
    try await queue.submit { tables in try tables.keepMemo("room", nil) }
    queue.forgetRefusal()
  }

  func check() async throws(LedgerError) {
    guard !queue.isClosed else { throw .closed }
    guard file.isInPlace else {
      queue.latch(.misplaced)
      throw LedgerFailure.misplaced.error
    }
    if queue.wasRefused {
      try await proveRoom()
    } else {
      try await queue.submit { tables in try tables.beat() }
    }
    try await read { tables in
      guard try tables.exists("SELECT beats FROM heartbeat WHERE id = 1") else { throw StoredForm.Unstorable() }
    }
  }

  func read<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    guard !queue.isClosed else { throw .closed }
    return try value(await longReads.submit(operation))
  }

  func readShort<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    guard !queue.isClosed else { throw .closed }
    return try value(await shortReads.submit(operation))
  }

  private func value<Value>(_ result: Result<Value, LedgerFailure>) throws(LedgerError) -> Value {
    switch result {
    case .success(let value): return value
    case .failure(let failure):
      if queue.isClosed { throw .closed }
      if failure.reach == .process { queue.latch(failure) }
      throw failure.error
    }
  }
}
