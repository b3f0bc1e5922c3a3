import Entitlements
import Foundation
import GRDB
import Ledger
import Testing

/// What SQLite itself refuses, whoever writes: each statement is sent to the file of a closed ledger.
struct Forbidden: Sendable, CustomTestStringConvertible {
  var name: String
  var sql: String
  var problem: String
  var testDescription: String { name }

  private static let subscription = """
    INSERT INTO subscription (environment, original_transaction_id, user_id, receipt_id, source, evidence_at, judged_at,
      account_gone, evidence) VALUES
    """
  private static let history = """
    INSERT INTO history (sequence, user_id, version, recorded_at, request_id, changed, entitlement, receipt_sha256)
    VALUES
    """

  static let all: [Forbidden] = [
    .init(name: "text as a time", sql: "UPDATE profile SET recorded_at = 'soon'", problem: "cannot store TEXT"),
    .init(name: "an unknown status", sql: "UPDATE profile SET status = 'paused'", problem: "CHECK"),
    .init(name: "version 0", sql: "UPDATE profile SET version = 0", problem: "CHECK"),
    .init(name: "a verdict that is not JSON", sql: "UPDATE profile SET entitlement = '{'", problem: "CHECK"),
    .init(name: "no verdict", sql: "UPDATE profile SET entitlement = NULL", problem: "NOT NULL"),
    .init(name: "an empty receipt", sql: "UPDATE receipt SET base64 = ''", problem: "CHECK"),
    .init(name: "a short digest", sql: "UPDATE receipt SET sha256 = x'00'", problem: "CHECK"),
    .init(
      name: "a receipt twice",
      sql: """
        INSERT INTO receipt (sha256, base64, environment, bundle_id, first_seen_at, last_seen_at)
        SELECT sha256, 'x', environment, bundle_id, 0, 0 FROM receipt
        """, problem: "UNIQUE"),
    .init(
      name: "a second owner", sql: "\(subscription) ('production', '1', 'ben', 1, 'signature', 0, 0, 0, '{}')",
      problem: "UNIQUE"),
    .init(
      name: "an owner without profile", sql: "UPDATE subscription SET user_id = 'nobody'", problem: "FOREIGN KEY"),
    .init(name: "a receipt that is not there", sql: "UPDATE subscription SET receipt_id = 99", problem: "FOREIGN KEY"),
    .init(name: "a receipt removed in use", sql: "DELETE FROM receipt", problem: "FOREIGN KEY"),
    .init(name: "a third store", sql: "UPDATE subscription SET environment = 'xcode'", problem: "CHECK"),
    .init(name: "an unknown source", sql: "UPDATE subscription SET source = 'hearsay'", problem: "CHECK"),
    .init(name: "a profile removed", sql: "DELETE FROM profile", problem: "FOREIGN KEY"),
    .init(name: "history rewritten", sql: "UPDATE history SET changed = 0", problem: "append-only"),
    .init(name: "history removed", sql: "DELETE FROM history", problem: "append-only"),
    .init(
      name: "history replaced by sequence",
      sql: """
        INSERT OR REPLACE INTO history
        SELECT sequence, user_id, 9, 0, '', 0, '{}', receipt_sha256, 0, NULL FROM history
        """, problem: "append-only"),
    .init(
      name: "history replaced by version",
      sql: """
        INSERT OR REPLACE INTO history
        SELECT 99, user_id, version, 0, '', 0, '{}', receipt_sha256, 0, NULL FROM history
        """, problem: "append-only"),
    .init(
      name: "history of nobody", sql: "\(history) (99, 'nobody', 1, 0, '', 0, '{}', zeroblob(32))",
      problem: "FOREIGN KEY"),
    .init(
      name: "an ownership change rewritten", sql: "UPDATE ownership_change SET to_user_id = 'ben'",
      problem: "append-only"),
    .init(name: "an ownership change removed", sql: "DELETE FROM ownership_change", problem: "append-only"),
    .init(
      name: "an ownership change replaced",
      sql: "INSERT OR REPLACE INTO ownership_change SELECT * FROM ownership_change", problem: "append-only"),
    .init(
      name: "a second run under way",
      sql: """
        INSERT INTO run (expiring_within, horizon, item_limit, state, started_at, due, done, changed, failed, held_back)
        VALUES (0, 0, 1, 'running', 0, 0, 0, 0, 0, 0), (0, 0, 1, 'running', 0, 0, 0, 0, 0, 0)
        """, problem: "UNIQUE"),
    .init(
      name: "a run that has done more than was due",
      sql: """
        INSERT INTO run (expiring_within, horizon, item_limit, state, started_at, due, done, changed, failed, held_back)
        VALUES (0, 0, 1, 'running', 0, 2, 1, 0, 1, 1)
        """, problem: "CHECK"),
    .init(name: "a note rewritten", sql: "UPDATE note SET text = 'otherwise'", problem: "append-only"),
    .init(name: "a note removed", sql: "DELETE FROM note", problem: "append-only"),
    .init(
      name: "a note replaced", sql: "INSERT OR REPLACE INTO note SELECT sequence, user_id, 'x', 'y', 0, '' FROM note",
      problem: "append-only"),
    .init(name: "a note of nobody's", sql: "INSERT INTO note VALUES (9, 'anna', '', 'y', 0, '')", problem: "CHECK"),
    .init(name: "an empty note", sql: "INSERT INTO note VALUES (9, 'anna', 'desk', '', 0, '')", problem: "CHECK"),
    .init(
      name: "a verdict on a note that is not there",
      sql: """
        INSERT INTO history (sequence, user_id, version, recorded_at, request_id, changed, entitlement, receipt_sha256,
          note_sequence) VALUES (99, 'anna', 9, 0, '', 0, '{}', zeroblob(32), 99)
        """, problem: "FOREIGN KEY"),
    .init(name: "a claim by hearsay", sql: "UPDATE subscription SET claim = 'hearsay'", problem: "CHECK"),
    .init(
      name: "a notification twice",
      sql: "INSERT INTO notification (uuid, received_at, outcome) VALUES ('n1', 0, 'noted')", problem: "UNIQUE"),
    .init(
      name: "a notification without a name",
      sql: "INSERT INTO notification (uuid, received_at, outcome) VALUES ('', 0, 'noted')", problem: "CHECK"),
    .init(
      name: "a notification that went into nobody's verdict",
      sql: "UPDATE notification SET outcome = 'recorded'", problem: "CHECK"),
    .init(
      name: "a refused notification twice",
      sql: """
        INSERT INTO refused_notification (sha256, problem, payload, received_at)
        SELECT sha256, 'x', 'x', 0 FROM refused_notification
        """, problem: "UNIQUE"),
    .init(
      name: "a notification that is half signed", sql: "UPDATE refused_notification SET is_signed = 2", problem: "CHECK"
    ),
    .init(
      name: "an account in capitals", sql: "UPDATE unclaimed_evidence SET account_token = 'ABC'", problem: "CHECK"),
    .init(
      name: "a proof of nobody knows when", sql: "UPDATE unclaimed_evidence SET proof_at = NULL", problem: "CHECK"),
    .init(name: "a proof of no app", sql: "UPDATE unclaimed_evidence SET bundle_id = NULL", problem: "CHECK"),
    .init(
      name: "a second row to be told of a user",
      sql: "INSERT INTO profile_update SELECT * FROM profile_update WHERE user_id = 'anna'", problem: "UNIQUE"),
    .init(
      name: "a row to be told of nobody",
      sql: "INSERT INTO profile_update VALUES ('x', 1, 'waiting', 0, 0, 0, 0, '', 0)",
      problem: "FOREIGN KEY"),
    .init(name: "a row in an unknown state", sql: "UPDATE profile_update SET state = 'lost'", problem: "CHECK"),
    .init(name: "a row of version 0", sql: "UPDATE profile_update SET version = 0", problem: "CHECK"),
    .init(name: "doubts about a row", sql: "UPDATE profile_update SET is_doubtful = 2", problem: "CHECK"),
    .init(
      name: "a row that waits since never", sql: "UPDATE profile_update SET waiting_since = NULL", problem: "NOT NULL"),
    .init(
      name: "text as the time of a row", sql: "UPDATE profile_update SET due_at = 'now'", problem: "cannot store TEXT"),
    .init(
      name: "a recheck of nothing", sql: "INSERT INTO recheck VALUES ('production', '99', 0, 0, 0)",
      problem: "FOREIGN KEY"),
    .init(
      name: "a second recheck",
      sql: "INSERT INTO recheck VALUES ('production', '1', 0, 0, 0), ('production', '1', 9, 9, 0)", problem: "UNIQUE"),
    .init(
      name: "attempts below none", sql: "INSERT INTO recheck VALUES ('production', '1', 0, 0, -1)", problem: "CHECK"),
    .init(name: "a second heartbeat", sql: "INSERT INTO heartbeat VALUES (2, 0)", problem: "CHECK"),
  ]
}

@Suite struct SchemaTests {
  @Test(arguments: Forbidden.all)
  func `SQLite refuses`(_ forbidden: Forbidden) async throws {
    let scratch = try await Self.filled()
    let file = try DatabaseQueue(path: scratch.path)
    let error = try #require(throws: DatabaseError.self) {
      try file.write { db in try db.execute(sql: forbidden.sql) }
    }
    #expect(error.resultCode == .SQLITE_CONSTRAINT)
    #expect(error.message?.contains(forbidden.problem) == true, "\(error)")
  }

  @Test func `every table is strict`() async throws {
    let scratch = try await Self.filled()
    let loose = try await DatabaseQueue(path: scratch.path).read { db in
      try String.fetchAll(
        db,
        sql: """
          SELECT name FROM pragma_table_list
          WHERE schema = 'main' AND type = 'table' AND NOT strict AND name NOT LIKE 'sqlite_%' AND name <> 'grdb_migrations'
          """)
    }
    #expect(loose == [])
  }

  /// A change of these texts needs a migration: ledgers in the field hold the old ones.
  @Test func `evidence and verdict are written in this form`() async throws {
    let scratch = try await Self.filled()
    let (rows, verdict) = try await DatabaseQueue(path: scratch.path).read { db in
      (
        try String.fetchOne(db, sql: "SELECT evidence FROM subscription"),
        try String.fetchOne(db, sql: "SELECT entitlement FROM profile WHERE user_id = 'anna'")
      )
    }
    #expect(
      rows == """
        {"purchases":[{"expiresDate":1750001000000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,\
        "originalTransactionID":"1","ownership":"purchased","productID":"com.example.app.pro.monthly",\
        "purchaseDate":1749999900000,"transactionID":"t-1-1000.0"}],\
        "renewals":[{"autoRenews":true,"originalTransactionID":"1"}]}
        """)
    #expect(
      verdict == """
        {"accessUntil":1750001000000,"evidenceTime":1750000000000,"expiresAt":1750001000000,\
        "explanation":{"judgedAt":1750000000000,"passedOver":[],"passedOverCount":0},"isProvisional":false,\
        "isStale":false,"isTrial":false,"originalTransactionID":"1","reason":"renewing","status":"active","tier":"pro"}
        """)
  }

  @Test func `evidence in parts is written in this form`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry("anna", [evidence("1", time: 100, evaluatedAt: 101)], evaluate: rules))
      _ = try await ledger.take(
        notification("n1", [part("1", reported: 200, renewal: RenewalInfo(autoRenews: false, periodEnd: at(1_000)))]))
      #expect(
        try await scratch.fetch("SELECT evidence FROM subscription") == [
          """
          {"parts":{"answeredAt":1750000101000,"since":1750000100000},"purchases":[{"expiresDate":1750001000000,\
          "isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"1",\
          "ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,\
          "toldAt":1750000100000,"transactionID":"t-1-1000.0"},{"expiresDate":1750001000000,\
          "isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"1",\
          "ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,\
          "toldAt":1750000200000,"transactionID":"t1"}],"renewals":[{"autoRenews":false,"originalTransactionID":"1",\
          "periodEnd":1750001000000,"toldAt":1750000200000}]}
          """
        ])
    }
  }

  @Test func `every value of the vocabulary can be stored`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for status in SubscriptionStatus.allCases {
        var one = evidence(status.rawValue)
        one.isAccountGone = true
        _ = try await ledger.record(
          entry(UserID(status.rawValue), [one]) { user, evidence, now in
            var verdict = evaluate(user, evidence, now)
            verdict.status = status
            return verdict
          })
        let profile = try await ledger.profile(of: UserID(status.rawValue))
        #expect(profile?.entitlement.status == status)
        #expect(profile?.evidence == [one])
      }
      for source in [EvidenceSource.verifyReceipt, .serverAPI, .signature, .notification] {
        var one = evidence(source.rawValue)
        one.source = source
        _ = try await ledger.record(entry("anna", [one]))
        #expect(try await ledger.profile(of: "anna")?.evidence.contains(one) == true)
      }
    }
  }

  @Test func `a receipt that no subscription needs any more is not kept`() async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    _ = try await ledger.record(entry("anna", [evidence("1"), evidence("2")], receipt: "old"))
    _ = try await ledger.record(entry("anna", [evidence("1", time: 1)], receipt: "new"))
    #expect(try await Self.receipts(scratch) == ["new", "old"])
    _ = try await ledger.record(entry("anna", [evidence("2", time: 1)], receipt: "new"))
    #expect(try await Self.receipts(scratch) == ["new"])
    await ledger.close()
  }

  @Test func `who owned a purchase can be retraced`() async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    for user in ["anna", "ben", "ben", "anna"] {
      _ = try await ledger.record(entry(UserID(user), [evidence("1")], ownership: .transfer))
    }
    await ledger.close()
    let trace = try await DatabaseQueue(path: scratch.path).read { db in
      try String.fetchAll(
        db, sql: "SELECT coalesce(from_user_id, '-') || '>' || to_user_id FROM ownership_change ORDER BY sequence")
    }
    #expect(trace == ["->anna", "anna>ben", "ben>anna"])
  }

  private static func receipts(_ scratch: Scratch) async throws -> [String] {
    var configuration = Configuration()
    configuration.readonly = true
    return try await DatabaseQueue(path: scratch.path, configuration: configuration).read { db in
      try String.fetchAll(db, sql: "SELECT base64 FROM receipt ORDER BY base64")
    }
  }

  private static func filled() async throws -> Scratch {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    _ = try await ledger.record(entry("anna", [evidence("1")]))
    _ = try await ledger.record(entry("ben", []))
    _ = try await ledger.keepNote(
      Note(author: "desk", text: "asked by mail", requestID: "r", recordedAt: at(0)), about: "anna")
    _ = try await ledger.take(notification("n1", [part("9")]))
    try await ledger.noteRefused(RefusedNotification(problem: "signature", payload: "x", receivedAt: at(0)))
    await ledger.close()
    return scratch
  }
}
