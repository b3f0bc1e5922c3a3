import Entitlements
import Foundation
import LedgerFixtures
import Synchronization
import TestSupport
import Testing

@testable import Ledger

@Suite(.ofTheFile) struct OpeningTests {
  private let scratch: Scratch

  init() throws { scratch = try Scratch() }

  @Test func `records are there after closing and opening again`() async throws {
    let first = try await scratch.open()
    _ = try await first.record(entry("anna", [evidence("1")]))
    await first.close()
    let second = try await scratch.open()
    #expect(first.isNew && !second.isNew)
    #expect(try await second.profile(of: "anna")?.version == 1)
    try await second.verifyIntegrity()
    try await second.check()
    await second.close()
  }

  @Test func `after closing, the main file alone is the whole ledger`() async throws {
    let ledger = try await scratch.open()
    _ = try await ledger.record(entry("anna", [evidence("1")]))
    await ledger.close()
    let copy = try Scratch()
    try FileManager.default.copyItem(atPath: scratch.path, toPath: copy.path)
    let reopened = try await copy.open()
    #expect(try await reopened.profile(of: "anna")?.version == 1)
    await reopened.close()
  }

  @Test func `only the service's user can read the files`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      for suffix in ["", "-wal", "-shm", ".lock"] {
        let attributes = try FileManager.default.attributesOfItem(atPath: scratch.path + suffix)
        #expect(attributes[.posixPermissions] as? Int == 0o600, "ledger.sqlite\(suffix)")
      }
    }
  }

  @Test(arguments: [0o644, 0o640, 0o666])
  func `a ledger that others may read, as one that was restored, is theirs no more`(mode: Int) async throws {
    let first = try await scratch.open()
    #expect(first.exposures.isEmpty)
    await first.close()
    // After a crash there is a log, too.
    try Data().write(to: URL(fileURLWithPath: scratch.path + "-wal"))
    for suffix in ["", "-wal"] {
      try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: scratch.path + suffix)
    }
    let inspection = await LedgerInspection.inspect(path: scratch.path, within: .seconds(60))
    #expect(inspection.exposures.map(\.path) == [scratch.path, scratch.path + "-wal"])
    #expect(inspection.exposures.map(\.isToEverybody) == [mode != 0o640, mode != 0o640])
    let second = try await scratch.open()
    #expect(
      second.exposures
        == ["", "-wal"].map {
          LedgerExposure(path: scratch.path + $0, mode: UInt32(mode), isRepaired: true)
        })
    for suffix in ["", "-wal", "-shm"] {
      let attributes = try FileManager.default.attributesOfItem(atPath: scratch.path + suffix)
      #expect(attributes[.posixPermissions] as? Int == 0o600, "\(suffix)")
    }
    await second.close()
    #expect(await LedgerInspection.inspect(path: scratch.path, within: .seconds(60)).exposures.isEmpty)
  }

  @Test(arguments: [EACCES, EPERM]) func `a file of another user's names what gives the permission`(code: Int32) {
    let error = LedgerOpenError.inaccessible(path: "/l", problem: LedgerFile.problem(code))
    #expect(
      error.description
        == "The ledger /l cannot be opened: this service's user lacks the permission (chown or chmod gives it).")
  }

  @Test func `a second opening is refused until the first is closed`() async throws {
    let first = try await scratch.open()
    let link = scratch.directory + "/link.sqlite"
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: scratch.path)
    for path in [scratch.path, link] {
      await #expect { try await Self.open(path) } throws: { if case LedgerOpenError.inUse = $0 { true } else { false } }
    }
    await first.close()
    let second = try await scratch.open()
    await second.close()
  }

  /// A process that is just being started has one until it becomes its program.
  @Test func `a ledger that was closed is free, whoever has a copy of its lock's descriptor`() async throws {
    let ledger = try await scratch.open()
    let descriptor = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").first {
      (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == scratch.path + ".lock"
    }
    let copy = dup(try #require(descriptor.flatMap { Int32($0) }))
    defer { close(copy) }
    await ledger.close()
    #expect(await LedgerInspection.inspect(path: scratch.path, within: .seconds(60)).state != .inUse)
    await (try await scratch.open()).close()
  }

  @Test func `a file of something else is refused and left as it is`() async throws {
    let text = Data(String(repeating: "not a database. ", count: 100).utf8)
    try text.write(to: URL(fileURLWithPath: scratch.path))
    await Self.expect(.notALedger(path: scratch.path), from: scratch.path)
    #expect(try Data(contentsOf: URL(fileURLWithPath: scratch.path)) == text)
    #expect(!FileManager.default.fileExists(atPath: scratch.path + ".lock"))
  }

  @Test func `a directory is refused, and no lock is left beside it`() async throws {
    try FileManager.default.createDirectory(atPath: scratch.path, withIntermediateDirectories: true)
    await #expect(throws: LedgerOpenError.self) { try await Self.open(scratch.path) }
    #expect(!FileManager.default.fileExists(atPath: scratch.path + ".lock"))
  }

  @Test func `the database of another program is refused and left as it is`() async throws {
    let other = try SQLiteFile(scratch.path)
    try other.run("CREATE TABLE t (x)")
    other.close()
    let before = try Data(contentsOf: URL(fileURLWithPath: scratch.path))
    await Self.expect(.notALedger(path: scratch.path), from: scratch.path)
    #expect(try Data(contentsOf: URL(fileURLWithPath: scratch.path)) == before)
  }

  @Test func `a ledger of a newer version is refused`() async throws {
    await (try await scratch.open()).close()
    try await scratch.change("INSERT INTO ledger_migration VALUES ('9999 tomorrow')")
    await Self.expect(.newerSchema(path: scratch.path), from: scratch.path)
  }

  @Test func `a directory, a missing directory and a missing name are told apart`() async throws {
    for (path, hint) in [
      (scratch.directory, "directory"), (scratch.directory + "/none/ledger.sqlite", "create it"), ("", "names no file"),
    ] {
      let error = await #expect(throws: LedgerOpenError.self) { try await Self.open(path) }
      #expect(error?.description.contains(hint) == true, "\(String(describing: error))")
    }
  }

  @Test func `a damaged ledger is not opened`() async throws {
    let ledger = try await scratch.open()
    _ = try await ledger.record(entry("anna", [evidence("1")]))
    await ledger.close()
    let file = try FileHandle(forUpdating: URL(fileURLWithPath: scratch.path))
    try file.seek(toOffset: 100)
    try file.write(contentsOf: Data(repeating: 0xFF, count: 3_000))
    try file.close()
    await #expect { try await Self.open(scratch.path) } throws: {
      if case LedgerOpenError.damaged = $0 { true } else { false }
    }
  }

  @Test func `a connection that is not fully synchronous is refused`() throws {
    let connection = try SQLiteConnection(path: scratch.path)
    try connection.run("PRAGMA synchronous = NORMAL")
    #expect(throws: LedgerOpenError.self) { try SQLiteEngine.expect(connection, "synchronous", 2, path: "x") }
    try connection.run("PRAGMA synchronous = FULL")
    try SQLiteEngine.expect(connection, "synchronous", 2, path: "x")
  }

  @Test func `a closed ledger says so`() async throws {
    let ledger = try await scratch.open()
    await ledger.close()
    await ledger.close()
    await #expect(throws: LedgerError.closed) { _ = try await ledger.record(entry("anna", [])) }
    await #expect(throws: LedgerError.closed) { _ = try await ledger.profile(of: "anna") }
    await #expect(throws: LedgerError.closed) { try await ledger.check() }
  }

  @Test func `a ledger whose file was replaced gives up`() async throws {
    let reported = ReportedRow()
    let ledger = try await Ledger.open(path: scratch.path) { reported.say($0) }
    try await ledger.check()
    try FileManager.default.moveItem(atPath: scratch.path, toPath: scratch.path + ".old")
    for _ in 0..<2 {
      await #expect { try await ledger.check() } throws: { if case LedgerError.failed = $0 { true } else { false } }
    }
    await #expect(throws: LedgerError.self) { _ = try await ledger.record(entry("anna", [])) }
    #expect(reported.count == 1)
    await ledger.close()
  }

  @Test(arguments: ["", "-wal"])
  func `a record into a file that was removed is not acknowledged`(suffix: String) async throws {
    let reported = ReportedRow()
    let ledger = try await Ledger.open(path: scratch.path) { reported.say($0) }
    _ = try await ledger.record(entry("anna", [evidence("1")]))
    try FileManager.default.removeItem(atPath: scratch.path + suffix)
    await #expect { _ = try await ledger.record(entry("ben", [evidence("2")])) } throws: {
      if case LedgerError.failed = $0 { true } else { false }
    }
    #expect(reported.count == 1)
    await ledger.close()
  }

  /// An operator with the `sqlite3` shell, say: the lock file keeps only other services away.
  @Test func `while another program holds the file locked, records are unavailable, and then work again`() async throws
  {
    try await Scratch.withLedger { ledger, scratch in
      let other = try SQLiteFile(scratch.path)
      try other.run("BEGIN IMMEDIATE")
      let error = await #expect(throws: LedgerError.self) { _ = try await ledger.record(entry("anna", [])) }
      guard case .unavailable(let sentence) = error else {
        Issue.record("\(String(describing: error))")
        return
      }
      #expect(sentence.contains("locked"))
      try other.run("ROLLBACK")
      let recorded = try await ledger.record(entry("anna", [])).recorded
      #expect(recorded != nil)
      other.close()
    }
  }

  @Test func `an error names no user and no purchase`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let bad = LedgerEntry(
        user: "canary-user", evidence: [evidence("canary-id")], contestedKeys: [],
        receipt: KeptReceipt(base64: "canary-receipt", environment: .production, bundleID: ""),
        origin: .presented(.keep),
        evaluatedAt: at(0), recordedAt: clock(0), requestID: "canary-request", rules: standIn)
      let error = await #expect(throws: LedgerError.self) { _ = try await ledger.record(bad) }
      guard case .unusable(let sentence) = error else {
        Issue.record("\(String(describing: error))")
        return
      }
      #expect(!sentence.contains("canary"))
      #expect(sentence.contains("SQLite 275"))  // SQLITE_CONSTRAINT_CHECK
    }
  }

  private static func open(_ path: String) async throws -> Ledger {
    try await Ledger.open(path: path) { _ in }
  }

  private static func expect(_ expected: LedgerOpenError, from path: String) async {
    await #expect(throws: expected) { try await open(path) }
  }
}

/// Counts what `onFatal` was told.
final class ReportedRow: Sendable {
  private let messages = Mutex<[String]>([])
  var count: Int { messages.withLock { $0.count } }
  func say(_ message: String) { messages.withLock { $0.append(message) } }
}
