import Entitlements
import Foundation
import GRDB
import Testing

@testable import Ledger

/// A ledger as the previous version left it, opened by this one.
@Suite struct UpgradeTests {
  /// Rows written down by hand, as that version wrote them. Anna renews until 1000 s, Ben's purchase is for life, Cleo's is
  /// over, and a receipt of Dora's waits.
  private static func previous() async throws -> Scratch {
    let scratch = try Scratch()
    let file = try DatabaseQueue(path: scratch.path)
    try await file.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA journal_mode = WAL")
      try db.execute(sql: "PRAGMA application_id = \(LedgerFile.applicationID)")
    }
    try LedgerSchema.migrator.migrate(file, upTo: "0002 pending receipts")
    try await file.write { db in
      let users = [
        (
          "anna", 3, "pro", "active", Optional(milliseconds(1_000)),
          [milliseconds(1), milliseconds(3), milliseconds(2)]
        ),
        ("ben", 2, "premium", "active", nil, [nil, milliseconds(9)]),
        ("cleo", 1, "free", "expired", nil, [Int64?.none]),
      ]
      for (index, user) in users.enumerated() {
        let (name, version, tier, status, accessUntil, evidenceTimes) = user
        let verdict = """
          {"explanation":{"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,\
          "reason":"renewing","status":"\(status)","tier":"\(tier)"}
          """
        try db.execute(
          sql: "INSERT INTO profile VALUES (?, ?, ?, ?, ?, NULL, ?, ?)",
          arguments: [name, version, tier, status, accessUntil, verdict, milliseconds(Double(index))])
        for (line, evidenceAt) in evidenceTimes.enumerated() {
          try db.execute(
            sql: """
              INSERT INTO history
                (user_id, version, recorded_at, request_id, changed, entitlement, receipt_sha256, evidence_at)
              VALUES (?, ?, 0, 'r', 1, ?, zeroblob(32), ?)
              """, arguments: [name, line + 1, verdict, evidenceAt])
        }
        try db.execute(
          sql: "INSERT INTO receipt VALUES (?, randomblob(32), ?, 'production', 'com.example.app', 0, 0)",
          arguments: [index + 1, "receipt-of-\(name)"])
        try db.execute(
          sql: """
            INSERT INTO subscription VALUES ('production', ?, ?, ?, 'verify_receipt', ?, ?, 0,
              '{"purchases":[],"renewals":[]}')
            """, arguments: ["\(index + 1)", name, index + 1, milliseconds(3), milliseconds(3)])
      }
      try db.execute(
        sql: """
          INSERT INTO pending_receipt (user_id, sha256, base64, request_id, received_at, attempts, due_at)
          VALUES ('dora', randomblob(32), 'waits', 'r', ?, 2, ?)
          """, arguments: [milliseconds(5), milliseconds(9_999)])
    }
    try file.close()
    return scratch
  }

  @Test func `every user's row is told once, by a version above all before`() async throws {
    let scratch = try await Self.previous()
    defer { withExtendedLifetime(scratch) {} }
    let ledger = try await scratch.open()
    let due = try await ledger.claimUpdates(dueAt: at(0), until: at(30), limit: 10)
    #expect(due.map(\.user) == ["anna", "ben", "cleo"])
    #expect(due.map(\.version) == [milliseconds(3), milliseconds(9), 1])
    #expect(due.map(\.entitlement.tier) == ["pro", "premium", "free"])
    #expect(due.map(\.waitingSince) == [at(0), at(1), at(2)])
    for update in due {
      try await ledger.settleUpdate(of: update.user, version: update.version, isDoubtful: false, confirmingAt: nil)
    }
    #expect(try await ledger.backlog(at: at(0)).updates == 0)
    await ledger.close()
  }

  @Test func `the next verdict continues both numberings`() async throws {
    let scratch = try await Self.previous()
    defer { withExtendedLifetime(scratch) {} }
    let ledger = try await scratch.open()
    _ = try await ledger.record(entry("anna", [evidence("1", time: 3, expires: 50)]))
    #expect(try await ledger.profile(of: "anna")?.version == 4)
    #expect(try await ledger.waitingUpdate(of: "anna")?.version == milliseconds(3) + 1)
    #expect(try await ledger.wholeHistory(of: "anna").count == 4)
    await ledger.close()
  }

  @Test func `a subscription with an end is asked about then`() async throws {
    let scratch = try await Self.previous()
    defer { withExtendedLifetime(scratch) {} }
    let ledger = try await scratch.open()
    #expect(try await ledger.claimRechecks(dueAt: at(999), limit: 10).isEmpty)
    let claimed = try await ledger.claimRechecks(dueAt: at(1_000), limit: 10)
    #expect(claimed.map(\.key) == [key("1")])
    #expect(claimed.map(\.receipt.base64) == ["receipt-of-anna"])
    #expect(claimed.map(\.owner) == ["anna"])
    await ledger.close()
  }

  @Test func `a receipt that waited goes on waiting, and is due at once`() async throws {
    let scratch = try await Self.previous()
    defer { withExtendedLifetime(scratch) {} }
    let ledger = try await scratch.open()
    let waiting = try await ledger.pendingReceipts(dueAt: at(6), limit: 10)
    #expect(waiting.map(\.base64) == ["waits"])
    #expect(waiting.map(\.attempts) == [2])
    #expect(waiting.map(\.receivedAt) == [at(5)])
    #expect(try await ledger.endProvisional(reevaluated(at: 1e6)) == 0)
    await ledger.close()
  }

  @Test func `what was written before there were notes is told without any`() async throws {
    let scratch = try await Self.previous()
    defer { withExtendedLifetime(scratch) {} }
    let ledger = try await scratch.open()
    let page = try await ledger.timeline(of: "anna", before: nil, limit: 10)
    #expect(page.events.count == 3)
    #expect(page.next == nil)
    for event in page.events {
      guard case .verdict(_, _, let note) = event else {
        Issue.record("\(event)")
        continue
      }
      #expect(note == nil)
    }
    await ledger.close()
  }

  @Test func `the upgrade is made once, and the file is sound after it`() async throws {
    let scratch = try await Self.previous()
    let first = try await scratch.open()
    try await first.verifyIntegrity()
    let update = try #require(try await first.waitingUpdate(of: "anna"))
    try await first.settleUpdate(of: "anna", version: update.version, isDoubtful: false, confirmingAt: nil)
    await first.close()
    let second = try await scratch.open()
    #expect(try await second.waitingUpdate(of: "anna") == nil)
    #expect(try await second.wholeHistory(of: "anna").count == 3)
    try await second.verifyIntegrity()
    await second.close()
  }

  @Test func `what was recorded before there were notifications was presented, and told all`() async throws {
    let scratch = try Scratch()
    let file = try DatabaseQueue(path: scratch.path)
    try await file.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA application_id = \(LedgerFile.applicationID)")
    }
    try LedgerSchema.migrator.migrate(file, upTo: "0005 notes")
    let verdict = """
      {"explanation":{"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,\
      "reason":"renewing","status":"active","tier":"pro"}
      """
    // As that version wrote it.
    let rows = """
      {"purchases":[{"expiresDate":1750001000000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,\
      "originalTransactionID":"1","ownership":"purchased","productID":"com.example.app.pro.monthly",\
      "purchaseDate":1749999900000,"transactionID":"t-1-1000.0"}],\
      "renewals":[{"autoRenews":true,"originalTransactionID":"1"}]}
      """
    try await file.write { db in
      try db.execute(
        literal: """
          INSERT INTO profile VALUES ('anna', 1, 'pro', 'active', NULL, NULL, \(verdict), 0);
          INSERT INTO profile_update VALUES ('anna', 1, 'written', 0, 0, 0, 0, NULL, NULL);
          INSERT INTO receipt VALUES (1, zeroblob(32), 'kept', 'production', 'com.example.app', 0, 0);
          INSERT INTO subscription VALUES
            ('production', '1', 'anna', 1, 'verify_receipt', \(milliseconds(0)), \(milliseconds(0)), 0, \(rows));
          """)
    }
    try file.close()
    let ledger = try await scratch.open()
    #expect(try await ledger.profile(of: "anna")?.evidence == [evidence("1")])
    // It stays hers, and a notification is merged with it.
    #expect(try await ledger.record(posted("ben", [part("1")])).isRefused)
    #expect(
      try await ledger.take(notification("n1", [part("1", reported: 10, cancelled: 10)])).recorded?.user == "anna")
    let stored = try #require(try await ledger.profile(of: "anna")?.evidence.first)
    #expect(stored == evidence("1").merging(part("1", reported: 10, cancelled: 10)))
    #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["kept"])
    try await ledger.verifyIntegrity()
    await ledger.close()
  }

  @Test func `an empty ledger of the previous version is upgraded too`() async throws {
    let scratch = try Scratch()
    let file = try DatabaseQueue(path: scratch.path)
    try await file.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA application_id = \(LedgerFile.applicationID)")
    }
    try LedgerSchema.migrator.migrate(file, upTo: "0002 pending receipts")
    try file.close()
    let ledger = try await scratch.open()
    #expect(try await ledger.backlog(at: at(0)) == LedgerBacklog())
    _ = try await ledger.record(entry("anna", [evidence("1")]))
    #expect(try await ledger.backlog(at: at(0)).updates == 1)
    await ledger.close()
  }

  // MARK: The indexes of "0007 fewer trees"

  @Test func `a ledger with rows in every table keeps each row and each answer, with fewer indexes`() async throws {
    let scratch = try Scratch()
    let file = try DatabaseQueue(path: scratch.path)
    try await file.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA journal_mode = WAL")
      try db.execute(sql: "PRAGMA application_id = \(LedgerFile.applicationID)")
    }
    try LedgerSchema.migrator.migrate(file, upTo: "0006 notifications")
    try await file.write { db in try Self.fill(LedgerTables(db: db), db) }
    let (rows, answers) = try await file.write { db in (try Self.rows(db), try Self.answers(db)) }
    #expect(rows.filter { $0.value.isEmpty }.keys.sorted() == [])
    #expect(rows.count == 18)

    try LedgerSchema.migrator.migrate(file, upTo: "0007 fewer trees")
    let (rowsAfter, answersAfter) = try await file.write { db in (try Self.rows(db), try Self.answers(db)) }
    for (table, before) in rows where table != "grdb_migrations" {
      #expect(rowsAfter[table] == before, "\(table)")
    }
    #expect(rowsAfter.keys.sorted() == rows.keys.sorted())
    #expect(answersAfter == answers)
    let indexes = try await file.read { db in
      try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
    }
    for gone in [
      "profile_access_until", "history_user_id_sequence", "subscription_original_transaction_id",
      "profile_update_waiting_since", "profile_update_missing",
    ] {
      #expect(!indexes.contains(gone))
    }
    try file.close()

    let ledger = try await scratch.open()
    try await ledger.verifyIntegrity()
    #expect(try await scratch.fetch("SELECT is_signed FROM refused_notification") == [0])
    // "0008 pending total": what waits already is counted.
    #expect(try await scratch.fetch("SELECT bytes FROM pending_total", as: Int.self) == [5])
    _ = try await ledger.record(entry("cleo", [evidence("77")]))
    #expect(try await ledger.waitingUpdate(of: "cleo") != nil)
    await ledger.close()
  }

  /// By the present statements as far as they run on the schema of before too.
  private static func fill(_ tables: LedgerTables, _ db: Database) throws {
    func record(_ user: UserID, _ id: String, time: Double, _ ownership: OwnershipPolicy = .keep) throws {
      let answer = entry(
        user, [evidence(id, time: time, expires: time + 1_000)], receipt: "receipt-\(id)-\(time)", ownership: ownership,
        evaluate: rules
      ).with { $0.nextCheck = nextCheck }
      _ = try RecordOperation(prepared: PreparedEntry(answer), tables: tables).run()
    }
    for (number, user) in (["anna", "ben", "cleo", "dora", "emil"] as [UserID]).enumerated() {
      for time in 0..<4 { try record(user, "\(number)", time: Double(time * 10 + number)) }
    }
    try record("ben", "0", time: 100, .transfer)
    _ = try tables.keep(
      Note(author: "desk", text: "asked by mail", requestID: "r", recordedAt: at(1)), about: "anna")
    // One row in each state, one of them with a problem.
    for (user, state, due) in [("ben", "written", 0), ("cleo", "missing", 7), ("dora", "confirming", 5)] {
      try db.execute(literal: "UPDATE profile_update SET state = \(state), due_at = \(due) WHERE user_id = \(user)")
    }
    let version = try tables.waitingUpdate(of: "emil")?.version ?? 0
    try tables.retryUpdate(of: "emil", version: version, at: at(9), problem: "timeout", isDoubtful: true)
    // Whether there is room for it is asked of a table that came later.
    try db.execute(
      literal: """
        INSERT INTO pending_receipt (user_id, sha256, base64, request_id, received_at, attempts, due_at)
        VALUES ('fred', zeroblob(32), 'waits', 'r', 0, 0, 0)
        """)
    try tables.save(
      .init(evidence: signed("50"), owner: "fred", pending: db.lastInsertedRowID), until: milliseconds(100))
    _ = try NotificationOperation(entry: notification("n1", [part("60", reported: 9)]), tables: tables).run()
    try db.execute(
      sql: """
        INSERT INTO refused_notification (sha256, problem, payload, received_at)
        VALUES (randomblob(32), 'signature', 'x', 0)
        """)
    _ = try tables.recheckSoon("3", at: milliseconds(0))
    _ = try tables.claimRechecks(dueAt: at(1), limit: 10)
    _ = try tables.startRun(RunOrder(expiringWithin: .seconds(1_020), limit: 10), key: "k", at: at(0))
    try tables.keepMemo("name", "text")
  }

  /// Each table's rows as text, sorted.
  private static func rows(_ db: Database) throws -> [String: [String]] {
    let tables = try String.fetchAll(
      db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    var rows: [String: [String]] = [:]
    for table in tables {
      rows[table] = try Row.fetchAll(db, sql: "SELECT * FROM \(table)").map { "\($0)" }.sorted()
    }
    return rows
  }

  /// What the ledger says when asked, in words; nothing of it is kept.
  private static func answers(_ db: Database) throws -> [String] {
    var answers: [String] = []
    func ask(_ answer: Any) { answers.append("\(answer)") }
    try db.inSavepoint {
      let tables = LedgerTables(db: db)
      ask(try tables.backlog(at: at(10_000)))
      ask(try tables.backlog(at: at(0)))
      for user in ["anna", "ben", "cleo", "dora", "emil", "fred", "nobody"] as [UserID] {
        ask(try tables.profile(of: user) as Any)
        ask(try tables.waitingUpdate(of: user) as Any)
        for place in 0...30 {
          ask(try tables.history(of: user, before: Int64(place), limit: 3).map(\.sequence))
        }
        ask(try tables.history(of: user, before: nil, limit: 100))
        ask(try tables.timeline(of: user, before: nil, limit: 3))
        ask(try tables.timeline(of: user, before: nil, limit: 100))
        ask(try tables.knowledge(of: ReceiptDigest(of: "receipt-0-10.0"), for: user).wasEvaluated)
      }
      for id in ["0", "1", "3", "60", "99"] as [OriginalTransactionID] {
        ask(try tables.receipts(mentioning: id))
        ask(try tables.ownedPurchases(id))
        ask(try tables.recheckSoon(id, at: milliseconds(-1)))
      }
      ask(try tables.unscheduled(after: nil, limit: 10).map(\.evidence.key))
      ask(try tables.countDue(RunOrder(expiringWithin: .seconds(86_400), limit: 10), at: at(0)))
      ask(try tables.claimRechecks(dueAt: at(1e6), limit: 3))
      ask(try tables.claimUpdates(dueAt: at(1e6), until: at(2e6), limit: 10))
      ask(try tables.hasUpdates(dueAt: at(1e6)))
      try tables.release()
      ask(try tables.claimUpdates(dueAt: at(0), until: at(1), limit: 10))
      return .rollback
    }
    return answers
  }
}
