import Entitlements
import Foundation
import GRDB
import Synchronization
import Testing

@testable import Ledger

/// A ledger as the previous version left it, opened by this one.
@Suite(.ofTheFile) struct UpgradeTests {
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

  @Test func `entries from before there were notes are told without any`() async throws {
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

  @Test func `records from before there were notifications count as presented, and as whole answers`() async throws {
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

  @Test func `a ledger with rows in every table keeps each row, with fewer indexes`() async throws {
    let former = try FormerLedger(upTo: "0006 notifications")
    let file = former.file
    for (number, user) in ["anna", "ben", "cleo", "dora"].enumerated() {
      try former.record(user, evidence("\(number)"), at: Double(number))
    }
    let asked = try former.note("asked by mail", about: "anna", at: 5)
    try former.record("ben", evidence("0"), from: "anna", at: 6, note: asked)
    try await file.write { db in try db.execute(sql: Self.rest) }
    let rows = try await file.read(Self.rows)
    #expect(rows.filter { $0.value.isEmpty }.keys.sorted() == [])
    #expect(rows.count == 18)

    try LedgerSchema.migrator.migrate(file, upTo: "0007 fewer trees")
    let rowsAfter = try await file.read(Self.rows)
    for (table, before) in rows where table != "grdb_migrations" {
      #expect(rowsAfter[table] == before, "\(table)")
    }
    #expect(rowsAfter.keys.sorted() == rows.keys.sorted())
    let indexes = try await file.read { db in
      try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
    }
    for gone in [
      "profile_access_until", "history_user_id_sequence", "subscription_original_transaction_id",
      "profile_update_waiting_since", "profile_update_missing",
    ] {
      #expect(!indexes.contains(gone))
    }

    let ledger = try await former.open()
    try await ledger.verifyIntegrity()
    let scratch = former.scratch
    #expect(try await scratch.fetch("SELECT is_signed FROM refused_notification") == [0])
    // "0008 pending total": what waits already is counted.
    #expect(try await scratch.fetch("SELECT bytes FROM pending_total", as: Int.self) == [5])
    #expect(try await ledger.keys(of: "ben") == [key("0"), key("1")])
    _ = try await ledger.record(entry("cleo", [evidence("77")]))
    #expect(try await ledger.waitingUpdate(of: "cleo") != nil)
    await ledger.close()
  }

  /// A row of each table that a record does not fill, and an update in each state.
  private static let rest = """
    UPDATE profile_update SET state = 'written' WHERE user_id = 'ben';
    UPDATE profile_update SET state = 'missing', due_at = 7 WHERE user_id = 'cleo';
    UPDATE profile_update SET state = 'confirming', due_at = 5, problem = 'timeout', problem_at = 5 WHERE user_id = 'dora';
    INSERT INTO recheck SELECT environment, original_transaction_id, 1000, 1030, 2 FROM subscription;
    INSERT INTO pending_receipt (id, user_id, sha256, base64, request_id, received_at, attempts, due_at)
      VALUES (1, 'fred', zeroblob(32), 'waits', 'r', 0, 0, 0);
    INSERT INTO provisional_grant
      VALUES ('production', '50', 'fred', 1, 'signature', 0, 0, 9, 0, '{"purchases":[],"renewals":[]}');
    INSERT INTO notification (uuid, received_at, outcome) VALUES ('n1', 0, 'noted');
    INSERT INTO refused_notification (sha256, problem, payload, received_at) VALUES (randomblob(32), 'signature', 'x', 0);
    INSERT INTO unclaimed_evidence (environment, original_transaction_id, source, evidence_at, judged_at, evidence,
        first_seen_at, last_seen_at)
      VALUES ('sandbox', '60', 'notification', 0, 0, '{"parts":{},"purchases":[],"renewals":[]}', 0, 0);
    INSERT INTO run (id, expiring_within, horizon, item_limit, state, started_at, due, done, changed, failed, held_back)
      VALUES (1, 0, 0, 1, 'running', 0, 1, 0, 0, 0, 0);
    INSERT INTO run_item (run_id, environment, original_transaction_id, attempts, due_at) VALUES (1, 'production', '3', 0, 0);
    INSERT INTO memo VALUES ('name', 'text');
    """

  // MARK: "0010 lean"

  /// A kill or a power cut leaves whole steps.
  @Test(arguments: [1, 2, 5])
  func `an upgrade that was cut off anywhere goes on to the same end`(batch: Int) async throws {
    let whole = try FormerLedgerTests.former()
    await (try await whole.open()).close()
    let expected = try await DatabaseQueue(path: whole.path).read(Self.rows)
    var steps = 0
    var isDone = false
    while !isDone {
      let scratch = try FormerLedgerTests.former()
      let file = try DatabaseQueue(path: scratch.path)
      try LedgerSchema.migrator.migrate(file)
      steps += 1
      for _ in 0..<steps where !isDone {
        isDone = try await file.write { db in
          try LedgerUpgrade(tables: LedgerTables(db: db), batch: batch).step().isLast
        }
      }
      try file.close()
      await (try await scratch.open()).close()
      let end = try await DatabaseQueue(path: scratch.path).read(Self.rows)
      #expect(end.keys.sorted() == expected.keys.sorted())
      for (table, rows) in expected { #expect(end[table] == rows, "\(table) after \(steps) steps") }
      #expect(try await scratch.verify().findings == [])
    }
    #expect(steps > 5)
  }

  @Test func `how far an upgrade has got is reported`() async throws {
    let former = try FormerLedger()
    for number in 0..<1_200 { try former.record("u\(number)", evidence("\(number)"), at: 1) }
    try former.file.close()
    let reported = Mutex<[LedgerUpgrade.Progress]>([])
    let ledger = try await Ledger.open(
      path: former.scratch.path, onFatal: { Issue.record("\($0)") },
      onUpgrade: { progress in reported.withLock { $0.append(progress) } })
    let users = reported.withLock { $0 }.map(\.users)
    #expect(users == users.sorted() && Set(users).isSuperset(of: [0, 500, 1_000, 1_200]))
    #expect(reported.withLock { $0.allSatisfy { $0.total == 1_200 } })
    #expect(try await ledger.accessGiven() == [AccessCount(tier: "pro", product: pro, users: 1_200)])
    await ledger.close()
    let findings = try await LedgerVerification.verify(path: former.scratch.path).findings
    // The receipts are made up, and so are their digests.
    #expect(findings.filter { !$0.contains("digest") } == [])
  }

  @Test func `a note on one user that changed another's verdict is told to both`() async throws {
    for (asked, other) in [("anna", "ben"), ("ben", "anna")] {
      let former = try FormerLedger()
      try former.record(other, evidence("1"), at: 1)
      let note = try former.note("look again", about: asked, at: 2)
      try former.record(asked, evidence("1"), from: other, at: 3, note: note)
      let ledger = try await former.open()
      #expect(
        try await Self.story(of: UserID(asked), in: ledger) == [
          "verdict (look again)", "\(other)>\(asked) (look again)", "look again",
        ])
      #expect(
        try await Self.story(of: UserID(other), in: ledger) == [
          "verdict (look again)", "\(other)>\(asked) (look again)", "verdict", "->\(other)",
        ])
      await ledger.close()
      let findings = try await LedgerVerification.verify(path: former.scratch.path).findings
      // The receipts are made up, and so are their digests.
      #expect(findings.filter { !$0.contains("digest") } == [])
    }
  }

  @Test func `whatever was written under any spelling of a user is theirs`() async throws {
    let small = UserNameTests.small
    let capitals = UserNameTests.capitals
    let mixed = small.replacing("f", with: "F")
    let former = try FormerLedger()
    _ = try former.note("zero", about: capitals, at: 0)
    try former.record(mixed, evidence("1"), at: 1)
    try former.record(capitals, evidence("2"), at: 2)
    try former.record(small, evidence("1"), from: mixed, at: 3)
    _ = try former.note("four", about: small, at: 4)
    _ = try former.note("five", about: mixed, at: 5)
    let ledger = try await former.open()
    for name in [small, capitals, mixed] {
      #expect(try await ledger.keys(of: UserID(name)) == [key("1"), key("2")])
      let story = try await Self.story(of: UserID(name), in: ledger)
      // With the verdict that goes on, once more on top.
      #expect(story.filter { $0.hasPrefix("verdict") }.count == 5)
      #expect(story.count == 11, "\(story)")
      #expect(Set(story).isSuperset(of: ["zero", "four", "five"]))
      #expect(try await ledger.waitingUpdate(of: UserID(name))?.user.rawValue == small)
    }
    await ledger.close()
    let findings = try await LedgerVerification.verify(path: former.scratch.path).findings
    // The receipts are made up, and so are their digests.
    #expect(findings.filter { !$0.contains("digest") } == [])
    #expect(try await former.scratch.fetch("SELECT count(*) FROM account") == [1])
  }

  @Test func `a note about nobody, or about a user without a verdict, is kept`() async throws {
    let former = try FormerLedger()
    _ = try former.note("who is this?", about: "nobody", at: 1)
    _ = try former.note("loose", about: nil, at: 2)
    _ = try former.note("again", about: "nobody", at: 3)
    let ledger = try await former.open()
    #expect(try await Self.story(of: "nobody", in: ledger) == ["again", "who is this?"])
    #expect(try await ledger.profile(of: "nobody") == nil)
    #expect(try await ledger.isKnown("nobody"))
    #expect(try await former.scratch.fetch("SELECT text FROM event WHERE user_id IS NULL") == ["loose"])
    #expect(
      try await former.scratch.fetch("SELECT first_seen_at || ' ' || last_seen_at FROM account")
        == ["\(milliseconds(1)) \(milliseconds(3))"])
    await ledger.close()
  }

  /// A hint of Apple's had a claimed check due at once, and counted its claims anew.
  @Test func `a check that was due long after its time is among the overdue`() async throws {
    let former = try FormerLedger()
    try former.record("anna", evidence("1", expires: 100), at: 1)
    try await former.file.write { db in
      try db.execute(
        sql: "INSERT INTO recheck VALUES ('production', '1', ?, ?, 0)",
        arguments: [milliseconds(100), milliseconds(900)])
    }
    let ledger = try await former.open()
    #expect(try await ledger.usersOverdue(since: at(200), limit: 9) == ["anna"])
    #expect(try await ledger.countDue(RunOrder(expiringWithin: .seconds(9), limit: 9), at: at(200)) == 1)
    #expect(try await ledger.claimRechecks(dueAt: at(100), limit: 9).count == 1)
    await ledger.close()
  }

  @Test func `a verdict or evidence that cannot be read concerns its user alone`() async throws {
    let former = try FormerLedger()
    for user in ["anna", "ben", "cleo"] { try former.record(user, evidence("of \(user)"), at: 1) }
    try await former.file.write { db in
      try db.execute(
        sql: """
          UPDATE profile SET entitlement = '{}' WHERE user_id = 'anna';
          UPDATE subscription SET evidence = '{}' WHERE user_id = 'ben';
          """)
    }
    let ledger = try await former.open()
    for user in ["anna", "ben"] as [UserID] {
      await #expect(throws: LedgerError.self) { try await ledger.profile(of: user) }
    }
    #expect(try await ledger.profile(of: "cleo")?.evidence == [evidence("of cleo")])
    #expect(try await former.scratch.fetch("SELECT evidence FROM purchase WHERE user_id = 'ben'") == ["{}"])
    await ledger.close()
  }

  private static func story(of user: UserID, in ledger: Ledger) async throws -> [String] {
    func because(_ note: Note?) -> String { note.map { " (\($0.text))" } ?? "" }
    return try await ledger.timeline(of: user, before: nil, limit: 100).events.map { event in
      switch event {
      case .verdict(_, _, let note): "verdict" + because(note)
      case .ownership(let change): "\(change.from?.rawValue ?? "-")>\(change.to)" + because(change.note)
      case .inquiry(let note): note.text
      case .removed(let stretch): "\(stretch.events) removed"
      }
    }
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
}
