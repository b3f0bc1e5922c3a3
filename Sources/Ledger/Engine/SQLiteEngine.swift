internal import CGatheringVFS
internal import Dispatch
internal import GRDB
internal import GRDBSQLite

/// The ledger in one SQLite file: one connection that writes, in batches, and others that read beside it.
final class SQLiteEngine: LedgerEngine {
  private let file: LedgerFile
  private let pool: DatabasePool
  private let queue: CommitQueue
  private let reads: ReadQueue

  var isShared: Bool { false }
  var statistics: Ledger.Statistics { queue.statistics }
  var isClosed: Bool { queue.isClosed }
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
      guard registered == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: registered)) }
      if file.isNew { try Self.stamp(file.path) }
      let pool = try DatabasePool(path: file.path, configuration: Self.configuration)
      do {
        try Self.prepare(pool, file, synchronous: synchronous, schema.migrator)
        file.rememberLog()
        var reading = Self.configuration
        reading.readonly = true
        reading.prepareDatabase { db in try db.execute(sql: "PRAGMA cache_size = -\(Self.cacheSize)") }
        reads = ReadQueue(connection: try DatabaseQueue(path: file.path, configuration: reading))
      } catch {
        try? pool.close()
        throw error
      }
      self.file = file
      self.pool = pool
      queue = CommitQueue(
        pool: pool, isInPlace: { file.isInPlace }, onFatal: onFatal, onCommit: onCommit, onChanged: onChanged,
        pause: pause)
    } catch let error as LedgerOpenError {
      throw error
    } catch {
      let failure = LedgerFailure(error)
      guard failure.reach == .process else { throw .inaccessible(path: file.path, problem: failure.sentence) }
      let isDisk = (error as? DatabaseError)?.resultCode == .SQLITE_IOERR
      throw isDisk
        ? .diskFailed(path: file.path, problem: failure.sentence)
        : .damaged(path: file.path, problem: failure.sentence)
    }
  }

  /// Sets the application ID of a new file before anything else is written, in the file itself rather than in its log.
  private static func stamp(_ path: String) throws {
    let queue = try DatabaseQueue(path: path, configuration: configuration)
    try queue.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA application_id = \(LedgerFile.applicationID)")
    }
    try queue.close()
  }

  private static var configuration: Configuration {
    var configuration = Configuration()
    configuration.label = "ledger"
    configuration.foreignKeysEnabled = true
    configuration.busyMode = .timeout(2)
    // GRDB would crash on a transaction that is still open after a failed rollback; the queue rolls it back itself.
    configuration.allowsUnsafeTransactions = true
    configuration.prepareDatabase { db in
      // What is deleted is overwritten, so that an erasure need not look for what was deleted before it.
      // https://www.sqlite.org/pragma.html#pragma_secure_delete
      try db.execute(sql: "PRAGMA secure_delete = ON")
      // A savepoint may spill to a file; a container's root file system may be read-only.
      try db.execute(sql: "PRAGMA temp_store = MEMORY")
      try db.execute(sql: "PRAGMA cell_size_check = ON")
      // Until the queue writes: for a migration.
      try db.execute(sql: "PRAGMA wal_autocheckpoint = \(CommitQueue.longLog)")
    }
    return configuration
  }

  /// Page cache of each busy connection in KiB. SQLite's 2 MB do not hold the inner pages of the indexes, of which each
  /// record touches some twenty. A small ledger does not fill it.
  private static let cacheSize = 16_384

  private static func prepare(
    _ pool: DatabasePool, _ file: LedgerFile, synchronous: Ledger.Synchronous, _ migrator: DatabaseMigrator
  ) throws {
    let path = file.path
    // GRDB sets NORMAL while it opens, under which a power cut loses acknowledged records: set FULL now, and read it
    // back from SQLite.
    try pool.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA synchronous = \(synchronous.rawValue)")
      try db.execute(sql: "PRAGMA cache_size = -\(cacheSize)")
      try expect(db, "synchronous", synchronous.rawValue, path: path)
      try expect(db, "foreign_keys", 1, path: path)
      try expect(db, "secure_delete", 1, path: path)
      try expect(db, "application_id", Int(LedgerFile.applicationID), path: path)
      guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else {
        throw LedgerOpenError.notDurable(path: path, problem: "SQLite refuses the write-ahead log")
      }
      // Where the disk failed under the process before, its last pages may be in the kernel's memory alone: the log is
      // copied, and the copy synced, before anything is recorded on top of them.
      if file.hadLog { try CommitQueue.copyLog(db) }
    }
    guard try !pool.read(migrator.hasBeenSuperseded) else { throw LedgerOpenError.newerSchema(path: path) }
    try migrator.migrate(pool)
    // A migration may change settings temporarily.
    try pool.writeWithoutTransaction { db in
      try expect(db, "synchronous", synchronous.rawValue, path: path)
      try expect(db, "foreign_keys", 1, path: path)
      // Pages of a transaction that is then rolled back would be gathered (`CGatheringVFS`) until this connection writes or
      // reads again, over what another process has committed meanwhile. A transaction has some 1 000 pages at most, and the
      // `VACUUM` of a small file 64 MiB.
      try db.execute(sql: "PRAGMA cache_spill = OFF")
      try expect(db, "cache_spill", 0, path: path)
      try db.inTransaction(.immediate) {
        try LedgerTables(db: db).release()
        return .commit
      }
    }
  }

  static func expect(_ db: Database, _ pragma: String, _ expected: Int, path: String) throws {
    let actual = try Int.fetchOne(db, sql: "PRAGMA \(pragma)")
    guard actual == expected else {
      throw LedgerOpenError.notDurable(
        path: path, problem: "SQLite says \(pragma)=\(actual.map(String.init) ?? "nothing"), not \(expected)")
    }
  }

  func close() async {
    // Calls on a closed connection would pass SQLite a null database, and crash.
    guard await queue.close() else { return }
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async { [self] in
        // A failure here must not fail the stop: uncopied pages are in the log.
        if !queue.isFailed { _ = try? pool.writeWithoutTransaction { db in try db.checkpoint(.truncate) } }
        queue.releaseStatements()
        reads.close()
        try? pool.close()
        file.release()
        continuation.resume()
      }
    }
  }

  /// `secure_delete` overwrites what is deleted. A copy of a row may still be in the free space of an index page from when
  /// SQLite had filled that page anew, so a small file is rebuilt before its log is emptied.
  func emptyLog() async throws(LedgerError) {
    guard !queue.isClosed else { throw .closed }
    let result: Result<Void, LedgerFailure> = await withCheckedContinuation { continuation in
      pool.asyncWriteWithoutTransaction { db in
        continuation.resume(
          returning: Result {
            if try Self.isSmall(db) { try Self.rebuild(db) }
            _ = try db.checkpoint(.truncate)
          }.mapError { LedgerFailure($0) })
      }
    }
    try value(result)
  }

  private static func rebuild(_ db: Database) throws {
    do { try db.execute(sql: "VACUUM") } catch {
      // Without room for it, the rows are overwritten all the same.
      guard LedgerFailure(error).reach != .process else { throw error }
    }
  }

  /// Bytes of a file that is rebuilt in some tenths of a second.
  private static let smallFile = 64 * 1024 * 1024

  private static func isSmall(_ db: Database) throws -> Bool {
    let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
    let size = try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 0
    return pages * size <= smallFile
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
    try await read { tables in try tables.readBeat() }
  }

  func read<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    guard !queue.isClosed else { throw .closed }
    return try value(
      await withCheckedContinuation { continuation in
        pool.asyncRead { db in
          continuation.resume(
            returning: Result { try operation(LedgerTables(db: try db.get())) }.mapError { LedgerFailure($0) })
        }
      })
  }

  func readShort<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    guard !queue.isClosed else { throw .closed }
    return try value(await reads.submit(operation))
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
