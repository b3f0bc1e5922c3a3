import Foundation
import TestSupport

/// Reads a ledger's file without the ledger's own code, and says what a service must never leave in it.
///
/// Written against the tables, so that a mistake in the code that writes them is not made here a second time.
struct LedgerAudit {
  /// A verdict as the history has it.
  struct Line: Sendable {
    var user: String
    var version: Int64
    var isChange: Bool
    var receipt: String
    /// Of the answer that brought it, in milliseconds since 1970.
    var answeredAt: Int64?
    /// Of the evidence that the verdict stands on.
    var evidenceAt: Int64?
    var tier: String
    var verdict: String
    /// All that an app can see of it, the evidence time apart.
    var visible: String
  }

  /// Each list names users, or is empty.
  struct Findings: Sendable {
    /// Acknowledged, and not there.
    var lost: [String] = []
    /// Versions that are not 1, 2, 3 … up to the profile's.
    var gaps: [String] = []
    /// A change that changes nothing, or one answer of Apple's recorded twice.
    var doubled: [String] = []
    /// A verdict on older evidence after one on newer.
    var backwards: [String] = []
    /// SQLite's word on the file; `ok` when it is sound.
    var integrity = "ok"

    var isClean: Bool { lost.isEmpty && gaps.isEmpty && doubled.isEmpty && backwards.isEmpty && integrity == "ok" }

    var figures: String {
      "\(lost.count) lost, \(gaps.count) gaps, \(doubled.count) duplicated transitions, "
        + "\(backwards.count) older over newer, integrity \(integrity)"
    }
  }

  struct Profile: Sendable {
    var version: Int64
    var tier: String
    var status: String
    var accessUntil: Int64?
    var expiresAt: Int64?
    /// The version of what the app's own row has to be told, and whether it still waits.
    var update: Int64?
    var isWaiting: Bool

    /// The end of access by the app's own row: when it ends, or when it ended.
    var end: Int64? { accessUntil ?? (status == "expired" ? expiresAt : nil) }
  }

  let lines: [Line]
  let profiles: [String: Profile]
  /// The newest evidence time of each user's purchases.
  let confirmedAt: [String: Int64]
  /// Users of whom a receipt waits.
  let pending: Set<String>
  let integrity: String

  /// Rows that name others which are not there, or which say otherwise.
  private static func brokenReferences(_ file: SQLiteFile) throws -> Int {
    try file.first(
      """
      SELECT sum(broken) FROM (
        SELECT count(*) AS broken FROM purchase WHERE proof_id NOT IN (SELECT id FROM proof)
          OR NOT EXISTS (
            SELECT 1 FROM account, json_each(purchases) WHERE account.key = user_id AND value = purchase.id)
        UNION ALL
        SELECT count(*) FROM account, json_each(purchases)
          WHERE NOT EXISTS (SELECT 1 FROM purchase WHERE purchase.id = value AND user_id = account.key)
        UNION ALL
        SELECT count(*) FROM proof LEFT JOIN (SELECT proof_id, count(*) AS found FROM purchase GROUP BY proof_id)
          ON proof_id = id WHERE uses IS NOT found
        UNION ALL
        SELECT count(*) FROM account
          WHERE NOT EXISTS (SELECT 1 FROM event WHERE sequence = newest AND user_id = key)
            OR version > 0
              AND NOT EXISTS (SELECT 1 FROM event WHERE sequence = account.verdict AND version = account.version)
        UNION ALL
        SELECT count(*) FROM event JOIN event AS former ON former.sequence = event.previous
          WHERE former.user_id <> event.user_id
        UNION ALL
        SELECT count(previous) - count(DISTINCT previous) FROM event
        UNION ALL
        SELECT count(*) FROM event WHERE user_id IS NOT NULL
          AND sequence NOT IN (SELECT previous FROM event WHERE previous IS NOT NULL)
          AND sequence NOT IN (SELECT newest FROM account)
        UNION ALL
        SELECT count(*) FROM outbox WHERE NOT EXISTS
          (SELECT 1 FROM account WHERE account.key = outbox.key AND row_version = outbox.version))
      """) ?? 0
  }

  private static func lines(_ file: SQLiteFile) throws -> [Line] {
    let visible = [
      "tier", "status", "reason", "expiresAt", "accessUntil", "productID", "originalTransactionID",
      "environment", "willRenew", "nextProductID", "isTrial", "ownership", "isStale", "isProvisional",
    ]
    .map { "'\($0)=' || ifnull(json_extract(entitlement, '$.\($0)'), '-')" }.joined(separator: " || ' ' || ")
    return try file.rows(
      """
      SELECT coalesce(spelling, key) AS user, event.version, changed, hex(receipt_sha256) AS receipt, evidence_at,
        json_extract(entitlement, '$.evidenceTime') AS proven_at, json_extract(entitlement, '$.tier') AS tier,
        json_extract(entitlement, '$.tier') || ' ' || json_extract(entitlement, '$.status') || ' '
          || json_extract(entitlement, '$.reason') AS verdict,
        \(visible) AS visible
      FROM event JOIN account ON key = event.user_id WHERE kind = 'verdict' ORDER BY user, event.version
      """
    ).map { row in
      Line(
        user: row["user"], version: row["version"], isChange: row["changed"], receipt: row["receipt"],
        answeredAt: row["evidence_at"], evidenceAt: row["proven_at"], tier: row["tier"], verdict: row["verdict"],
        visible: row["visible"])
    }
  }

  private static func profiles(_ file: SQLiteFile) throws -> [String: Profile] {
    let rows = try file.rows(
      """
      SELECT coalesce(spelling, account.key) AS user, account.*, outbox.state,
        json_extract(entitlement, '$.expiresAt') AS expires_at
      FROM account JOIN event ON sequence = account.verdict LEFT JOIN outbox ON outbox.key = account.key
      """)
    return Dictionary(
      uniqueKeysWithValues: rows.map { row in
        (
          row["user"],
          Profile(
            version: row["version"], tier: row["tier"], status: row["status"], accessUntil: row["access_until"],
            expiresAt: row["expires_at"], update: row["row_version"], isWaiting: (row["state"] as String?) == "waiting")
        )
      })
  }

  private static func confirmations(_ file: SQLiteFile) throws -> [String: Int64] {
    let rows = try file.rows(
      """
      SELECT coalesce(spelling, key) AS user, max(evidence_at) AS evidence_at
      FROM purchase JOIN account ON key = purchase.user_id GROUP BY key
      """)
    return Dictionary(uniqueKeysWithValues: rows.map { ($0["user"], $0["evidence_at"]) })
  }

  /// - Parameter acknowledged: what callers were told.
  func findings(acknowledged: [FaultLoad.Acknowledgement]) -> Findings {
    var findings = Findings()
    findings.integrity = integrity
    let byUser = Dictionary(grouping: lines, by: \.user)
    for (user, lines) in byUser.sorted(by: { $0.key < $1.key }) {
      if lines.map(\.version) != Array(1...Int64(lines.count)) || profiles[user]?.version != Int64(lines.count) {
        findings.gaps.append(user)
      }
      var answers: Set<String> = []
      for (before, line) in zip([nil] + lines.map(Optional.some), lines) {
        let isEmptyChange = line.isChange && before?.visible == line.visible
        let isRepeated =
          line.isChange && !answers.insert("\(line.receipt) \(line.answeredAt ?? 0) \(line.visible)").inserted
        if isEmptyChange || isRepeated { findings.doubled.append(user) }
        if let then = before?.evidenceAt, let now = line.evidenceAt, now < then { findings.backwards.append(user) }
      }
    }
    findings.gaps += profiles.keys.filter { byUser[$0] == nil }.sorted()
    findings.lost = acknowledged.filter { !holds($0, in: byUser[$0.user] ?? []) }.map(\.user)
    return findings
  }

  /// An acknowledged verdict is there when the history has that very verdict on that evidence, or less than a day
  /// before, and a purchase has evidence that is no older: that confirmed it. A state that was only read proves nothing
  /// new: it needs the evidence. A receipt that was kept for later waits, or has been judged.
  private func holds(_ acknowledgement: FaultLoad.Acknowledgement, in lines: [Line]) -> Bool {
    if acknowledgement.status == 202 { return pending.contains(acknowledgement.user) || !lines.isEmpty }
    guard let evidenceAt = acknowledgement.evidenceAt else {
      return lines.isEmpty
        || lines.contains { line in
          line.evidenceAt == nil && (acknowledgement.isStale || line.verdict == acknowledgement.verdict)
        }
    }
    let isConfirmed = confirmedAt[acknowledgement.user].map { $0 >= evidenceAt } ?? false
    return lines.contains { line in
      guard let time = line.evidenceAt, acknowledgement.isStale || line.verdict == acknowledgement.verdict else {
        return false
      }
      return time == evidenceAt || isConfirmed && (evidenceAt - 86_400_000..<evidenceAt).contains(time)
    }
  }
}

extension LedgerAudit {
  init(path: String) throws {
    do {
      let file = try SQLiteFile(path, isReadOnly: true)
      defer { file.close() }
      // One state of the file for all that follows.
      try file.run("BEGIN")
      let sound = try file.all("PRAGMA integrity_check", as: String.self)
      let broken = try file.rows("PRAGMA foreign_key_check").count + Self.brokenReferences(file)
      self = LedgerAudit(
        lines: try Self.lines(file), profiles: try Self.profiles(file), confirmedAt: try Self.confirmations(file),
        pending: Set(try file.all("SELECT user_id FROM pending_receipt")),
        integrity: broken == 0 ? sound.joined(separator: "; ") : "\(broken) broken references")
    } catch let error as SQLiteFile.Failure where error.isDamage {
      // A damaged file may be past reading.
      self = LedgerAudit(lines: [], profiles: [:], confirmedAt: [:], pending: [], integrity: "\(error)")
    }
  }

  /// Does to a ledger what no service may do: runs SQL with the triggers of the history out of the way.
  ///
  /// - Parameter user: whom `:user` stands for.
  static func tamper(with path: String, _ sql: String, user: String? = nil) throws {
    let file = try SQLiteFile(path)
    try file.transaction {
      for trigger in ["event_no_update", "event_no_delete", "event_no_replace"] {
        try file.run("DROP TRIGGER IF EXISTS \(trigger)")
      }
      try file.run(sql, user.map { [.text($0)] } ?? [])
    }
    file.close()
  }

  /// A user of whom there is more than one verdict.
  static func userWithHistory(in path: String) throws -> String? {
    try SQLiteFile(path).first("SELECT user_id FROM event WHERE version = 2")
  }
}
