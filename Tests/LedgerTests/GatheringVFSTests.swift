import CGatheringVFS
import Foundation
import GRDB
import GRDBSQLite
import SeededRandom
import Testing

/// Nobody can tell a log whose writes were gathered from one that was written page by page: not another connection, and not
/// who finds the files after a kill.
@Suite(.ofTheFile) struct GatheringVFSTests {
  /// With a cache of ten pages, large transactions write to the log before they commit, read from there what they wrote,
  /// and write some of it anew. `OFF` and `NORMAL` commit without a sync, which would pass everything on.
  @Test(arguments: ["OFF", "NORMAL", "FULL"], [10, 2000])
  func `each commit is in the file when it returns`(synchronous: String, cachedPages: Int) throws {
    #expect(gathering_vfs_register() == SQLITE_OK)
    let scratch = try Scratch()
    let writer = try Self.open(scratch.path, synchronous: synchronous, cachedPages: cachedPages)
    let reader = try Self.open(scratch.path, synchronous: synchronous, cachedPages: cachedPages)
    try writer.write { db in
      try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, value BLOB, number INTEGER)")
      try db.execute(sql: "CREATE INDEX number ON item (number)")
    }
    var random = SeededRandom(seed: 11)
    for turn in 0..<90 {
      let changes = turn % 10 == 0 ? 1 : Int.random(in: 1...(turn % 3 == 0 ? 300 : 6), using: &random)
      let isKept = turn % 7 != 3
      let (before, during) = try writer.writeWithoutTransaction { db in
        let before = try Self.content(db)
        try db.beginTransaction(.immediate)
        for _ in 0..<changes { try Self.change(db, using: &random) }
        // Reading passes on what was gathered, so every other commit has to do that itself.
        let during = turn % 2 == 0 ? try Self.content(db) : nil
        if isKept { try db.commit() } else { try db.rollback() }
        return (before, during)
      }
      let copied = try Self.contentOfCopy(scratch, turn)
      #expect(copied.integrity == "ok")
      #expect(try reader.read(Self.content) == copied)
      #expect(try writer.read(Self.content) == copied)
      #expect((copied == before) == !isKept)
      if isKept, let during { #expect(copied == during) }
      if turn % 40 == 39 { try writer.writeWithoutTransaction { db in _ = try db.checkpoint(.restart) } }
    }
    #expect(try writer.read(Self.spills) > 0 || cachedPages > 10, "no transaction was larger than the cache")
    try writer.close()
    try reader.close()
  }

  /// As when somebody writes with the `sqlite3` program while the service runs. The ledger's writer spills nothing, either.
  @Test func `a rolled-back page is not written over another connection's commit`() throws {
    let scratch = try Scratch()
    let (writer, other) = try Self.rollBack(in: scratch, spills: false)
    #expect(try writer.read(Self.content) == other.read(Self.content))
    try Self.expectCommits(of: other, in: scratch)
    try writer.close()
    try other.close()
  }

  /// An upgrade spills, and gathers what it spills.
  @Test func `a rolled-back page is not written when the connection closes`() throws {
    let scratch = try Scratch()
    let (writer, other) = try Self.rollBack(in: scratch, spills: true)
    try writer.close()
    try Self.expectCommits(of: other, in: scratch)
    try other.close()
  }

  /// A connection whose transaction is larger than its cache and is rolled back, and another that commits after it.
  private static func rollBack(
    in scratch: Scratch, spills: Bool
  ) throws -> (writer: DatabaseQueue, other: DatabaseQueue) {
    #expect(gathering_vfs_register() == SQLITE_OK)
    let writer = try open(scratch.path, synchronous: "OFF", cachedPages: 10)
    let other = try open(scratch.path, synchronous: "OFF", cachedPages: 10)
    try writer.writeWithoutTransaction { db in
      if !spills { try db.execute(sql: "PRAGMA cache_spill = OFF") }
      try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, value BLOB, number INTEGER)")
      for id in 0..<100 { try db.execute(sql: "INSERT INTO item VALUES (?, zeroblob(3000), 0)", arguments: [id]) }
      _ = try db.checkpoint(.restart)
      try db.beginTransaction(.immediate)
      try db.execute(sql: "UPDATE item SET number = 1 WHERE id BETWEEN 20 AND 59")
      try db.rollback()
    }
    try other.write { db in try db.execute(sql: "UPDATE item SET number = 2 WHERE id < 90") }
    return (writer, other)
  }

  private static func expectCommits(of other: DatabaseQueue, in scratch: Scratch) throws {
    let found = try other.read(content)
    #expect(found.integrity == "ok")
    #expect(found.items.count { $0["number"] == 2 } == 90)
    #expect(try contentOfCopy(scratch, 0) == found)
  }

  private static func change(_ db: Database, using random: inout SeededRandom) throws {
    try db.execute(
      sql: """
        INSERT INTO item VALUES (?, randomblob(?), ?)
        ON CONFLICT DO UPDATE SET value = excluded.value, number = excluded.number
        """,
      arguments: [
        Int.random(in: 0..<500, using: &random), Int.random(in: 17...6000, using: &random),
        Int.random(in: 0..<1000, using: &random),
      ])
  }

  private static func open(_ path: String, synchronous: String, cachedPages: Int) throws -> DatabaseQueue {
    var configuration = Configuration()
    configuration.prepareDatabase { db in
      try db.execute(sql: "PRAGMA journal_mode = WAL")
      try db.execute(sql: "PRAGMA synchronous = \(synchronous)")
      try db.execute(sql: "PRAGMA cache_size = \(cachedPages)")
    }
    return try DatabaseQueue(path: path, configuration: configuration)
  }

  private struct Content: Equatable {
    var integrity: String?
    var items: [Row]
  }

  private static func content(_ db: Database) throws -> Content {
    Content(
      integrity: try String.fetchOne(db, sql: "PRAGMA integrity_check"),
      items: try Row.fetchAll(
        db, sql: "SELECT id, length(value), substr(hex(value), 1, 32), number FROM item ORDER BY id"))
  }

  /// What a process would find that starts after this one was killed.
  private static func contentOfCopy(_ scratch: Scratch, _ turn: Int) throws -> Content {
    let copy = scratch.directory + "/copy-\(turn).sqlite"
    for suffix in ["", "-wal"] {
      try FileManager.default.copyItem(atPath: scratch.path + suffix, toPath: copy + suffix)
    }
    let database = try DatabaseQueue(path: copy)
    defer {
      try? database.close()
      for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: copy + suffix) }
    }
    return try database.read(content)
  }

  private static func spills(_ db: Database) -> Int {
    var (count, highest): (Int32, Int32) = (0, 0)
    sqlite3_db_status(db.sqliteConnection, SQLITE_DBSTATUS_CACHE_SPILL, &count, &highest, 0)
    return Int(count)
  }
}
