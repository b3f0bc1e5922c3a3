package import Entitlements
internal import Glibc

/// The durable store of purchases, verdicts and queues: one SQLite file, or a PostgreSQL database that replicas share.
///
/// Every operation is one transaction: it happened completely and durably, or not at all. A completed operation survives
/// a power cut.
///
/// Durability of the file: write-ahead log and `synchronous=FULL`, so that each commit ends with an fsync of the log. Files beside
/// the ledger: `-wal` and `-shm` (SQLite's; part of the ledger, copied and moved with it) and `.lock` (empty; may stay).
///
/// A checkpoint copies the log into the main file after about 4 000 pages (16 MB), and at the start after a crash. An I/O
/// error ends the process, as one of a commit does.
package final class Ledger: Sendable {
  /// Counters since the ledger was opened.
  package struct Statistics: Hashable, Sendable {
    /// Transactions, each with at most one fsync of the log.
    package var commits = 0
    /// Writes acknowledged: entries and checks.
    package var entries = 0
    /// The most writes that shared a transaction.
    package var largestBatch = 0
    /// Writes queued for the next transaction.
    package var waiting = 0
    /// Attempts of operations that could not be made beside another's, and were made again.
    package var conflicts = 0
    /// Connections to a database that broke.
    package var lostConnections = 0

    package init() {}
  }

  /// One transaction that was committed.
  package struct Commit: Hashable, Sendable {
    /// Writes in the batch.
    package var writes: Int
    /// From BEGIN until the commit was durable.
    package var duration: Duration
  }

  /// SQLite's `synchronous` setting. The service uses one; the other exists to prove that its durability test can fail.
  enum Synchronous: Int, Sendable {
    case normal = 1
    case full = 2
  }

  let engine: any LedgerEngine
  let memory: Memory

  init(_ engine: any LedgerEngine, _ memory: Memory) {
    self.engine = engine
    self.memory = memory
  }

  /// Rings after each commit with an event for others, before its callers resume.
  package var bell: ChangeBell { memory.bell }

  /// This process's knowledge beyond the ledger. Each commit brings it up to date before it is acknowledged.
  struct Memory: Sendable {
    let rows = RowsInFlight()
    let generations: ReadGenerations
    let usageGenerations: ReadGenerations
    let bell = ChangeBell()

    /// - Parameter isShared: other processes write the same ledger, too.
    init(isShared: Bool) {
      generations = ReadGenerations(isShared: isShared)
      usageGenerations = ReadGenerations(isShared: isShared)
    }

    func note(_ changes: TransactionChanges.Changes) {
      rows.note(changes.rows)
      if changes.hasEvents { bell.ring() }
      generations.advance(changes)
      usageGenerations.advance(changes.consumers)
    }
  }

  /// A number that grows with every commit that changes a user's usage: see `generation(of:)`.
  package func usageGeneration(of user: UserID) -> UInt64 { memory.usageGenerations[user] }

  /// Opens the ledger, creating it or migrating it to the present schema first.
  ///
  /// - Parameters:
  ///   - path: the file; its directory has to exist.
  ///   - onFatal: called once, from any thread, when the disk failed or the file is corrupt. The process has to stop
  ///     and recover from the log at its next start.
  ///   - onCommit: called after each commit, on the writer's thread, before its callers resume.
  package static func open(
    path: String, onFatal: @escaping @Sendable (String) -> Void,
    onCommit: @escaping @Sendable (Commit) -> Void = { _ in }
  ) async throws(LedgerOpenError) -> Ledger {
    try await open(path: path, synchronous: .full, onFatal: onFatal, onCommit: onCommit)
  }

  /// - Parameter pause: blocks the writer's thread for a moment while it gathers more writes.
  static func open(
    path: String, synchronous: Synchronous, onFatal: @escaping @Sendable (String) -> Void,
    onCommit: @escaping @Sendable (Commit) -> Void = { _ in }, schema: LedgerSchema = .present,
    pause: @escaping @Sendable () -> Void = { usleep(2_000) }
  ) async throws(LedgerOpenError) -> Ledger {
    let memory = Memory(isShared: false)
    let engine = try await blocking { () throws(LedgerOpenError) in
      try SQLiteEngine(
        path: path, synchronous: synchronous, onFatal: onFatal, onCommit: onCommit, onChanged: memory.note,
        schema: schema, pause: pause)
    }
    return Ledger(engine, memory)
  }

  /// Opens a ledger wherever it is.
  package static func open(
    at place: LedgerPlace, onFatal: @escaping @Sendable (String) -> Void,
    onCommit: @escaping @Sendable (Commit) -> Void = { _ in }
  ) async throws(LedgerOpenError) -> Ledger {
    switch place {
    case .file(let path): try await open(path: path, onFatal: onFatal, onCommit: onCommit)
    case .database(let url, let connections): try await open(url: url, connections: connections, onCommit: onCommit)
    }
  }

  /// Opens a ledger in a PostgreSQL database, which other replicas may have open, too. An empty database gets the
  /// present schema, an older one is migrated.
  ///
  /// - Parameters:
  ///   - url: a connection string of libpq's: `postgresql://user@host/database`. Without `sslmode` a server that is not on
  ///     this machine has to prove its name.
  ///   - connections: how many operations run at a time.
  ///   - onCommit: called after each commit, on a connection's thread, before its caller resumes.
  package static func open(
    url: String, connections: Int, onCommit: @escaping @Sendable (Commit) -> Void = { _ in }
  ) async throws(LedgerOpenError) -> Ledger {
    try await open(url: url, connections: connections, settings: .init(), onCommit: onCommit)
  }

  static func open(
    url: String, connections: Int, settings: PostgreSQLEngine.Settings,
    onCommit: @escaping @Sendable (Commit) -> Void = { _ in }, schema: LedgerSchema = .present
  ) async throws(LedgerOpenError) -> Ledger {
    let memory = Memory(isShared: true)
    let engine = try await blocking { () throws(LedgerOpenError) in
      try PostgreSQLEngine(
        url: url, connections: connections, settings: settings, onCommit: onCommit, onChanged: memory.note,
        schema: schema)
    }
    return Ledger(engine, memory)
  }

  /// Commits queued writes, then closes the file. Later operations throw `.closed`.
  ///
  /// The log is copied into the main file, which is then complete by itself; not after a disk failure, when only the
  /// log can be trusted.
  package func close() async { await engine.close() }

  package var statistics: Statistics { engine.statistics }
  /// Whether this opening made the ledger: it is empty.
  package var isNew: Bool { engine.isNew }
  /// Files that others than the owner could read when the ledger was opened.
  package var exposures: [LedgerExposure] { engine.exposures }

  /// A number that grows with every commit that changes what `profile` says of a user, before the commit is
  /// acknowledged: what was read holds while the number from before the read does.
  package func generation(of user: UserID) -> UInt64 { memory.generations[user] }

  /// Undoes claims and delays made by a clock that was ahead: everything is due as if they had never been. Work that is
  /// in progress may be claimed twice.
  package func releaseClaims() async throws(LedgerError) {
    try await engine.submit { tables in
      try tables.release()
      try tables.execute("UPDATE webhook_delivery SET due_at = 0 WHERE is_dead = 0 AND due_at <> 0")
    }
  }

  /// A short text that has to survive a restart, by name.
  package func memo(_ name: String) async throws(LedgerError) -> String? {
    try await read { tables in try tables.memo(name) }
  }

  package func keepMemo(_ name: String, _ text: String?) async throws(LedgerError) {
    try await engine.submit { tables in try tables.keepMemo(name, text) }
  }

  /// - Parameter change: given the text there is, `nil` for none, returns the new one. May be called more than once.
  package func changeMemo(
    _ name: String, _ change: @escaping @Sendable (String?) -> String?
  ) async throws(LedgerError) {
    try await engine.submit { tables in try tables.keepMemo(name, change(tables.memo(name))) }
  }

  /// Reads, and writes one row durably.
  ///
  /// Only a real commit detects a full or failing disk; a transaction that is rolled back writes nothing. It costs one
  /// page of the log and one fsync, shared with concurrent checks and records; poll it every few seconds, not more
  /// often. A file that was moved or replaced under the ledger is a permanent failure: writes to it are lost.
  package func check() async throws(LedgerError) { try await engine.check() }

  /// Reads one snapshot of the ledger, however long it takes. Cancellation does not end it: there is no error for it.
  func read<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    try await engine.read(operation)
  }

  /// As `read`, for short and frequent reads.
  func readShort<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    try await engine.readShort(operation)
  }
}
