internal import Dispatch
internal import Synchronization

/// The ledger in a PostgreSQL database that other replicas may have open, too.
///
/// A fixed number of connections, each on a thread of its own, as libpq's calls block. An operation is one transaction,
/// `SERIALIZABLE`, and is run again where PostgreSQL says that it could not be made beside another. From the fourth time
/// on it has the ledger to itself, so that it comes to an end however many others there are:
///
///     BEGIN ISOLATION LEVEL SERIALIZABLE
///     LOCK TABLE ledger_gate IN ROW SHARE MODE    (later: EXCLUSIVE; before the snapshot is taken)
///     INSERT INTO ledger_commit …                 (the session's row: the number of this transaction)
///     … the operation …
///     COMMIT ─► the caller resumes
///
/// A connection that breaks at COMMIT leaves open whether it happened. The session's row says so on the next one, before
/// the caller is answered. `pg_xact_status` would not do: a server that crashed gives transaction IDs out again, and says
/// "committed" of another's.
final class PostgreSQLEngine: LedgerEngine {
  struct Settings: Sendable {
    /// How long an operation is run again for, or waits for a connection.
    var patience = Duration.seconds(5)
    /// How long a connection may be in an operation beyond that, longer than the server lets a statement take: a server that is
    /// frozen, or a COMMIT that waits for a standby, has no end of its own.
    var overtime = Duration.seconds(35)
    /// After how many conflicts an operation has the ledger to itself.
    var conflictsBesideOthers = 3
  }

  private struct Job: Sendable {
    var run: @Sendable (PostgreSQLSession) -> Void
    var fail: @Sendable (LedgerError) -> Void
    var deadline: ContinuousClock.Instant
  }

  private struct Later: Sendable {
    var run: @Sendable (LedgerTables) throws -> Void
    var orElse: @Sendable () -> Void
  }

  private struct State {
    var waiting: [Job] = []
    var idle: [PostgreSQLSession] = []
    var later: [Later] = []
    /// Whether `watch` will be called.
    var isWatched = false
    var isClosed = false
    var statistics = Ledger.Statistics()
    /// Resumed when the last session is idle.
    var end: (@Sendable () -> Void)?
  }

  private let state: Mutex<State>
  private let sessions: [PostgreSQLSession]
  private let settings: Settings
  private let onCommit: @Sendable (Ledger.Commit) -> Void
  private let onChanged: @Sendable (TransactionChanges.Changes) -> Void

  let isNew: Bool
  var isShared: Bool { true }
  var exposures: [LedgerExposure] { [] }
  var isClosed: Bool { state.withLock { $0.isClosed } }
  var statistics: Ledger.Statistics {
    state.withLock { state in
      var statistics = state.statistics
      statistics.waiting = state.waiting.count
      return statistics
    }
  }

  /// Connects, and brings the database to the present schema. Blocks.
  init(
    url: String, connections: Int, settings: Settings, onCommit: @escaping @Sendable (Ledger.Commit) -> Void,
    onChanged: @escaping @Sendable (TransactionChanges.Changes) -> Void, schema: LedgerSchema
  ) throws(LedgerOpenError) {
    let address = try PostgreSQLAddress(url)
    isNew = try address.checked { connection in try PostgreSQLSchema.migrate(connection, to: schema) }
    self.settings = settings
    self.onCommit = onCommit
    self.onChanged = onChanged
    sessions = (0..<max(1, connections)).map { PostgreSQLSession(address, number: $0) }
    var state = State()
    state.idle = sessions
    self.state = Mutex(state)
  }

  // MARK: Operations

  func submit<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    try await run { [self] session in write(session, operation) }
  }

  func read<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    try await run { [self] session in
      attempt(session) { _ in
        try session.begin(["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"])
        let value = try operation(session.tables())
        try session.commit()
        return value
      }
    }
  }

  func readShort<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    try await read(operation)
  }

  /// A commit is the only proof that the server is no standby, and has room.
  func check() async throws(LedgerError) { try await submit { tables in try tables.beat() } }

  /// Deferred writes are collected for a moment, and share a transaction.
  private static let moment = DispatchTimeInterval.milliseconds(20)

  func submitLater(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Void, orElse: @escaping @Sendable () -> Void
  ) {
    let isFirst = state.withLock { state in
      state.later.append(Later(run: operation, orElse: orElse))
      return state.later.count == 1
    }
    guard isFirst else { return }
    DispatchQueue.global().asyncAfter(deadline: .now() + Self.moment) { [self] in
      enqueue(
        Job(
          run: { [self] session in writeLater(session) },
          fail: { [self] _ in for operation in takeLater() { operation.orElse() } },
          deadline: .now + settings.patience))
    }
  }

  private func takeLater() -> [Later] {
    state.withLock { state in
      defer { state.later = [] }
      return state.later
    }
  }

  private func writeLater(_ session: PostgreSQLSession) {
    let operations = takeLater()
    guard !operations.isEmpty else { return }
    let written = write(session) { tables in for operation in operations { try operation.run(tables) } }
    if case .failure = written { for operation in operations { operation.orElse() } }
  }

  private func attempt<Value>(
    _ session: PostgreSQLSession, _ body: (Int) throws -> Value
  ) -> Result<Value, LedgerError> {
    session.attempt(
      within: settings.patience,
      onRetry: { isConflict in
        state.withLock { state in
          if isConflict { state.statistics.conflicts += 1 } else { state.statistics.lostConnections += 1 }
        }
      }, body)
  }

  private func write<Value>(
    _ session: PostgreSQLSession, _ operation: @Sendable (LedgerTables) throws -> Value
  ) -> Result<Value, LedgerError> {
    let result = attempt(session) { [self] conflicts in
      let start = ContinuousClock.now
      let gate = conflicts < settings.conflictsBesideOthers ? "ROW SHARE" : "EXCLUSIVE"
      let number = session.nextNumber()
      try session.begin(["BEGIN ISOLATION LEVEL SERIALIZABLE", "LOCK TABLE ledger_gate IN \(gate) MODE"])
      let tables = try session.tables()
      try tables.note(commit: number, of: session.name)
      _ = tables.changes.take()
      let value = try operation(tables)
      let changes = tables.changes.take()
      do { try session.commit() } catch let error as PostgreSQLError where error.endsConnection {
        guard try session.hasCommitted(number, within: settings.patience) else { throw error }
      }
      onChanged(changes)
      onCommit(Ledger.Commit(writes: 1, duration: start.duration(to: .now)))
      return value
    }
    if case .success = result {
      state.withLock { state in
        state.statistics.commits += 1
        state.statistics.entries += 1
        state.statistics.largestBatch = 1
      }
    }
    return result
  }

  // MARK: Sessions

  private func run<Value: Sendable>(
    _ body: @escaping @Sendable (PostgreSQLSession) -> Result<Value, LedgerError>
  ) async throws(LedgerError) -> Value {
    let result: Result<Value, LedgerError> = await withCheckedContinuation { continuation in
      enqueue(
        Job(
          run: { continuation.resume(returning: body($0)) }, fail: { continuation.resume(returning: .failure($0)) },
          deadline: .now + settings.patience))
    }
    return try result.get()
  }

  private func enqueue(_ job: Job) {
    let (isRefused, session, isWatched) = state.withLock { state -> (Bool, PostgreSQLSession?, Bool) in
      guard !state.isClosed else { return (true, nil, true) }
      defer { state.isWatched = true }
      guard let session = state.idle.popLast() else {
        state.waiting.append(job)
        return (false, nil, state.isWatched)
      }
      return (false, session, state.isWatched)
    }
    if isRefused { return job.fail(.closed) }
    if !isWatched { planWatch() }
    guard let session else { return }
    session.queue.async { [self] in
      run(job, session)
      drain(session)
    }
  }

  private func run(_ job: Job, _ session: PostgreSQLSession) {
    session.note(isBusy: true)
    job.run(session)
    session.note(isBusy: false)
  }

  private func planWatch() {
    let pause = settings.patience / 5
    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(Int(pause / .milliseconds(1)))) { self.watch() }
  }

  /// Answers those who have waited for too long, though no connection has become free, and breaks connections whose server does
  /// not answer. Comes again while anything is in progress.
  private func watch() {
    for session in sessions { session.breakOff(after: settings.patience + settings.overtime) }
    let (overdue, isWatched) = state.withLock { state -> ([Job], Bool) in
      let now = ContinuousClock.now
      let overdue = state.waiting.prefix { $0.deadline < now }
      state.waiting.removeFirst(overdue.count)
      state.isWatched = state.idle.count < sessions.count || !state.waiting.isEmpty
      return (Array(overdue), state.isWatched)
    }
    for job in overdue { job.fail(Self.busy) }
    if isWatched { planWatch() }
  }

  private static let busy = LedgerError.unavailable("The ledger's connections were all busy")

  /// Runs the operations that wait, on the session's thread.
  private func drain(_ session: PostgreSQLSession) {
    while let job = next(session) {
      if job.deadline < .now {
        job.fail(Self.busy)
      } else {
        run(job, session)
      }
    }
  }

  private func next(_ session: PostgreSQLSession) -> Job? {
    let (job, end) = state.withLock { state -> (Job?, (@Sendable () -> Void)?) in
      if !state.waiting.isEmpty { return (state.waiting.removeFirst(), nil) }
      state.idle.append(session)
      return (nil, state.idle.count == sessions.count ? state.end : nil)
    }
    end?()
    return job
  }

  /// Does nothing: a deleted row is gone with PostgreSQL's next VACUUM, and from its log when that is written anew.
  func emptyLog() async throws(LedgerError) {}

  func close() async {
    // Deferred writes.
    let operations = takeLater()
    if !operations.isEmpty { try? await submit { tables in for operation in operations { try operation.run(tables) } } }
    await withCheckedContinuation { continuation in
      let (isIdle, isFirst) = state.withLock { state in
        let isFirst = !state.isClosed
        state.isClosed = true
        let isIdle = state.idle.count == sessions.count
        if isFirst, !isIdle { state.end = { continuation.resume() } }
        return (isIdle, isFirst)
      }
      if isIdle || !isFirst { continuation.resume() }
    }
    let idle = state.withLock { $0.idle }
    for session in idle { session.queue.sync { session.disconnect() } }
  }
}

extension LedgerTables {
  /// Notes that a transaction of a session was committed, in the transaction.
  fileprivate func note(commit number: Int64, of session: String) throws {
    try execute(
      """
      INSERT INTO ledger_commit (session, number) VALUES (?, ?)
        ON CONFLICT (session) DO UPDATE SET number = excluded.number, at = now()
      """, session, number)
  }
}
