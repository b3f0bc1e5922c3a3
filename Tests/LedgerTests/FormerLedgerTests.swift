import Foundation
import GRDB
import Testing

@testable import Ledger

/// A ledger that the release before migration 0010 wrote, with rows in every table, and what that release answered when
/// asked about it.
///
/// `Former/ledger.sql` and `Former/answers.txt` were made by that release with `FormerAnswers`. They hold a user under two
/// spellings, purchases that changed hands, notes, signed transactions, receipts that wait, and updates in every state.
/// The answers about the user under two spellings were put right by hand: the upgrade unites the two.
@Suite(.ofTheFile) struct FormerLedgerTests {
  @Test func `an upgraded ledger answers each question as the former release did`() async throws {
    let scratch = try Self.former()
    let ledger = try await scratch.open()
    let answers = try await FormerAnswers.all(of: ledger)
    try await ledger.verifyIntegrity()
    await ledger.close()
    let expected = try Self.text("answers.txt").split(separator: "\n").map(String.init)
    #expect(answers.count == expected.count)
    for (answer, expected) in zip(answers, expected) { #expect(answer == expected) }
  }

  @Test func `an upgraded ledger agrees with itself, and with each line of the former one`() async throws {
    let scratch = try Self.former()
    let backup = scratch.path + "-before"
    _ = try await LedgerBackup.make(of: scratch.path, to: backup)
    await (try await scratch.open()).close()
    let verification = try await LedgerVerification.verify(path: scratch.path, against: backup)
    #expect(verification.findings == [])
    #expect(verification.users == 12)
    #expect(verification.compared > 40)
  }

  @Test(arguments: [
    (
      "UPDATE event SET entitlement = replace(entitlement, 'pro', 'premium') WHERE kind = 'verdict'",
      "is not of its verdict"
    ),
    ("DELETE FROM event WHERE kind = 'note'", "missing"),
    ("UPDATE account SET purchases = '[]' WHERE key = 'ben'", "listed by their owners"),
    ("UPDATE purchase SET user_id = 'cleo' WHERE original_transaction_id = '0'", "another user's"),
    ("UPDATE proof SET content = x'00' WHERE id = 1", "digest"),
    ("UPDATE proof SET uses = uses + 1 WHERE id = 1", "is not used by"),
    ("UPDATE outbox SET version = version + 1 WHERE key = 'anna'", "outbox"),
    ("UPDATE access_count SET users = users + 1", "counts"),
    ("UPDATE account SET version = version + 1 WHERE key = 'anna'", "version"),
  ])
  func `a row that does not agree is found`(tampering: String, finding: String) async throws {
    let scratch = try Self.former()
    let backup = scratch.path + "-before"
    _ = try await LedgerBackup.make(of: scratch.path, to: backup)
    await (try await scratch.open()).close()
    let file = try DatabaseQueue(path: scratch.path)
    try await file.write { db in
      for trigger in ["event_no_update", "event_no_delete"] { try db.execute(sql: "DROP TRIGGER \(trigger)") }
      try db.execute(sql: tampering)
    }
    try file.close()
    let verification = try await LedgerVerification.verify(path: scratch.path, against: backup)
    #expect(verification.findings.contains { $0.contains(finding) }, "\(verification.findings)")
  }

  static func former() throws -> Scratch {
    let scratch = try Scratch()
    let file = try DatabaseQueue(path: scratch.path)
    let sql = try text("ledger.sql")
    try file.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA foreign_keys = OFF")
      try db.execute(sql: sql)
      try db.execute(sql: "PRAGMA journal_mode = WAL")
    }
    try file.close()
    return scratch
  }

  private static func text(_ name: String) throws -> String {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Former/\(name)")
    return try String(contentsOf: file, encoding: .utf8)
  }
}
