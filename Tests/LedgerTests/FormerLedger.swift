import Entitlements
import Foundation
import GRDB
import Testing

@testable import Ledger

/// A ledger as releases before migration "0010 lean" wrote it, row by row.
struct FormerLedger {
  let scratch: Scratch
  let file: DatabaseQueue

  init(upTo migration: String = "0009 refused by whom") throws {
    scratch = try Scratch()
    file = try DatabaseQueue(path: scratch.path)
    try file.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA journal_mode = WAL")
      try db.execute(sql: "PRAGMA application_id = \(LedgerFile.applicationID)")
    }
    try LedgerSchema.migrator.migrate(file, upTo: migration)
  }

  /// What one release ago was a record of one purchase: the verdict is on that purchase alone.
  func record(
    _ user: String, _ evidence: SubscriptionEvidence, from loser: String? = nil, at seconds: Double,
    request: String = "r", note: Int64? = nil
  ) throws {
    try file.write { db in
      try judge(user, [evidence], at: seconds, request: request, note: note, db)
      let id = evidence.key.originalTransactionID.rawValue
      let environment = evidence.key.environment.rawValue
      try db.execute(
        literal: """
          INSERT INTO receipt (sha256, base64, environment, bundle_id, first_seen_at, last_seen_at)
          VALUES (randomblob(32), \("receipt-\(id)"), \(environment), 'com.example.app', 0, \(milliseconds(seconds)));
          INSERT INTO subscription
            (environment, original_transaction_id, user_id, receipt_id, source, evidence_at, judged_at, account_gone,
             evidence)
          VALUES
            (\(environment), \(id), \(user), last_insert_rowid(), 'verify_receipt',
             \(try StoredForm.milliseconds(evidence.evidenceTime)), \(try StoredForm.milliseconds(evidence.evaluatedAt)),
             0, \(try StoredForm.encoded(FormerRows(evidence))))
          ON CONFLICT DO UPDATE SET user_id = excluded.user_id, receipt_id = excluded.receipt_id;
          INSERT INTO ownership_change
            (environment, original_transaction_id, from_user_id, to_user_id, recorded_at, request_id, note_sequence)
          VALUES (\(environment), \(id), \(loser), \(user), \(milliseconds(seconds)), \(request), \(note));
          """)
      if let loser { try judge(loser, [], at: seconds, request: request, note: note, db) }
    }
  }

  private func judge(
    _ user: String, _ evidence: [SubscriptionEvidence], at seconds: Double, request: String, note: Int64?,
    _ db: Database
  ) throws {
    let verdict = rules(UserID(user), evidence, [], at(0))
    let text = try StoredForm.text(verdict)
    let recordedAt = milliseconds(seconds)
    try db.execute(
      literal: """
        INSERT INTO profile (user_id, version, tier, status, access_until, entitlement, recorded_at)
        VALUES
          (\(user), 1, \(verdict.tier.rawValue), \(verdict.status.rawValue),
           \(try verdict.accessUntil.map(StoredForm.milliseconds)), \(text), \(recordedAt))
        ON CONFLICT DO UPDATE SET
          version = version + 1, tier = excluded.tier, status = excluded.status, access_until = excluded.access_until,
          entitlement = excluded.entitlement, recorded_at = excluded.recorded_at;
        INSERT INTO profile_update (user_id, version, state, is_doubtful, waiting_since, attempts, due_at)
          VALUES (\(user), 1, 'waiting', 0, \(recordedAt), 0, 0)
          ON CONFLICT DO UPDATE SET version = version + 1;
        INSERT INTO history
          (user_id, version, recorded_at, request_id, changed, entitlement, receipt_sha256, note_sequence)
          SELECT user_id, version, recorded_at, \(request), 1, entitlement, zeroblob(32), \(note) FROM profile
          WHERE user_id = \(user);
        """)
  }

  /// - Returns: the note's number.
  func note(_ text: String, about user: String?, at seconds: Double) throws -> Int64 {
    try file.write { db in
      try db.execute(
        literal: """
          INSERT INTO note (user_id, author, text, recorded_at, request_id)
          VALUES (\(user), 'desk', \(text), \(milliseconds(seconds)), \("request-\(text)"))
          """)
      return db.lastInsertedRowID
    }
  }

  /// Opens it with this release, which upgrades it.
  func open() async throws -> Ledger {
    try file.close()
    return try await scratch.open()
  }
}

/// Evidence in the form of those releases.
struct FormerRows: Codable {
  var parts: StoredForm.Rows.Parts?
  var purchases: [Purchase]
  var renewals: [RenewalInfo]

  init(_ evidence: SubscriptionEvidence) {
    if case .partial(let since) = evidence.coverage { parts = .init(since: since, answeredAt: evidence.answeredAt) }
    purchases = evidence.purchases
    renewals = evidence.renewals
  }

  func isSame(as rows: StoredForm.Rows) -> Bool {
    purchases == rows.purchases && renewals == rows.renewals && (parts == nil) == (rows.parts == nil)
      && parts?.since == rows.parts?.since && parts?.answeredAt == rows.parts?.answeredAt
  }
}
