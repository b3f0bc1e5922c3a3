import CGatheringVFS
import Foundation
import LedgerFixtures
import SeededRandom
import TestSupport
import Testing

/// Nobody can tell a log whose writes were gathered from one that was written page by page: not another connection, and not
/// who finds the files after a kill.
@Suite(.ofTheFile, .computing) struct GatheringVFSTests {
  /// With a cache of ten pages, large transactions write to the log before they commit, read from there what they wrote,
  /// and write some of it anew. `OFF` and `NORMAL` commit without a sync, which would pass everything on.
  @Test(arguments: ["OFF", "NORMAL", "FULL"], [10, 2000])
  func `each commit is in the file when it returns`(synchronous: String, cachedPages: Int) throws {
    #expect(gathering_vfs_register() == 0)
    let scratch = try Scratch()
    let writer = try Self.open(scratch.path, synchronous: synchronous, cachedPages: cachedPages)
    let reader = try Self.open(scratch.path, synchronous: synchronous, cachedPages: cachedPages)
    try writer.transaction {
      try writer.run("CREATE TABLE item (id INTEGER PRIMARY KEY, value BLOB, number INTEGER)")
      try writer.run("CREATE INDEX number ON item (number)")
    }
    var random = SeededRandom(seed: 11)
    for turn in 0..<(SeededRandom.triesAll ? 90 : 45) {
      let changes = turn % 10 == 0 ? 1 : Int.random(in: 1...(turn % 3 == 0 ? 300 : 6), using: &random)
      let isKept = turn % 7 != 3
      let before = try Self.content(writer)
      try writer.run("BEGIN IMMEDIATE")
      for _ in 0..<changes { try Self.change(writer, using: &random) }
      // Reading passes on what was gathered, so every other commit has to do that itself.
      let during = turn % 2 == 0 ? try Self.content(writer) : nil
      try writer.run(isKept ? "COMMIT" : "ROLLBACK")
      let copied = try Self.contentOfCopy(scratch, turn)
      #expect(copied.integrity == "ok")
      #expect(try Self.content(reader) == copied)
      #expect(try Self.content(writer) == copied)
      #expect((copied == before) == !isKept)
      if isKept, let during { #expect(copied == during) }
      if turn % 40 == 39 { try writer.run("PRAGMA wal_checkpoint(RESTART)") }
    }
    #expect(writer.spilledPages > 0 || cachedPages > 10, "no transaction was larger than the cache")
    writer.close()
    reader.close()
  }

  /// As when somebody writes with the `sqlite3` program while the service runs. The ledger's writer spills nothing, either.
  @Test func `a rolled-back page is not written over another connection's commit`() throws {
    let scratch = try Scratch()
    let (writer, other) = try Self.rollBack(in: scratch, spills: false)
    #expect(try Self.content(writer) == Self.content(other))
    try Self.expectCommits(of: other, in: scratch)
    writer.close()
    other.close()
  }

  /// An upgrade spills, and gathers what it spills.
  @Test func `a rolled-back page is not written when the connection closes`() throws {
    let scratch = try Scratch()
    let (writer, other) = try Self.rollBack(in: scratch, spills: true)
    writer.close()
    try Self.expectCommits(of: other, in: scratch)
    other.close()
  }

  /// A connection whose transaction is larger than its cache and is rolled back, and another that commits after it.
  private static func rollBack(
    in scratch: Scratch, spills: Bool
  ) throws -> (writer: SQLiteFile, other: SQLiteFile) {
    #expect(gathering_vfs_register() == 0)
    let writer = try open(scratch.path, synchronous: "OFF", cachedPages: 10)
    let other = try open(scratch.path, synchronous: "OFF", cachedPages: 10)
    if !spills { try writer.run("PRAGMA cache_spill = OFF") }
    try writer.run("CREATE TABLE item (id INTEGER PRIMARY KEY, value BLOB, number INTEGER)")
    for id in 0..<100 { try writer.run("INSERT INTO item VALUES (?, zeroblob(3000), 0)", [.integer(Int64(id))]) }
    try writer.run("PRAGMA wal_checkpoint(RESTART)")
    try writer.run("BEGIN IMMEDIATE")
    try writer.run("UPDATE item SET number = 1 WHERE id BETWEEN 20 AND 59")
    try writer.run("ROLLBACK")
    try other.run("UPDATE item SET number = 2 WHERE id < 90")
    return (writer, other)
  }

  private static func expectCommits(of other: SQLiteFile, in scratch: Scratch) throws {
    let found = try content(other)
    #expect(found.integrity == "ok")
    #expect(try other.first("SELECT count(*) FROM item WHERE number = 2") == 90)
    #expect(try contentOfCopy(scratch, 0) == found)
  }

  private static func change(_ file: SQLiteFile, using random: inout SeededRandom) throws {
    try file.run(
      """
      INSERT INTO item VALUES (?, randomblob(?), ?)
      ON CONFLICT DO UPDATE SET value = excluded.value, number = excluded.number
      """,
      [
        .integer(Int64.random(in: 0..<500, using: &random)), .integer(Int64.random(in: 17...6000, using: &random)),
        .integer(Int64.random(in: 0..<1000, using: &random)),
      ])
  }

  private static func open(_ path: String, synchronous: String, cachedPages: Int) throws -> SQLiteFile {
    let file = try SQLiteFile(path)
    try file.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = \(synchronous); PRAGMA cache_size = \(cachedPages)")
    return file
  }

  private struct Content: Equatable {
    var integrity: String?
    var items: String?
  }

  private static func content(_ file: SQLiteFile) throws -> Content {
    Content(
      integrity: try file.first("PRAGMA integrity_check"),
      items: try file.first(
        """
        SELECT group_concat(line) FROM (
          SELECT id || ' ' || length(value) || ' ' || hex(substr(value, 1, 16)) || ' ' || number AS line
          FROM item ORDER BY id)
        """))
  }

  /// The content that a process would find that starts after this one was killed.
  private static func contentOfCopy(_ scratch: Scratch, _ turn: Int) throws -> Content {
    let copy = scratch.directory + "/copy-\(turn).sqlite"
    for suffix in ["", "-wal"] {
      try FileManager.default.copyItem(atPath: scratch.path + suffix, toPath: copy + suffix)
    }
    let file = try SQLiteFile(copy)
    defer {
      file.close()
      for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: copy + suffix) }
    }
    return try content(file)
  }
}
