import Entitlements
import Foundation
import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

/// A ledger that moves from its file to PostgreSQL, and back.
@Suite struct LedgerCopyTests {
  /// A file with something in most tables.
  private static func filled() async throws -> Scratch {
    let scratch = try Scratch()
    let ledger = try await Ledger.open(path: scratch.path) { _ in }
    for number in 0..<20 {
      let user = UserID(number.isMultiple(of: 3) ? UUID().uuidString : "u\(number)")
      _ = try await ledger.record(entry(user, [evidence("\(number)"), evidence("s\(number)", environment: .sandbox)]))
      _ = try await ledger.record(entry(user, [evidence("\(number)", time: 5, expires: 2_000)], receipt: "no base64!"))
    }
    var grant = evidence("w")
    grant.provisionalUntil = at(500)
    _ = try await ledger.run(
      Postpone(
        PendingReceipt(user: "waits", base64: "cmVj", requestID: "r", receivedAt: clock(0)), provisional: [grant],
        evaluationContext))
    _ = try await ledger.keepNote(
      Note(author: "desk", text: "Anna called: \u{1F44B} '; DROP", requestID: "n", recordedAt: clock(1)), about: "u1")
    try await ledger.keepMemo("rules", "{}")
    await ledger.close()
    return scratch
  }

  @Test func `everything is copied there and back, and the copy takes new records`() async throws {
    let (scratch, back) = try (await Self.filled(), Scratch())
    let url = try await TestEngine.newURL()
    let there = try await LedgerCopy.copy(from: .file(scratch.path), to: .database(url: url, connections: 1)) { _ in }
    #expect(there["purchase"] == 40 && there["event", default: 0] > 60 && there["pending_receipt"] == 1)
    #expect(try await LedgerVerification.verify(url: url).findings == [])

    let ledger = try await Ledger.open(url: url, connections: 2)
    #expect(try await ledger.profile(of: "u1")?.entitlement.expiresAt == at(2_000))
    // Numbers go on above those that were copied.
    #expect(try await ledger.record(entry("later", [evidence("later")])).recorded != nil)
    await ledger.close()
    #expect(try await LedgerVerification.verify(url: url).findings == [])

    let again = try await LedgerCopy.copy(from: .database(url: url, connections: 1), to: .file(back.path)) { _ in }
    #expect(again["purchase"] == 41)
    #expect(try await LedgerVerification.verify(path: back.path).findings == [])
    let file = try await Ledger.open(path: back.path) { _ in }
    #expect(try await file.profile(of: "later")?.entitlement.tier == "pro")
    await file.close()
  }

  @Test func `a copy that was broken off goes on, and one over another ledger is refused`() async throws {
    let scratch = try await Self.filled()
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    let place = LedgerPlace.database(url: server.url(of: database), connections: 1)
    // As by a kill: some tables are noted as copied, and the others are empty.
    await (try Ledger.open(at: place) { _ in }).close()
    try await server.run("ALTER TABLE pending_receipt ADD CONSTRAINT shut CHECK (id < 0)", on: database)
    await #expect(throws: LedgerCopy.Failure.self) {
      try await LedgerCopy.copy(from: .file(scratch.path), to: place) { _ in }
    }
    #expect(try await server.run("SELECT count(*) FROM memo WHERE name = 'copied'", on: database) == [["1"]])
    try await server.run("ALTER TABLE pending_receipt DROP CONSTRAINT shut", on: database)
    // The service was started meanwhile.
    let file = try SQLiteFile(scratch.path)
    try file.run("UPDATE account SET version = version + 1")
    let changed = await #expect(throws: LedgerCopy.Failure.self) {
      try await LedgerCopy.copy(from: .file(scratch.path), to: place) { _ in }
    }
    #expect(changed?.description.contains("has changed since") == true)
    try file.run("UPDATE account SET version = version - 1")
    _ = try await LedgerCopy.copy(from: .file(scratch.path), to: place) { _ in }
    #expect(try await server.run("SELECT count(*) FROM provisional_grant", on: database) == [["1"]])
    #expect(try await server.run("SELECT count(*) FROM memo WHERE name = 'copied'", on: database) == [["0"]])
    let error = await #expect(throws: LedgerCopy.Failure.self) {
      try await LedgerCopy.copy(from: .file(scratch.path), to: place) { _ in }
    }
    #expect(error?.description.contains("not empty") == true)
  }

  @Test func `a copy of a broken source ends with an error`() async throws {
    let (scratch, back) = try (await Self.filled(), Scratch())
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    let place = LedgerPlace.database(url: server.url(of: database), connections: 1)
    _ = try await LedgerCopy.copy(from: .file(scratch.path), to: place) { _ in }
    // Its rows can be counted, and not read.
    try await server.run("ALTER TABLE purchase RENAME COLUMN evidence TO elsewhere", on: database)
    await #expect(throws: LedgerCopy.Failure.self) {
      try await LedgerCopy.copy(from: place, to: .file(back.path)) { _ in }
    }
  }

  @Test func `a text with a zero in a file is copied without the zero`() async throws {
    let scratch = try await Self.filled()
    let file = try SQLiteFile(scratch.path)
    try file.run(
      """
      INSERT INTO refused_notification (sha256, problem, payload, received_at, is_signed)
        VALUES (zeroblob(32), 'not a JWS', 'a' || char(0) || 'b', 0, 0)
      """)
    file.close()
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    let place = LedgerPlace.database(url: server.url(of: database), connections: 1)
    _ = try await LedgerCopy.copy(from: .file(scratch.path), to: place) { _ in }
    #expect(try await server.run("SELECT payload FROM refused_notification", on: database) == [["a\u{FFFD}b"]])
  }

  @Test func `a row that cannot be copied is named, and no value of it`() async throws {
    let scratch = try await Self.filled()
    let file = try SQLiteFile(scratch.path)
    // Two names that are one without their zeros.
    try file.run(
      """
      INSERT INTO customer_attribute (key, name, value, updated_at)
        VALUES ('anna', 'a' || char(0), 'canary', 0), ('anna', 'a' || char(65533), 'canary', 0)
      """)
    file.close()
    let place = LedgerPlace.database(url: try await TestEngine.newURL(), connections: 1)
    let error = await #expect(throws: LedgerCopy.Failure.self) {
      try await LedgerCopy.copy(from: .file(scratch.path), to: place) { _ in }
    }
    let description = try #require(error?.description)
    #expect(description.contains("row 2 of customer_attribute, in the order of key, name: PostgreSQL 23505"))
    #expect(!description.contains("canary") && !description.contains("anna"))
  }

  @Test func `a ledger in use is not copied`() async throws {
    let scratch = try await Self.filled()
    let place = LedgerPlace.database(url: try await TestEngine.newURL(), connections: 1)
    let ledger = try await Ledger.open(path: scratch.path) { _ in }
    await #expect(throws: LedgerCopy.Failure.self) {
      try await LedgerCopy.copy(from: .file(scratch.path), to: place) { _ in }
    }
    await ledger.close()
  }
}

@Suite struct PostgreSQLTextTests {
  @Test(arguments: [
    ("SELECT a FROM t WHERE b = ? AND c = ?", "SELECT a FROM t WHERE b = $1 AND c = $2"),
    ("SELECT '?' FROM t WHERE b = ?", "SELECT '?' FROM t WHERE b = $1"),
    ("SELECT a FROM t LIMIT ? /*pg: FOR UPDATE SKIP LOCKED */", "SELECT a FROM t LIMIT $1  FOR UPDATE SKIP LOCKED "),
  ])
  func `a statement is translated for PostgreSQL`(sql: String, expected: String) {
    #expect(PostgreSQLConnection.translated(sql) == expected)
  }

  @Test func `a table is translated for PostgreSQL`() throws {
    let sql = """
      CREATE TABLE thing (
        id INTEGER NOT NULL PRIMARY KEY,  -- a comment
        name TEXT NOT NULL CHECK (name <> ''),
        evidence TEXT NOT NULL CHECK (json_valid(evidence)),
        content BLOB NOT NULL
      ) STRICT
      """
    #expect(
      try PostgreSQLSchema.table(sql) == """
        CREATE TABLE thing (
          id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,  \("")
          name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
          evidence TEXT COLLATE "C" NOT NULL ,
          content BYTEA NOT NULL
        )
        """)
  }

  @Test func `no statement has words of one engine alone`() throws {
    let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources")
    var files = 0
    for target in ["Ledger", "Figures"] {
      let folder = sources.appending(path: target).path(percentEncoded: false)
      let paths = try #require(FileManager.default.enumerator(atPath: folder)).compactMap { $0 as? String }
      // The schema is SQLite's, and is translated.
      for path in paths where path.hasSuffix(".swift") && !path.hasPrefix("Schema/") {
        let text = try String(contentsOfFile: folder + "/" + path, encoding: .utf8)
        for word in ["iif(", "instr(", "UPDATE OR", "INSERT OR", "json_extract", "ifnull("] {
          #expect(!text.contains(word), "\(target)/\(path) has \(word)")
        }
        files += 1
      }
    }
    #expect(files > 100)
  }
}
