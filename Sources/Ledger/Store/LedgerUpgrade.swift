internal import Entitlements
internal import GRDB

/// Fills the tables of migration 0010 from the former ones, and then drops those.
///
/// A ledger may hold millions of users, so this goes on in transactions of some hundred rows, each of which notes its
/// place, and continues there after a kill or a power cut. Nothing is lost on the way: the former tables stay until the
/// last row is copied.
///
///     purchases, with proofs and schedules ─► users, with events and updates ─► notes that are left ─► drop
package struct LedgerUpgrade {
  /// How far the upgrade of a ledger has got.
  package struct Progress: Hashable, Sendable {
    package var users: Int
    package var total: Int
  }

  private enum Phase: String {
    case purchases, users, notes
  }

  private static let memo = "upgrade"

  let tables: LedgerTables
  /// Rows that one step copies.
  var batch = 500

  /// Upgrades a ledger whose schema is up to date and whose rows are not.
  static func run(_ writer: some DatabaseWriter, progress: (Progress) -> Void) throws {
    let isNeeded = try writer.read { db in try db.tableExists("subscription") }
    guard isNeeded else { return }
    var users = try writer.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM account") ?? 0 }
    let total = try writer.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM profile") ?? 0 }
    var isDone = false
    while !isDone {
      try writer.writeWithoutTransaction { db in
        try db.inTransaction(.immediate) {
          let step = try LedgerUpgrade(tables: LedgerTables(db: db)).step()
          users += step.users
          isDone = step.isLast
          return .commit
        }
      }
      progress(Progress(users: min(users, total), total: total))
    }
    try writer.writeWithoutTransaction { db in
      // To drop a table with the check would read each of its rows.
      try db.execute(sql: "PRAGMA foreign_keys = OFF")
      defer { try? db.execute(sql: "PRAGMA foreign_keys = ON") }
      try db.inTransaction(.immediate) {
        for table in LedgerSchema.formerTables { try db.execute(sql: "DROP TABLE \(table)") }
        try db.execute(sql: "DROP TABLE upgraded_note")
        try db.execute(sql: "DELETE FROM memo WHERE name = '\(memo)'")
        return .commit
      }
    }
  }

  /// What one step did.
  struct Step {
    var users = 0
    /// Nothing is left to copy.
    var isLast = false
  }

  /// Copies the next rows, and notes the place.
  func step() throws -> Step {
    var step = Step()
    let place = try tables.memo(Self.memo)?.split(separator: " ", maxSplits: 1).map(String.init)
    let after = place?.dropFirst().first ?? ""
    switch place?.first.flatMap(Phase.init) ?? .purchases {
    case .purchases:
      if let last = try copyPurchases(after: Int64(after) ?? 0) {
        try keep((.purchases, String(last)))
      } else {
        try tables.execute("CREATE INDEX profile_key ON profile (lower(user_id))")
        try keep((.users, ""))
      }
    case .users:
      let last = try copyUsers(after: after, &step.users)
      try keep(last.map { (.users, $0) } ?? (.notes, "0"))
    case .notes:
      let last = try copyNotes(after: Int64(after) ?? 0)
      if let last { try keep((.notes, String(last))) } else { step.isLast = true }
    }
    return step
  }

  private func keep(_ place: (phase: Phase, after: String)) throws {
    try tables.keepMemo(Self.memo, "\(place.phase.rawValue) \(place.after)")
  }

  // MARK: Purchases

  private struct FormerPurchase {
    var row: Int64
    var user: UserID
    var proof: Int64
    var evidenceAt: Int64
    var text: String
    /// `nil` for a text that cannot be read: it stays as it is, and concerns this purchase alone.
    var evidence: SubscriptionEvidence?
  }

  private func copyPurchases(after rowID: Int64) throws -> Int64? {
    let page = try tables.all(
      """
      SELECT rowid, environment, original_transaction_id, user_id, receipt_id, source, evidence_at, judged_at,
        account_gone, evidence
      FROM subscription WHERE rowid > ? ORDER BY rowid LIMIT ?
      """, rowID, batch
    ) { row in
      let evidenceAt: Int64 = try row.get(6)
      let text: String = try row.get(9)
      return FormerPurchase(
        row: try row.get(0), user: try row.get(3), proof: try row.get(4), evidenceAt: evidenceAt, text: text,
        evidence: try? StoredForm.evidence(
          text, of: row.key(1), source: row.get(5), evidenceAt: evidenceAt, evaluatedAt: row.get(7),
          isAccountGone: row.get(8)))
    }
    for purchase in page {
      try copyProof(purchase.proof)
      try copy(purchase)
    }
    return page.last?.row
  }

  private func copy(_ purchase: FormerPurchase) throws {
    let renewals = purchase.evidence?.renewals ?? []
    // A check that was due long after its scheduled time was claimed.
    try tables.execute(
      """
      INSERT INTO purchase
        (id, environment, original_transaction_id, user_id, claim, proof_id, source, evidence_at, judged_at,
         account_gone, evidence, renewal_off_at, billing_failed_at, scheduled_at, due_at, attempts)
      SELECT s.rowid, environment, original_transaction_id, ?, claim, receipt_id, source, evidence_at, judged_at,
        account_gone, ?, ?, ?, scheduled_at, due_at, coalesce(max(attempts, due_at > scheduled_at + ?), 0)
      FROM subscription s LEFT JOIN recheck USING (environment, original_transaction_id) WHERE s.rowid = ?
      """, purchase.user.key, purchase.evidence.map(StoredForm.text) ?? purchase.text,
      renewals.contains { $0.autoRenews == false } ? purchase.evidenceAt : nil,
      renewals.contains { $0.isInBillingRetry == true } ? purchase.evidenceAt : nil, Int64(RecheckSchedule.spread),
      purchase.row)
  }

  private func copyProof(_ id: Int64) throws {
    guard try !tables.exists("SELECT 1 FROM proof WHERE id = ?", id) else { return }
    let receipt = try tables.first(
      "SELECT base64, environment, bundle_id, sha256, last_seen_at FROM receipt WHERE id = ?", id
    ) { row in
      (
        receipt: KeptReceipt(base64: try row.get(0), environment: try row.get(1), bundleID: try row.get(2)),
        digest: try row.get(3, as: ReceiptDigest.self), seenAt: try row.get(4, as: Int64.self)
      )
    }
    guard let receipt else { throw StoredForm.Unstorable() }
    let stored = StoredProof(receipt.receipt.base64)
    try tables.execute(
      """
      INSERT INTO proof (id, sha256, environment, bundle_id, is_text, content, recorded_at, uses)
      VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT count(*) FROM subscription WHERE receipt_id = ?))
      """, id, receipt.digest, receipt.receipt.environment, receipt.receipt.bundleID, stored.isText, stored.content,
      receipt.seenAt, id)
  }

  // MARK: Users

  private struct FormerProfile {
    var user: UserID
    var version: Int64
    var entitlement: String
    var recordedAt: Int64
    var access: Account.Access
  }

  private enum FormerEvent {
    case verdict(
      version: Int64, requestID: String, changed: Bool, entitlement: String, digest: ReceiptDigest, evidenceAt: Int64?,
      note: Int64?)
    case change(purchase: Int64, from: UserID?, to: UserID, requestID: String, note: Int64?)
    case note(Int64)
  }

  private func copyUsers(after user: String, _ copied: inout Int) throws -> String? {
    let page = try tables.all(
      "SELECT user_id FROM profile WHERE user_id > ? ORDER BY user_id LIMIT ?", user, batch
    ) { try $0.get(0, as: UserID.self) }
    // One who has several profiles is copied with the first of them.
    for user in page where try tables.account(of: user) == nil {
      try copyUser(user)
      copied += 1
    }
    return page.last?.rawValue
  }

  /// The spellings under which a user may have rows: before a UUID was the same in capitals, a user may have got a profile
  /// under each.
  private func names(of user: UserID) throws -> [String] {
    guard let uuid = user.accountToken else { return [user.rawValue] }
    let known = try tables.all("SELECT user_id FROM profile WHERE lower(user_id) = ?", uuid) {
      try $0.get(0, as: String.self)
    }
    return Set(known + [uuid, uuid.uppercased()]).sorted()
  }

  private func copyUser(_ user: UserID) throws {
    let names = try names(of: user)
    let profiles = try names.compactMap { name in
      try tables.first(
        """
        SELECT user_id, version, entitlement, recorded_at, tier, status, entitlement ->> 'productID', access_until,
          coalesce(entitlement ->> 'reason', '') = 'lifetime'
        FROM profile WHERE user_id = ?
        """, name
      ) { row in
        FormerProfile(
          user: try row.get(0), version: try row.get(1), entitlement: try row.get(2), recordedAt: try row.get(3),
          access: try Account.Access(
            tier: row.get(4), status: row.get(5), product: row.get(6), until: row.get(7), isForLife: row.get(8)))
      }
    }
    // The one that was judged last goes on.
    guard let newest = profiles.max(by: { ($0.recordedAt, $0.user.rawValue) < ($1.recordedAt, $1.user.rawValue) })
    else { return }
    var account = Account(of: newest.user)
    var last: String?
    let events = try names.flatMap(events)
    for (recordedAt, event) in Self.ordered(events) {
      switch event {
      case .note(let sequence): _ = try copyNote(sequence, to: &account)
      case .change(let purchase, let from, let to, let requestID, let note):
        let head = LedgerTables.EventHead(
          recordedAt: recordedAt, requestID: requestID, note: try copyNote(note, to: &account))
        if names.contains(to.rawValue) {
          let other = from.flatMap { names.contains($0.rawValue) ? nil : $0 }
          try tables.appendGain(of: purchase, from: other, to: &account, head)
        } else {
          try tables.appendLoss(of: purchase, to: to, from: &account, head)
        }
      case .verdict(let version, let requestID, let changed, let entitlement, let digest, let evidenceAt, let note):
        let head = LedgerTables.EventHead(
          recordedAt: recordedAt, requestID: requestID, note: try copyNote(note, to: &account))
        try tables.append(
          .init(
            version: profiles.count == 1 ? version : account.version + 1, changed: changed, digest: digest,
            evidenceAt: evidenceAt, text: entitlement), to: &account, head)
        last = entitlement
      }
    }
    // Of two profiles the last line may be the other one's.
    if last != newest.entitlement {
      try tables.append(
        .init(
          version: max(newest.version, account.version + 1), changed: true,
          digest: ReceiptDigest(bytes: .init(repeating: 0, count: 32)), evidenceAt: nil, text: newest.entitlement),
        to: &account, .init(recordedAt: newest.recordedAt, requestID: ""))
    }
    account.purchases = try names.flatMap { name in
      try tables.all("SELECT rowid FROM subscription WHERE user_id = ? ORDER BY rowid", name) {
        try $0.get(0, as: Int64.self)
      }
    }
    account.access = newest.access
    try tables.count(nil, replacedBy: newest.access)
    try copyUpdate(of: &account, names)
    try save(account, firstSeenAt: events.map(\.recordedAt).min() ?? newest.recordedAt, at: newest.recordedAt)
  }

  /// The events of one spelling of a user, newest first, in the order in which a timeline shows them: of one moment, a
  /// verdict above a change of owner above a note.
  private func events(of name: String) throws -> [(recordedAt: Int64, rank: Int, sequence: Int64, event: FormerEvent)] {
    let verdicts = try tables.all(
      """
      SELECT sequence, recorded_at, version, request_id, changed, entitlement, receipt_sha256, evidence_at, note_sequence
      FROM history WHERE user_id = ?
      """, name
    ) { row in
      (
        recordedAt: try row.get(1, as: Int64.self), rank: 2, sequence: try row.get(0, as: Int64.self),
        event: FormerEvent.verdict(
          version: try row.get(2), requestID: try row.get(3), changed: try row.get(4), entitlement: try row.get(5),
          digest: try row.get(6), evidenceAt: try row.get(7), note: try row.get(8))
      )
    }
    let changes = try tables.all(
      """
      SELECT c.sequence, c.recorded_at, s.rowid, c.from_user_id, c.to_user_id, c.request_id, c.note_sequence
      FROM ownership_change c JOIN subscription s USING (environment, original_transaction_id)
      WHERE c.from_user_id = ?
      UNION ALL
      SELECT c.sequence, c.recorded_at, s.rowid, c.from_user_id, c.to_user_id, c.request_id, c.note_sequence
      FROM ownership_change c JOIN subscription s USING (environment, original_transaction_id)
      WHERE c.to_user_id = ?
      """, name, name
    ) { row in
      (
        recordedAt: try row.get(1, as: Int64.self), rank: 1, sequence: try row.get(0, as: Int64.self),
        event: FormerEvent.change(
          purchase: try row.get(2), from: try row.get(3), to: try row.get(4), requestID: try row.get(5),
          note: try row.get(6))
      )
    }
    let notes = try tables.all("SELECT sequence, recorded_at FROM note WHERE user_id = ?", name) { row in
      let sequence: Int64 = try row.get(0)
      return (
        recordedAt: try row.get(1, as: Int64.self), rank: 0, sequence: sequence, event: FormerEvent.note(sequence)
      )
    }
    return verdicts + changes + notes
  }

  /// Oldest first. Each kind keeps its own order, whatever the clock said.
  private static func ordered(
    _ events: [(recordedAt: Int64, rank: Int, sequence: Int64, event: FormerEvent)]
  ) -> [(recordedAt: Int64, event: FormerEvent)] {
    var kinds = (0...2).map { rank in
      let kind = events.filter { $0.rank == rank }.map { ($0.sequence, $0) }
      // A change from one spelling of the user to another is there twice.
      return Dictionary(kind) { one, _ in one }.values.sorted { $0.sequence < $1.sequence }
    }
    var ordered: [(recordedAt: Int64, event: FormerEvent)] = []
    // The newest of the three last ones comes last.
    while let next = kinds.compactMap(\.last).max(by: { ($0.recordedAt, $0.rank) < ($1.recordedAt, $1.rank) }) {
      kinds[next.rank].removeLast()
      ordered.append((next.recordedAt, next.event))
    }
    return ordered.reversed()
  }

  /// The note of an event: in the chain of the user whom it is about, or by itself if it is about a change of owner.
  private func copyNote(_ sequence: Int64?, to account: inout Account) throws -> NoteID? {
    guard let sequence else { return nil }
    if let known = try copiedNote(sequence) { return known }
    let (note, user) = try formerNote(sequence)
    var subject = user?.key == account.user.key ? account : nil
    let id = try tables.append(note, to: &subject)
    if let subject { account = subject }
    // A note about a user who is copied later is there twice: with the verdict of this one, and in that one's chain.
    if user == nil || subject != nil { try remember(sequence, id) }
    return id
  }

  private func copiedNote(_ sequence: Int64) throws -> NoteID? {
    try tables.first("SELECT event FROM upgraded_note WHERE sequence = ?", sequence) { NoteID(sequence: try $0.get(0)) }
  }

  private func remember(_ sequence: Int64, _ id: NoteID) throws {
    try tables.execute("INSERT INTO upgraded_note (sequence, event) VALUES (?, ?)", sequence, id.sequence)
  }

  private func formerNote(_ sequence: Int64) throws -> (note: Note, user: UserID?) {
    let note = try tables.first(
      "SELECT author, text, request_id, recorded_at, user_id FROM note WHERE sequence = ?", sequence
    ) { row in
      (
        note: Note(
          author: try row.get(0), text: try row.get(1), requestID: try row.get(2), recordedAt: try row.get(3)),
        user: try row.get(4, as: UserID?.self)
      )
    }
    guard let note else { throw StoredForm.Unstorable() }
    return note
  }

  private func copyUpdate(of account: inout Account, _ names: [String]) throws {
    for name in names {
      let version = try tables.first("SELECT version FROM profile_update WHERE user_id = ?", name) {
        try $0.get(0, as: Int64.self)
      }
      account.rowVersion = max(account.rowVersion, version ?? 0)
    }
    // All spellings of a UUID are one row: what waits under another one is older.
    try tables.execute(
      """
      INSERT INTO outbox (key, version, state, is_doubtful, waiting_since, attempts, due_at, problem, problem_at)
      SELECT ?, ?, state, is_doubtful, waiting_since, attempts, due_at, problem, problem_at FROM profile_update
      WHERE user_id = ? AND state <> 'written'
      """, account.user.key, account.rowVersion, account.user)
  }

  private func save(_ account: Account, firstSeenAt: Int64, at now: Int64) throws {
    try tables.save(account, at: now)
    try tables.execute(
      "UPDATE account SET first_seen_at = min(first_seen_at, ?) WHERE key = ?", firstSeenAt, account.user.key)
  }

  // MARK: Notes that are left

  /// Copies notes about users without a verdict.
  private func copyNotes(after sequence: Int64) throws -> Int64? {
    let page = try tables.all("SELECT sequence FROM note WHERE sequence > ? ORDER BY sequence LIMIT ?", sequence, batch)
    {
      try $0.get(0, as: Int64.self)
    }
    for sequence in page where try copiedNote(sequence) == nil {
      let (note, user) = try formerNote(sequence)
      var account = try user.map(tables.knownOrNewAccount)
      try remember(sequence, tables.append(note, to: &account))
      let recordedAt = try StoredForm.milliseconds(note.recordedAt)
      if let account { try save(account, firstSeenAt: recordedAt, at: recordedAt) }
    }
    return page.last
  }
}
