import Entitlements
import Foundation
import LedgerFixtures
import TestSupport
import Ledger
import Testing

/// A statement that SQLite itself refuses, whoever writes: each is sent to the file of a closed ledger.
/// `LedgerVerification` checks the relations between rows.
struct Forbidden: Sendable, CustomTestStringConvertible {
  var name: String
  var sql: String
  var problem: String
  var testDescription: String { name }

  private static let purchase = """
    INSERT INTO purchase (environment, original_transaction_id, user_id, claim, proof_id, source, evidence_at, judged_at,
      account_gone, evidence, attempts) VALUES
    """
  private static let verdict = """
    INSERT INTO event (user_id, kind, recorded_at, request_id, version, changed, receipt_sha256, entitlement, note)
    VALUES
    """
  private static let change = """
    INSERT INTO event (user_id, kind, recorded_at, request_id, purchase_id, other_user_id) VALUES
    """
  private static let note = "INSERT INTO event (user_id, kind, recorded_at, request_id, author, text) VALUES"

  static let all: [Forbidden] = [
    .init(name: "text as a time", sql: "UPDATE account SET last_seen_at = 'soon'", problem: "cannot store TEXT"),
    .init(name: "an unknown status", sql: "UPDATE account SET status = 'paused'", problem: "CHECK"),
    .init(name: "version 0", sql: "UPDATE account SET version = 0", problem: "CHECK"),
    .init(name: "a version below 0", sql: "UPDATE account SET version = -1", problem: "CHECK"),
    .init(name: "a version without a verdict", sql: "UPDATE account SET verdict = NULL", problem: "CHECK"),
    .init(name: "a verdict without a tier", sql: "UPDATE account SET tier = NULL", problem: "CHECK"),
    .init(name: "a verdict without a status", sql: "UPDATE account SET status = NULL", problem: "CHECK"),
    .init(
      name: "an account twice",
      sql: """
        INSERT INTO account (key, version, newest, is_for_life, row_version, purchases, first_seen_at, last_seen_at)
        VALUES ('anna', 0, 1, 0, 0, '[]', 0, 0)
        """, problem: "UNIQUE"),
    .init(name: "an account without a name", sql: "UPDATE account SET key = ''", problem: "CHECK"),
    .init(name: "a second spelling that is none", sql: "UPDATE account SET spelling = key", problem: "CHECK"),
    .init(name: "an account in which nothing happened", sql: "UPDATE account SET newest = NULL", problem: "NOT NULL"),
    .init(name: "a row version below 0", sql: "UPDATE account SET row_version = -1", problem: "CHECK"),
    .init(name: "purchases that are not a list", sql: "UPDATE account SET purchases = '{}'", problem: "CHECK"),
    .init(
      name: "a verdict that is not JSON", sql: "\(verdict) ('anna', 'verdict', 0, '', 2, 0, zeroblob(32), '{', NULL)",
      problem: "CHECK"),
    .init(
      name: "no verdict", sql: "\(verdict) ('anna', 'verdict', 0, '', 2, 0, zeroblob(32), NULL, NULL)",
      problem: "CHECK"),
    .init(
      name: "a verdict of version 0", sql: "\(verdict) ('anna', 'verdict', 0, '', 0, 0, zeroblob(32), '{}', NULL)",
      problem: "CHECK"),
    .init(
      name: "a verdict whose receipt is no digest",
      sql: "\(verdict) ('anna', 'verdict', 0, '', 2, 0, x'00', '{}', NULL)", problem: "CHECK"),
    .init(
      name: "a verdict that may have changed something",
      sql: "\(verdict) ('anna', 'verdict', 0, '', 2, NULL, zeroblob(32), '{}', NULL)", problem: "CHECK"),
    .init(
      name: "a verdict of nobody", sql: "\(verdict) (NULL, 'verdict', 0, '', 1, 0, zeroblob(32), '{}', NULL)",
      problem: "CHECK"),
    .init(
      name: "a verdict on a note that comes later",
      sql: "\(verdict) ('anna', 'verdict', 0, '', 2, 0, zeroblob(32), '{}', 99)", problem: "CHECK"),
    .init(
      name: "a verdict at no time", sql: "\(verdict) ('anna', 'verdict', NULL, '', 2, 0, zeroblob(32), '{}', NULL)",
      problem: "NOT NULL"),
    .init(name: "an empty receipt", sql: "UPDATE proof SET content = x''", problem: "CHECK"),
    .init(name: "a short digest", sql: "UPDATE proof SET sha256 = x'00'", problem: "CHECK"),
    .init(name: "a receipt that nothing uses", sql: "UPDATE proof SET uses = 0", problem: "CHECK"),
    .init(name: "a receipt of a third store", sql: "UPDATE proof SET environment = 'xcode'", problem: "CHECK"),
    .init(name: "a receipt of no app", sql: "UPDATE proof SET bundle_id = ''", problem: "CHECK"),
    .init(
      name: "a second owner",
      sql: "\(purchase) ('production', '1', 'ben', 'proof', 1, 'signature', 0, 0, 0, '{}', 0)", problem: "UNIQUE"),
    .init(name: "an owner without a name", sql: "UPDATE purchase SET user_id = ''", problem: "CHECK"),
    .init(name: "no owner", sql: "UPDATE purchase SET user_id = NULL", problem: "NOT NULL"),
    .init(name: "no receipt", sql: "UPDATE purchase SET proof_id = NULL", problem: "NOT NULL"),
    .init(name: "a third store", sql: "UPDATE purchase SET environment = 'xcode'", problem: "CHECK"),
    .init(name: "an unknown source", sql: "UPDATE purchase SET source = 'hearsay'", problem: "CHECK"),
    .init(name: "evidence that is not JSON", sql: "UPDATE purchase SET evidence = '{'", problem: "CHECK"),
    .init(name: "history rewritten", sql: "UPDATE event SET changed = 0", problem: "append-only"),
    .init(name: "history removed", sql: "DELETE FROM event", problem: "append-only"),
    .init(
      name: "history replaced", sql: "INSERT OR REPLACE INTO event SELECT * FROM event", problem: "append-only"),
    .init(
      name: "a history that goes round in circles",
      sql: """
        INSERT INTO event (sequence, user_id, previous, kind, recorded_at, request_id, author, text)
        VALUES (99, 'anna', 99, 'note', 0, '', 'desk', 'x')
        """, problem: "CHECK"),
    .init(
      name: "an event of an unknown kind", sql: "\(change) ('anna', 'x', 0, '', NULL, NULL)", problem: "CHECK"),
    .init(
      name: "an ownership change rewritten", sql: "UPDATE event SET other_user_id = 'ben' WHERE kind = 'gained'",
      problem: "append-only"),
    .init(
      name: "an ownership change removed", sql: "DELETE FROM event WHERE kind = 'gained'", problem: "append-only"),
    .init(
      name: "an ownership change replaced",
      sql: "INSERT OR REPLACE INTO event SELECT * FROM event WHERE kind = 'gained'", problem: "append-only"),
    .init(name: "a purchase from oneself", sql: "\(change) ('anna', 'gained', 0, '', 1, 'anna')", problem: "CHECK"),
    .init(name: "a gain of nothing", sql: "\(change) ('anna', 'gained', 0, '', NULL, 'ben')", problem: "CHECK"),
    .init(name: "a loss to nobody", sql: "\(change) ('anna', 'lost', 0, '', 1, NULL)", problem: "CHECK"),
    .init(name: "a gain of nobody's", sql: "\(change) (NULL, 'gained', 0, '', 1, 'ben')", problem: "CHECK"),
    .init(name: "a gain by an empty name", sql: "\(change) ('', 'gained', 0, '', 1, 'ben')", problem: "CHECK"),
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
    .init(
      name: "a note rewritten", sql: "UPDATE event SET text = 'otherwise' WHERE kind = 'note'", problem: "append-only"),
    .init(name: "a note removed", sql: "DELETE FROM event WHERE kind = 'note'", problem: "append-only"),
    .init(
      name: "a note replaced", sql: "INSERT OR REPLACE INTO event SELECT * FROM event WHERE kind = 'note'",
      problem: "append-only"),
    .init(name: "a note of nobody's", sql: "\(note) ('anna', 'note', 0, '', '', 'y')", problem: "CHECK"),
    .init(name: "an empty note", sql: "\(note) ('anna', 'note', 0, '', 'desk', '')", problem: "CHECK"),
    .init(name: "a claim by hearsay", sql: "UPDATE purchase SET claim = 'hearsay'", problem: "CHECK"),
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
        INSERT INTO refused_notification (sha256, problem, payload, received_at, is_signed)
        SELECT sha256, 'x', 'x', 0, 0 FROM refused_notification
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
      sql: "INSERT INTO outbox SELECT * FROM outbox WHERE key = 'anna'", problem: "UNIQUE"),
    .init(name: "a row to be told of nobody", sql: "UPDATE outbox SET key = ''", problem: "CHECK"),
    .init(name: "a row in an unknown state", sql: "UPDATE outbox SET state = 'written'", problem: "CHECK"),
    .init(name: "a row of version 0", sql: "UPDATE outbox SET version = 0", problem: "CHECK"),
    .init(name: "doubts about a row", sql: "UPDATE outbox SET is_doubtful = 2", problem: "CHECK"),
    .init(name: "a row that waits since never", sql: "UPDATE outbox SET waiting_since = NULL", problem: "NOT NULL"),
    .init(name: "text as the time of a row", sql: "UPDATE outbox SET due_at = 'now'", problem: "cannot store TEXT"),
    .init(name: "a check that is due and not scheduled", sql: "UPDATE purchase SET due_at = 0", problem: "CHECK"),
    .init(
      name: "a check that is scheduled and never due", sql: "UPDATE purchase SET scheduled_at = 0", problem: "CHECK"),
    .init(name: "attempts below none", sql: "UPDATE purchase SET attempts = -1", problem: "CHECK"),
    .init(
      name: "fewer users with access than none", sql: "INSERT INTO access_count VALUES ('x', 'y', 0, -1)",
      problem: "CHECK"),
    .init(
      name: "users with access counted twice",
      sql: "INSERT INTO access_count VALUES ('x', 'y', 0, 1), ('x', 'y', 0, 1)", problem: "UNIQUE"),
    .init(name: "a second heartbeat", sql: "INSERT INTO heartbeat VALUES (2, 0)", problem: "CHECK"),
  ]
}

@Suite(.ofTheFile) struct SchemaTests {
  @Test(arguments: Forbidden.all)
  func `SQLite refuses rows that break the schema`(_ forbidden: Forbidden) async throws {
    let scratch = try await Self.filled()
    let file = try SQLiteFile(scratch.path)
    let error = try #require(throws: SQLiteFile.Failure.self) {
      try file.transaction { try file.run(forbidden.sql) }
    }
    #expect(error.isConstraint)
    #expect(error.message.contains(forbidden.problem), "\(error)")
  }

  @Test func `every table is strict`() async throws {
    let scratch = try await Self.filled()
    let loose = try SQLiteFile(scratch.path).all(
      """
      SELECT name FROM pragma_table_list
      WHERE schema = 'main' AND type = 'table' AND NOT strict AND name NOT LIKE 'sqlite_%'
      """, as: String.self)
    #expect(loose == [])
  }

  /// A change of these texts needs a migration: ledgers in the field hold the old ones.
  @Test func `evidence and verdict are written in this form`() async throws {
    let scratch = try await Self.filled()
    let file = try SQLiteFile(scratch.path)
    let rows: String? = try file.first("SELECT evidence FROM purchase")
    let verdict: String? = try file.first("SELECT entitlement FROM event WHERE kind = 'verdict' AND user_id = 'anna'")
    #expect(
      rows == """
        {"names":["com.example.app.pro.monthly"],"purchases":[[0,"t-1-1000.0",1749999900000,1750001000000,16]],\
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
      _ = try await ledger.record(entry("anna", [evidence("1", time: 100, evaluatedAt: 101)], rules: rules))
      _ = try await ledger.run(
        notification("n1", [part("1", reported: 200, renewal: RenewalInfo(autoRenews: false, periodEnd: at(1_000)))]))
      #expect(
        try await scratch.fetch("SELECT evidence FROM purchase") == [
          """
          {"names":["com.example.app.pro.monthly"],"parts":{"answeredAt":1750000101000,"since":1750000100000},\
          "purchases":[[0,"t-1-1000.0",1749999900000,1750001000000,16,null,null,null,null,null,null,1750000100000],\
          [0,"t1",1749999900000,1750001000000,0,null,null,null,null,null,null,1750000200000]],\
          "renewals":[{"autoRenews":false,"originalTransactionID":"1","periodEnd":1750001000000,"toldAt":1750000200000}]}
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
          entry(
            UserID(status.rawValue), [one],
            rules: StandInRules { user, evidence, given, now in
              var verdict = standIn(user, evidence, given, now)
              verdict.status = status
              return verdict
            }))
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
    #expect(try Self.receipts(scratch) == ["new", "old"])
    _ = try await ledger.record(entry("anna", [evidence("2", time: 1)], receipt: "new"))
    #expect(try Self.receipts(scratch) == ["new"])
    await ledger.close()
  }

  @Test func `the owners of a purchase can be retraced`() async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    for user in ["anna", "ben", "ben", "anna"] {
      _ = try await ledger.record(entry(UserID(user), [evidence("1")], ownership: .transfer))
    }
    await ledger.close()
    let trace = try SQLiteFile(scratch.path).all(
      "SELECT coalesce(other_user_id, '-') || '>' || user_id FROM event WHERE kind = 'gained' ORDER BY sequence",
      as: String.self)
    #expect(trace == ["->anna", "anna>ben", "ben>anna"])
  }

  /// One that two purchases came to have one after the other is stored for each.
  private static func receipts(_ scratch: Scratch) throws -> [String] {
    try SQLiteFile(scratch.path, isReadOnly: true).all("SELECT DISTINCT CAST(content AS TEXT) FROM proof ORDER BY 1")
  }

  private static func filled() async throws -> Scratch {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    _ = try await ledger.record(entry("anna", [evidence("1")]))
    _ = try await ledger.record(entry("ben", []))
    _ = try await ledger.keepNote(
      Note(author: "desk", text: "asked by mail", requestID: "r", recordedAt: clock(0)), about: "anna")
    _ = try await ledger.run(notification("n1", [part("9")]))
    try await ledger.noteRefused(RefusedNotification(problem: "signature", payload: "x", receivedAt: clock(0)))
    await ledger.close()
    return scratch
  }
}
