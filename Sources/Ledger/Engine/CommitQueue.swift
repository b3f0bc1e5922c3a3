internal import Dispatch
internal import Synchronization

/// Group commit: writes that wait at the same time share one transaction, and so one fsync.
///
///     caller 1 ──┐
///     caller 2 ──┼─► waiting ─► BEGIN ─► write 1, write 2, write 3 ─► COMMIT ─► all resumed
///     caller 3 ──┘   (≤ 64)
///
/// A failed write rolls the transaction back. The batch then runs again, each write in its own savepoint:
///
///     BEGIN ─► SAVEPOINT write 1 RELEASE
///              SAVEPOINT write 2 ROLLBACK TO   (fails alone) ─► COMMIT ─► all resumed
///              SAVEPOINT write 3 RELEASE
///
/// Failures are rare, and a savepoint costs a copy of each page that its write touches first. A write may therefore run
/// twice, and must do nothing but read and write the ledger. An approval is asked for once (`ApprovalCache`).
///
/// A lone write is committed at once; writes that arrive during its commit form the next batch. A batch of several
/// means many concurrent callers: after it, and for a few batches more, the writer gathers for a moment. Each fsync
/// then serves more of them, and pages that all of them touch are written once.
///
/// Writes without a waiting caller (`submitLater`) join the next batch, or are made after a moment without one: they cost
/// no fsync of their own under load.
///
/// A caller resumes only after the commit of its write has returned. A cancelled caller waits as well, and the write is
/// made: Apple's answer is worth keeping even when nobody waits for it any more.
///
/// A failure that reaches the process stops all writing: `onFatal` is called once, and each further write fails.
final class CommitQueue: Sendable {
  /// Large enough to make the fsync cheap, small enough that the first write does not wait long for the last.
  static let batchLimit = 64

  /// Batch size from which the next batches are gathered, while fewer writes wait than make an fsync cheap.
  private static let gatherThreshold = 4
  private static let targetBatch = 32
  /// The most polls for further writes before a commit.
  private static let maxGatherRounds = 4

  /// Pages of the log, 16 MB, from which it is copied into the file. A batch of records writes some 1 000 pages, most of which
  /// the next batches write again: copying them each time would cost as much as the log.
  static let longLog = 4_000

  /// The work inside the transaction, which returns the closure that resumes the caller after the commit.
  private struct Write: Sendable {
    var run: @Sendable (LedgerTables) throws -> @Sendable () -> Void
    var fail: @Sendable (LedgerError) -> Void
  }

  private struct State {
    var waiting: [Write] = []
    /// Writes that nobody waits for.
    var later: [Write] = []
    /// Whether `flush` will be called.
    var isFlushPlanned = false
    var isWriting = false
    /// A decaying maximum of batch sizes: the last one, or three quarters of the previous value.
    var recentBatchSize = 0
    var isClosed = false
    var failure: LedgerFailure?
    /// A transaction failed, and no test write has succeeded since (`forgetRefusal`).
    var wasRefused = false
    var statistics = Ledger.Statistics()
    /// Closures to call when the writer becomes idle.
    var idle: [@Sendable () -> Void] = []
  }

  /// Guards the queue of writes and the writer's state. Never held during a transaction.
  private let state = Mutex(State())
  private let writer: SQLiteQueue
  /// For the writer's thread only.
  private let tables: LedgerTables
  /// Whether the ledger's path still leads to the open file.
  private let isInPlace: @Sendable () -> Bool
  private let onFatal: @Sendable (String) -> Void
  private let onCommit: @Sendable (Ledger.Commit) -> Void
  /// Called after a commit and before its callers resume.
  private let onChanged: @Sendable (TransactionChanges.Changes) -> Void
  private let pause: @Sendable () -> Void

  /// - Parameter pause: blocks the writer's thread between two polls.
  init(
    writer: SQLiteQueue, isInPlace: @escaping @Sendable () -> Bool, onFatal: @escaping @Sendable (String) -> Void,
    onCommit: @escaping @Sendable (Ledger.Commit) -> Void = { _ in },
    onChanged: @escaping @Sendable (TransactionChanges.Changes) -> Void = { _ in },
    pause: @escaping @Sendable () -> Void
  ) {
    self.writer = writer
    self.isInPlace = isInPlace
    self.onFatal = onFatal
    self.onCommit = onCommit
    self.onChanged = onChanged
    self.pause = pause
    tables = writer.sync { connection in
      connection.countLog()
      return LedgerTables(connection)
    }
  }

  var statistics: Ledger.Statistics {
    state.withLock { state in
      var statistics = state.statistics
      statistics.waiting = state.waiting.count
      return statistics
    }
  }

  /// Whether writing has stopped for good.
  var isFailed: Bool { state.withLock { $0.failure != nil } }

  /// Whether a transaction failed, for want of disk space for instance.
  var wasRefused: Bool { state.withLock { $0.wasRefused } }

  /// Clears `wasRefused` after a successful test write.
  func forgetRefusal() { state.withLock { $0.wasRefused = false } }

  var isClosed: Bool { state.withLock { $0.isClosed } }

  func submit<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value {
    let result: Result<Value, LedgerError> = await withCheckedContinuation { continuation in
      enqueue(
        Write(
          run: { tables in
            let value = try operation(tables)
            return { continuation.resume(returning: .success(value)) }
          },
          fail: { continuation.resume(returning: .failure($0)) }))
    }
    return try result.get()
  }

  /// The longest that a write waits for others to join.
  private static let patience = DispatchTimeInterval.milliseconds(250)

  /// Writes with the next batch, or by itself after a moment.
  /// - Parameter orElse: called when it was not written.
  func submitLater(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Void, orElse: @escaping @Sendable () -> Void
  ) {
    let write = Write(
      run: { tables in
        try operation(tables)
        return {}
      }, fail: { _ in orElse() })
    let isPlanned = state.withLock { state in
      state.later.append(write)
      defer { state.isFlushPlanned = true }
      return state.isFlushPlanned
    }
    guard !isPlanned else { return }
    DispatchQueue.global().asyncAfter(deadline: .now() + Self.patience) { self.flush() }
  }

  /// Writes what nobody waits for, if no batch has taken it along.
  private func flush() {
    let startsWriter = state.withLock { state in
      state.isFlushPlanned = false
      guard !state.later.isEmpty, !state.isWriting, !state.isClosed else { return false }
      state.isWriting = true
      return true
    }
    if startsWriter { writer.async { self.drain($0) } }
  }

  /// Commits the queued writes, then refuses further ones.
  ///
  /// - Returns: whether this was the first call, which has to close the file.
  func close() async -> Bool {
    await withCheckedContinuation { continuation in
      let (isFirst, isIdle, startsWriter) = state.withLock { state in
        let isFirst = !state.isClosed
        state.isClosed = true
        let startsWriter = !state.isWriting && !state.later.isEmpty
        if startsWriter { state.isWriting = true }
        if state.isWriting { state.idle.append { continuation.resume(returning: isFirst) } }
        return (isFirst, !state.isWriting, startsWriter)
      }
      if startsWriter { writer.async { self.drain($0) } }
      if isIdle { continuation.resume(returning: isFirst) }
    }
  }

  /// Stops all writing for good and calls `onFatal` once.
  func latch(_ failure: LedgerFailure) {
    #if PLANTED_DEFECTS
      if PlantedDefect.carryOnAfterDiskFailure.isActive { return }
    #endif
    let isFirst = state.withLock { state in
      defer { state.failure = state.failure ?? failure }
      return state.failure == nil
    }
    if isFirst { onFatal(failure.sentence) }
  }

  private func enqueue(_ write: Write) {
    let (refusal, startsWriter) = state.withLock { state -> (LedgerError?, Bool) in
      if let failure = state.failure { return (failure.error, false) }
      if state.isClosed { return (.closed, false) }
      state.waiting.append(write)
      defer { state.isWriting = true }
      return (nil, !state.isWriting)
    }
    if let refusal { write.fail(refusal) }
    if startsWriter { writer.async { self.drain($0) } }
  }

  /// The writer's loop, on its thread.
  private func drain(_ connection: SQLiteConnection) {
    while let batch = nextBatch() {
      write(batch, connection)
      if connection.logPages >= Self.longLog { copyLongLog(connection) }
      if isGathered(after: batch.count) { gather() }
    }
  }

  private func copyLongLog(_ connection: SQLiteConnection) {
    do { try Self.copyLog(connection) } catch { latch(LedgerFailure(error)) }
  }

  /// Copies the log into the file, as far as no reader is in the way, and syncs the file.
  ///
  /// SQLite keeps an I/O error to itself where it copies within a COMMIT, and copies no page twice: one whose sync failed would
  /// be lost with the kernel's memory. So it ends the process, and the next one copies the whole log.
  ///
  /// - Throws: an error that ends the process. A full disk, for one, does not: the pages are in the log.
  static func copyLog(_ connection: SQLiteConnection) throws {
    do { try connection.copyLog() } catch {
      let failure = LedgerFailure(error, systemError: connection.systemError)
      if failure.reach == .process { throw error }
    }
  }

  /// Whether the next batch is gathered. One small batch among large ones is chance: committing the next at once would
  /// keep it small, as few writes arrive during one fsync, and so would all that follow.
  private func isGathered(after count: Int) -> Bool {
    state.withLock { state in
      state.recentBatchSize = max(count, state.recentBatchSize * 3 / 4)
      return state.recentBatchSize >= Self.gatherThreshold && state.waiting.count < Self.targetBatch
    }
  }

  /// Polls for further writes while more keep coming. The writer's thread has no other work.
  private func gather() {
    var seen = 0
    for _ in 0..<Self.maxGatherRounds {
      pause()
      let waiting: Int? = state.withLock { state in
        state.isClosed || state.failure != nil ? nil : state.waiting.count
      }
      guard let waiting, waiting > seen, waiting < Self.targetBatch else { return }
      seen = waiting
    }
  }

  private func nextBatch() -> [Write]? {
    let (batch, idle) = state.withLock { state -> ([Write]?, [@Sendable () -> Void]) in
      guard state.waiting.isEmpty, state.later.isEmpty else {
        let batch = Array(state.waiting.prefix(Self.batchLimit))
        state.waiting.removeFirst(batch.count)
        // First, so that the others see them.
        defer { state.later = [] }
        return (state.later + batch, [])
      }
      state.isWriting = false
      defer { state.idle = [] }
      return (nil, state.idle)
    }
    for resume in idle { resume() }
    return batch
  }

  private func write(_ batch: [Write], _ connection: SQLiteConnection) {
    if let failure = state.withLock({ $0.failure }) {
      for write in batch { write.fail(failure.error) }
      return
    }
    do {
      let begin = ContinuousClock.now
      let outcomes = try commit(batch, connection)
      onChanged(tables.changes.take())
      onCommit(Ledger.Commit(writes: batch.count, duration: begin.duration(to: .now)))
      state.withLock { state in
        state.statistics.commits += 1
        state.statistics.entries += outcomes.count { if case .success = $0 { true } else { false } }
        state.statistics.largestBatch = max(state.statistics.largestBatch, batch.count)
      }
      #if PLANTED_DEFECTS
        if PlantedDefect.acknowledgeBeforeCommit.isActive { return }
      #endif
      for (write, outcome) in zip(batch, outcomes) {
        switch outcome {
        case .success(let acknowledge): acknowledge()
        case .failure(let failure): write.fail(failure.error)
        }
      }
    } catch {
      try? connection.rollBack()
      if error.reach == .process { latch(error) }
      state.withLock { $0.wasRefused = true }
      for write in batch { write.fail(error.error) }
    }
  }

  /// - Throws: when no write of the batch was committed.
  private func commit(
    _ batch: [Write], _ connection: SQLiteConnection
  ) throws(LedgerFailure) -> [Result<@Sendable () -> Void, LedgerFailure>] {
    do {
      try connection.rollBack()  // where one failed before
      try tables.execute("BEGIN IMMEDIATE")
      let outcomes = try run(batch, connection)
      #if PLANTED_DEFECTS
        if PlantedDefect.acknowledgeBeforeCommit.isActive {
          for case .success(let acknowledge) in outcomes { acknowledge() }
        }
        if PlantedDefect.swallowCommits.isActive {
          try tables.execute("ROLLBACK")
          return outcomes
        }
      #endif
      try tables.execute("COMMIT")
      // Checked once a batch: a commit to a file that was removed is lost when the process ends, and must not be
      // acknowledged.
      guard isInPlace() else { throw LedgerFailure.misplaced }
      return outcomes
    } catch {
      throw LedgerFailure(error, systemError: connection.logError)
    }
  }

  /// Runs the writes of a batch in the open transaction.
  ///
  /// - Throws: when a failure reaches the transaction.
  private func run(
    _ batch: [Write], _ connection: SQLiteConnection
  ) throws -> [Result<@Sendable () -> Void, LedgerFailure>] {
    _ = tables.changes.take()
    do {
      return try batch.map { .success(try $0.run(tables)) }
    } catch {
      let failure = LedgerFailure(error, systemError: connection.logError)
      guard failure.reach == .entry, connection.isInTransaction else { throw failure }
    }
    try connection.rollBack()
    _ = tables.changes.take()
    try tables.execute("BEGIN IMMEDIATE")
    return try batch.map { try runAlone($0, connection) }
  }

  /// Runs one write in a savepoint, so that its failure rolls back only that write.
  ///
  /// - Throws: when the failure reaches the transaction. SQLite may have rolled it back already (a full disk, an I/O
  ///   error); continuing would then commit each further statement on its own.
  private func runAlone(
    _ write: Write, _ connection: SQLiteConnection
  ) throws -> Result<@Sendable () -> Void, LedgerFailure> {
    try tables.execute("SAVEPOINT one")
    do {
      let acknowledge = try write.run(tables)
      try tables.execute("RELEASE one")
      return .success(acknowledge)
    } catch {
      let failure = LedgerFailure(error, systemError: connection.logError)
      guard failure.reach == .entry, connection.isInTransaction else { throw failure }
      try tables.execute("ROLLBACK TO one")
      try tables.execute("RELEASE one")
      return .failure(failure)
    }
  }
}
