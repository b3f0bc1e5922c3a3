internal import Dispatch
package import Entitlements
package import struct FoundationEssentials.Date
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

    package init(writes: Int, duration: Duration) {
      self.writes = writes
      self.duration = duration
    }
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

  /// What this process knows beyond the ledger. Each commit brings it up to date before it is acknowledged.
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
    let result: Result<SQLiteEngine, LedgerOpenError> = await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(
          returning: Result { () throws(LedgerOpenError) in
            try SQLiteEngine(
              path: path, synchronous: synchronous, onFatal: onFatal, onCommit: onCommit, onChanged: memory.note,
              schema: schema, pause: pause)
          })
      }
    }
    return Ledger(try result.get(), memory)
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
    let engine = try await PostgreSQLEngine.open(
      url: url, connections: connections, settings: settings, schema: schema, onCommit: onCommit, onChanged: memory.note
    )
    return Ledger(engine, memory)
  }

  /// Commits queued writes, then closes the file. Later operations throw `.closed`.
  ///
  /// The log is copied into the main file, which is then complete by itself; not after a disk failure, when only the
  /// log can be trusted.
  package func close() async { await engine.close() }

  /// Leaves nothing of what was deleted in the ledger's own files, as far as the engine can: SQLite's log is copied into the
  /// main file and emptied, for which writers wait, and readers that began before are waited for.
  /// - Throws: `unavailable` where a reader takes too long.
  func emptyLog() async throws(LedgerError) { try await engine.emptyLog() }

  package var statistics: Statistics { engine.statistics }
  /// Files that others than the owner could read when the ledger was opened.
  package var exposures: [LedgerExposure] { engine.exposures }

  /// Records the evidence of an answer from Apple for a user, and reevaluates the user over all evidence.
  ///
  /// - Returns: the verdict as recorded, or that the purchase belongs to another user (nothing is recorded then).
  package func record(_ entry: LedgerEntry) async throws(LedgerError) -> RecordOutcome {
    let prepared: PreparedEntry
    do {
      prepared = try PreparedEntry(entry)
    } catch {
      throw LedgerFailure(error).error
    }
    return try await engine.submit { tables in
      let outcome = try RecordOperation(
        prepared: prepared, tables: tables, claim: entry.claimsByName ? .accountToken : .proof
      ).run()
      try tables.settle(entry.runItem, after: outcome)
      return outcome
    }
  }

  /// Queues a receipt until Apple can be asked about it. The same receipt of the same user is queued once.
  ///
  /// - Parameters:
  ///   - provisional: what the receipt's signature proves and may count meanwhile. A purchase with another owner, with
  ///     another user's grant or with newer evidence is left out; an existing grant is never prolonged. A grant that
  ///     ends at its evaluation time counts for nothing and is a reservation: no other user is granted the purchase
  ///     while the receipt is queued, and this user may be, later.
  ///   - evaluationContext: how the user is evaluated with the grant.
  package func postpone(
    _ receipt: PendingReceipt, provisional: [SubscriptionEvidence], _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) -> PostponeOutcome {
    let digest = ReceiptDigest(of: receipt.base64)
    return try await engine.submit { tables in
      try PostponeOperation(
        receipt: receipt, digest: digest, provisional: provisional, evaluationContext: evaluationContext,
        tables: tables
      ).run()
    }
  }

  /// How long a replica has for the receipts that it took.
  static let pendingLease = Duration.seconds(120)

  /// The queued receipts that are due, the longest waiting first. Where replicas share the ledger, each gets a receipt for
  /// itself, for two minutes.
  package func pendingReceipts(dueAt now: Date, limit: Int) async throws(LedgerError) -> [PendingReceipt] {
    let due = try await read { tables in try tables.pendingReceipts(dueAt: now, limit: limit) }
    guard engine.isShared, !due.isEmpty else { return due }
    let lease = now.advanced(by: Self.pendingLease)
    return try await engine.submit { tables in
      try tables.claimPending(dueAt: now, until: lease, limit: limit)
    }
  }

  /// Counts a failed attempt and schedules the next one.
  package func retryPending(_ id: Int64, at due: Date) async throws(LedgerError) {
    try await engine.submit { tables in try tables.retryPending(id, at: due) }
  }

  /// Ends the grants on the signature of a queued receipt that Apple rejects, and reevaluates the user. The receipt stays
  /// queued; the failed attempt is counted and the next one scheduled.
  package func refusePending(
    _ id: Int64, retryAt due: Date, _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try WithdrawOperation(evaluationContext: evaluationContext, tables: tables).refuse(id, retryAt: due)
    }
  }

  /// Makes receipts due now that were postponed during an outage of Apple's.
  package func makePendingDue(at now: Date) async throws(LedgerError) {
    let claimed = engine.isShared ? now.advanced(by: Self.pendingLease) : now
    try await engine.submit { tables in
      try tables.makePendingDue(at: StoredForm.milliseconds(now), butClaimedUntil: StoredForm.milliseconds(claimed))
    }
  }

  /// Removes a queued receipt after its verdict, ends the grants on its signature, and reevaluates the user.
  package func settlePending(_ id: Int64, _ evaluationContext: EvaluationContext) async throws(LedgerError) {
    try await engine.submit { tables in
      try WithdrawOperation(evaluationContext: evaluationContext, tables: tables).settle(id)
    }
  }

  /// Ends the provisional grants that have expired, and reevaluates their users.
  /// - Returns: how many grants ended.
  package func endProvisional(_ evaluationContext: EvaluationContext) async throws(LedgerError) -> Int {
    // Usually there is nothing to end, and a write costs an fsync.
    let isIdle = try await read { tables in try tables.grants(endedAt: evaluationContext.evaluatedAt).isEmpty }
    guard !isIdle else { return 0 }
    return try await engine.submit { tables in
      try WithdrawOperation(evaluationContext: evaluationContext, tables: tables).endOverdue()
    }
  }

  /// Reevaluates a user after a change of the rules that no other event would apply.
  /// - Parameters:
  ///   - base64: the receipt that led to this call, for the history.
  ///   - admits: called before the verdict replaces the previous one.
  /// - Returns: whether the verdict was approved or is unchanged.
  package func reevaluate(
    _ user: UserID, receipt base64: String, requestID: String, _ evaluationContext: EvaluationContext,
    approves: @escaping Approval
  ) async throws(LedgerError) -> Bool {
    let digest = ReceiptDigest(of: base64)
    let approves = ApprovalCache.remembering(approves)
    return try await engine.submit { tables in
      try VerdictWriter(
        tables: tables,
        head: .init(recordedAt: try StoredForm.milliseconds(evaluationContext.recordedAt), requestID: requestID),
        digest: digest, evidenceAt: nil
      ).reevaluateIfChanged(user, by: evaluationContext.evaluate, at: evaluationContext.evaluatedAt, approves: approves)
    }
  }

  /// The outbox entry of a user's row; `nil` if the row is up to date.
  package func waitingUpdate(of user: UserID) async throws(LedgerError) -> WaitingUpdate? {
    let update = try await readShort { tables in try tables.waitingUpdate(of: user) }
    guard let update, update.state != .waiting || !memory.rows.isSettled(update.version, of: user) else { return nil }
    return update
  }

  /// A number that grows with every commit that changes what `profile` says of a user, before the commit is
  /// acknowledged: what was read holds while the number from before the read does.
  package func generation(of user: UserID) -> UInt64 { memory.generations[user] }

  /// Whether an update is certainly its user's newest, and not written yet. It then need not be read again.
  package func isNewest(_ update: WaitingUpdate) -> Bool {
    !engine.isShared && memory.rows.isNewest(update.version, of: update.user)
  }

  /// Claims the due updates of the outbox, the longest waiting first. An unsettled one becomes due again at `lease`.
  package func claimUpdates(
    dueAt now: Date, until lease: Date, limit: Int
  ) async throws(LedgerError) -> [WaitingUpdate] {
    let isIdle = try await read { tables in try !tables.hasUpdates(dueAt: now) }
    guard !isIdle else { return [] }
    return try await engine.submit { tables in
      try tables.claimUpdates(dueAt: now, until: lease, limit: limit)
    }
  }

  /// Marks an update as written. An update of a newer version stays queued.
  /// - Parameters:
  ///   - isDoubtful: an older write may still be executed after this one, though none is known to have failed that way.
  ///   - again: when to write the row once more in that case; `nil` for a store that refuses a version older than the
  ///     row's.
  package func settleUpdate(
    of user: UserID, version: Int64, isDoubtful: Bool, confirmingAt again: Date?
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try tables.settleUpdate(of: user, version: version, isDoubtful: isDoubtful, confirmingAt: again)
    }
  }

  /// As `settleUpdate` of a waiting row, without an fsync of its own: the next commit takes it along. After a crash the
  /// row is written once more, with the same version.
  package func settleLater(_ update: WaitingUpdate, isDoubtful: Bool, confirmingAt again: Date?) {
    memory.rows.settle(update.version, of: update.user)
    memory.generations.advance(update.user)
    engine.submitLater { tables in
      try tables.settleUpdate(
        of: update.user, version: update.version, isDoubtful: isDoubtful, confirmingAt: again)
    } orElse: { [memory] in
      // The row is written once more.
      memory.rows.forget(update.version, of: update.user)
      memory.generations.advance(update.user)
    }
  }

  /// Counts a missing row, and schedules the next attempt. An update of a newer version stays queued.
  package func missUpdate(of user: UserID, version: Int64, retryAt due: Date) async throws(LedgerError) {
    try await engine.submit { tables in try tables.missUpdate(of: user, version: version, retryAt: due) }
  }

  /// Counts a failed attempt at an update and schedules the next. An update of a newer version is left unchanged.
  /// - Parameters:
  ///   - problem: the store's code.
  ///   - isDoubtful: the write may still be executed, even after a later one.
  package func retryUpdate(
    of user: UserID, version: Int64, at due: Date, problem: String, isDoubtful: Bool
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try tables
        .retryUpdate(of: user, version: version, at: due, problem: problem, isDoubtful: isDoubtful)
    }
  }

  /// Raises the version of a failed update, and of every later one, above an impossible version found in the app's row.
  /// An update of a newer version is left unchanged.
  package func raiseUpdate(of user: UserID, version: Int64, above floor: Int64) async throws(LedgerError) {
    try await engine.submit { tables in try tables.raiseUpdate(of: user, version: version, above: floor) }
  }

  /// Returns claimed updates that were not attempted: they are due at once.
  /// - Parameter lease: the end of the claim. An update that was settled or postponed since is left unchanged.
  package func returnUpdates(of users: [UserID], claimedUntil lease: Date) async throws(LedgerError) {
    guard !users.isEmpty else { return }
    try await engine.submit { tables in try tables.returnUpdates(of: users, claimedUntil: lease) }
  }

  /// Claims the subscriptions due for a check, the longest overdue first. Each claim postpones the next one, by two
  /// minutes at first and up to a day; evidence from `record` replaces that schedule.
  package func claimRechecks(dueAt now: Date, limit: Int) async throws(LedgerError) -> [Recheck] {
    let isIdle = try await read { tables in try !tables.hasRechecks(dueAt: now) }
    guard !isIdle else { return [] }
    return try await engine.submit { tables in try tables.claimRechecks(dueAt: now, limit: limit) }
  }

  /// Undoes claims and delays made by a clock that was ahead: everything is due as if they had never been. Work that is
  /// in progress may be claimed twice.
  package func releaseClaims() async throws(LedgerError) {
    try await engine.submit { tables in try tables.release() }
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

  /// The state of the queues.
  package func backlog(at now: Date) async throws(LedgerError) -> LedgerBacklog {
    try await read { tables in try tables.backlog(at: now) }
  }

  /// All evidence of a user and the last recorded verdict; `nil` for an unknown user.
  package func profile(of user: UserID) async throws(LedgerError) -> LedgerProfile? {
    var profile = try await readShort { tables in try tables.ledgerProfile(of: user) }
    if let known = profile, known.write == .waiting, memory.rows.isSettled(known.rowVersion, of: user) {
      profile?.write = .written
    }
    return profile
  }

  /// The outcome of an earlier validation of this receipt for a user.
  package func knowledge(of receiptBase64: String, for user: UserID) async throws(LedgerError) -> ReceiptKnowledge {
    let digest = ReceiptDigest(of: receiptBase64)
    return try await readShort { tables in try tables.knowledge(of: digest, for: user) }
  }

  /// The stored receipts that contain an original transaction ID: one per environment.
  package func receipts(mentioning id: OriginalTransactionID) async throws(LedgerError) -> [KeptReceipt] {
    try await readShort { tables in try tables.receipts(mentioning: id) }
  }

  /// A user's verdicts, newest first.
  /// - Parameter before: the `sequence` to continue below; `nil` begins with the newest.
  package func history(
    of user: UserID, before: Int64?, limit: Int
  ) async throws(LedgerError) -> [HistoryEntry] {
    try await read { tables in try tables.history(of: user, before: before, limit: limit) }
  }

  /// Reads, and writes one row durably.
  ///
  /// Only a real commit detects a full or failing disk; a transaction that is rolled back writes nothing. It costs one
  /// page of the log and one fsync, shared with concurrent checks and records; poll it every few seconds, not more
  /// often. A file that was moved or replaced under the ledger is a permanent failure: writes to it are lost.
  package func check() async throws(LedgerError) { try await engine.check() }

  /// Checks the whole file for damage; minutes on a large one.
  package func verifyIntegrity() async throws(LedgerError) {
    try await read { tables in
      guard try tables.isSound() else {
        throw LedgerFailure(reach: .process, sentence: "The ledger's file is corrupt (integrity check)")
      }
    }
  }

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
