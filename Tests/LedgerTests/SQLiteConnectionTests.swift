import Dispatch
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

/// The connection itself, on a file of a test's own.
@Suite(.ofTheFile) struct SQLiteConnectionTests {
  private static func filled(_ path: String) throws -> SQLiteConnection {
    let connection = try SQLiteConnection(path: path)
    try connection.run(
      "CREATE TABLE item (id INTEGER PRIMARY KEY CHECK (id > 0), text TEXT NOT NULL UNIQUE, bytes BLOB) STRICT")
    return connection
  }

  private static func code(_ body: () throws -> Void) -> Int32? {
    #expect(throws: SQLiteError.self, performing: body)?.code
  }

  @Test func `a text is one statement, however often it is composed`() {
    let texts = [SQL.insert("item", "id, text"), SQL.insert("item", "id, text"), SQL.insert("item", "id")]
    #expect(texts[0].start == texts[1].start && texts[0].start != texts[2].start)
    #expect(
      texts.map(\.text) == [
        "INSERT INTO item (id, text) VALUES (?, ?) ", "INSERT INTO item (id, text) VALUES (?, ?) ",
        "INSERT INTO item (id) VALUES (?) ",
      ])
  }

  @Test func `the composed words set what the list of columns names`() {
    #expect(
      SQL.update("item", "text, bytes", "WHERE id = ?").text == "UPDATE item SET text = ?, bytes = ? WHERE id = ?")
    #expect(
      SQL.upsert("item", key: "id", first: "text", "bytes").text
        == "INSERT INTO item (id, text, bytes) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET bytes = excluded.bytes")
  }

  @Test func `an error has the extended code, and names no value`() throws {
    let connection = try Self.filled(":memory:")
    try connection.execute("INSERT INTO item VALUES (?, ?, NULL)", 1, "canary")
    let error = try #require(throws: SQLiteError.self) {
      try connection.execute("INSERT INTO item VALUES (?, ?, NULL)", 2, "canary")
    }
    #expect(error.code == 2067 && error.kind == .constraint)  // SQLITE_CONSTRAINT_UNIQUE
    #expect("\(error)" == "SQLite 2067: constraint failed")
    // Of a check, of syntax, of a name in quotation marks that is no column, and of a missing directory.
    #expect(Self.code { try connection.execute("INSERT INTO item VALUES (?, ?, NULL)", 0, "a") } == 275)
    #expect(Self.code { try connection.run("SELECT") } == 1)
    #expect(Self.code { try connection.run(#"INSERT INTO item VALUES (3, "text of no column", NULL)"#) } == 1)
    #expect(Self.code { _ = try SQLiteConnection(path: "/none/none") } == 14)
    #expect(Self.code { _ = try connection.statement(SQL("-- no statement")) } == 21)
    // The statement that failed works again.
    try connection.execute("INSERT INTO item VALUES (?, ?, NULL)", 2, "other")
    #expect(try connection.value(of: "SELECT count(*) FROM item") == 2)
  }

  @Test func `texts and bytes come back as they were`() throws {
    let connection = try Self.filled(":memory:")
    var values: [(text: String, bytes: [UInt8])] = [
      ("", []), ("a\u{1}b", [0, 0xFF, 0, 0xC3]), ("e\u{301} 👩‍👩‍👧", Array(repeating: 0xFE, count: 100_000)),
    ]
    // A statement keeps up to 512 bytes of values.
    values += [(300, 212), (300, 213), (511, 1), (512, 1), (513, 512)].enumerated().map { number, sizes in
      ("\(number)" + String(repeating: "x", count: sizes.0 - 1), Array(repeating: UInt8(number), count: sizes.1))
    }
    for (index, value) in values.enumerated() {
      try connection.execute("INSERT INTO item VALUES (?, ?, ?)", index + 1, value.text, value.bytes)
      #expect(connection.changes == 1 && connection.lastRow == index + 1)
    }
    let found = try connection.all("SELECT text, bytes FROM item ORDER BY id") { row in
      (text: try row.get(0, as: String.self), bytes: try row.get(1, as: [UInt8].self))
    }
    #expect(found.map { Array($0.text.utf8) } == values.map { Array($0.text.utf8) })
    #expect(found.map(\.bytes) == values.map(\.bytes))
    #expect(try connection.exists("SELECT 1 FROM item WHERE text = ?", "a\u{1}b"))
    #expect(try !connection.exists("SELECT 1 FROM item WHERE text = ?", "a"))
    // A value of another type is none, and no number is made of it.
    #expect(throws: StoredForm.Unstorable.self) { try connection.value(of: "SELECT '1'", as: Int.self) }
    #expect(throws: StoredForm.Unstorable.self) { try connection.value(of: "SELECT 1.5", as: Int.self) }
    #expect(throws: StoredForm.Unstorable.self) { try connection.value(of: "SELECT x'41'", as: String.self) }
  }

  @Test func `a statement is compiled once, and forgets its values`() throws {
    let connection = try Self.filled(":memory:")
    let first = try connection.statement(SQL("SELECT ?"))
    #expect(try first === connection.statement(SQL("SELECT ?")))
    for value in [7, 8] as [Int64] {
      try first.bind(value, at: 0)
      #expect(try first.step() && first.integer(0) == value && !first.step())
      first.reset()
    }
    #expect(try first.step() && first.isNull(0))
    let insertion: SQL = "INSERT INTO item (text) VALUES (?)"
    #expect(try connection.statement(insertion) === connection.statement(insertion))
    for text in ["a", "b"] { try connection.execute(insertion, text) }
    #expect(try connection.rows(of: "SELECT text FROM item ORDER BY id") { try $0.get(0) } == ["a", "b"])
  }

  @Test func `a locked database is busy, and then is not`() throws {
    let scratch = try Scratch()
    let (one, other) = (try Self.filled(scratch.path), try SQLiteConnection(path: scratch.path))
    try one.run("BEGIN IMMEDIATE")
    #expect(Self.code { try other.write {} } == 5)
    #expect(!other.isInTransaction)
    let patient = try SQLiteConnection(path: scratch.path, patience: .milliseconds(50))
    let begin = ContinuousClock.now
    #expect(Self.code { try patient.write {} } == 5)
    #expect(begin.duration(to: .now) >= .milliseconds(30))
    try one.rollBack()
    try other.write { try other.run("INSERT INTO item (text) VALUES ('a')") }
    #expect(try one.value(of: "SELECT count(*) FROM item") == 1)
  }

  @Test func `a transaction whose body fails is rolled back`() throws {
    struct Broken: Error {}
    let connection = try Self.filled(":memory:")
    #expect(throws: Broken.self) {
      try connection.write {
        try connection.run("INSERT INTO item (text) VALUES ('a')")
        throw Broken()
      }
    }
    #expect(try !connection.isInTransaction && connection.value(of: "SELECT count(*) FROM item") == 0)
  }

  @Test func `another thread interrupts a read, and the next one is not interrupted`() throws {
    let connection = try SQLiteConnection(path: ":memory:")
    let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    let error = try #require(throws: SQLiteError.self) {
      _ = try connection.rows(of: endless) { row in
        if try row.get(0, as: Int.self) == 10 { DispatchQueue.global().sync { connection.interrupt() } }
      }
    }
    #expect(error.kind == .interrupted)
    #expect(try connection.value(of: "SELECT 1") == 1)
  }

  @Test func `a closed connection does nothing, even for a statement that is held`() throws {
    let connection = try Self.filled(":memory:")
    let held = try connection.statement("SELECT count(*) FROM item")
    connection.close()
    connection.close()
    connection.interrupt()
    connection.countLog()
    #expect(Self.code { try connection.run("SELECT 1") } == 21)
    #expect(Self.code { _ = try connection.statement("SELECT count(*) FROM item") } == 21)
    #expect(Self.code { try connection.copyLog() } == 21)
    #expect(connection.changes == 0 && connection.lastRow == 0 && !connection.isInTransaction)
    #expect(connection.systemError == 0 && connection.logError == 0)
    #expect(try held.step())
  }

  /// Else the end of a process whose disk failed would copy pages that the disk may not have.
  @Test(arguments: [true, false]) func `the log stays where it is to be kept`(isKept: Bool) throws {
    let scratch = try Scratch()
    let connection = try Self.filled(scratch.path)
    try connection.run("PRAGMA journal_mode = WAL")
    if isKept { try connection.keepLog() }
    connection.countLog()
    try connection.run("INSERT INTO item (text) VALUES ('a')")
    #expect(connection.logPages > 0)
    connection.close()
    let size = try? FileManager.default.attributesOfItem(atPath: scratch.path + "-wal")[.size] as? Int
    #expect((size ?? 0 > 0) == isKept)
    let next = try SQLiteConnection(path: scratch.path, isReadOnly: true)
    #expect(try next.value(of: "SELECT text FROM item") == "a")
    #expect(Self.code { try next.run("DELETE FROM item") } == 8)
  }

  @Test func `a copy is of one moment, and a file that is none fails`() throws {
    let scratch = try Scratch()
    let source = try Self.filled(scratch.path)
    try source.run("INSERT INTO item (text) VALUES ('a'), ('b')")
    let copy = try SQLiteConnection(path: scratch.path + "-copy")
    try source.read { try source.copyPages(to: copy) }
    #expect(try copy.rows(of: "SELECT text FROM item ORDER BY id") { try $0.get(0) } == ["a", "b"])
    try Data(repeating: 0x20, count: 10_000).write(to: URL(filePath: scratch.path + "-none"))
    let none = try SQLiteConnection(path: scratch.path + "-none", isReadOnly: true)
    #expect(Self.code { try none.copyPages(to: copy) } == 26)
  }
}
