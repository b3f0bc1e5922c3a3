import CSQLite
import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

/// A system that refuses to write (a file system mounted read-only, a quota) has not failed: nothing has reached the disk.
@Suite(.ofTheFile) struct RefusedWriteTests {
  @Test(arguments: [EROFS, EPERM, EACCES, EDQUOT])
  func `a refused write is trouble that passes`(errno: Int32) {
    let failure = LedgerFailure(SQLiteError(code: SQLITE_IOERR | 3 << 8), systemError: errno)
    #expect(failure.reach == .transaction)
    #expect(failure.sentence.contains("errno \(errno)"))
  }

  @Test(arguments: [0, EIO, ENXIO, ENODEV, EINVAL])
  func `a write that failed otherwise ends the process`(errno: Int32) {
    #expect(LedgerFailure(SQLiteError(code: SQLITE_IOERR | 3 << 8), systemError: errno).reach == .process)
  }

  /// SQLITE_IOERR_FSYNC, _READ, _TRUNCATE, _DIR_FSYNC, and the primary code.
  @Test(arguments: [4, 1, 6, 5, 0])
  func `a refusal by anything but a write ends the process`(kind: Int32) {
    for errno in [EROFS, EPERM, EDQUOT] {
      #expect(LedgerFailure(SQLiteError(code: SQLITE_IOERR | kind << 8), systemError: errno).reach == .process)
    }
  }

  #if DEBUG
    /// Through the whole stack: the log refuses what one record commits, and takes what the later ones do.
    @Test(arguments: [EROFS, EPERM, EDQUOT, EIO])
    func `after a refused write the next ones succeed, after a failed one none does`(errno: Int32) async throws {
      let scratch = try Scratch()
      await (try await scratch.open()).close()
      let output = try await Probe([scratch.path, "sequential", "20"], logFault: "write:15:\(errno)").finish()
      let acknowledged = output.filter { $0.hasPrefix("ack ") }
      if errno == EIO {
        #expect(output.count { $0 == "fatal" } == 1)
        #expect(output.contains("error failed"))
        #expect(!output.contains("error unavailable"))
        #expect(output.suffix(2).first == "error failed")
      } else {
        #expect(output.count { $0 == "error unavailable" } == 1, "\(output)")
        #expect(acknowledged.count == 19)
        let first = output.firstIndex(of: "error unavailable") ?? output.endIndex
        #expect(output[first...].contains { $0.hasPrefix("ack ") }, "what came after it succeeded: \(output)")
        #expect(!output.contains("fatal"))
      }
      let ledger = try await scratch.open()
      for line in acknowledged { #expect(try await ledger.profile(of: .init(String(line.dropFirst(4)))) != nil) }
      try await ledger.verifyIntegrity()
      await ledger.close()
    }
  #endif

  @Test func `where a record found no room, the check asks for as much as a record needs`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      // No page more than there are.
      try await ledger.engine.submit { tables in try tables.execute("PRAGMA max_page_count = 1") }
      try await ledger.check()
      let large = String(repeating: "A", count: 256 * 1024)
      await #expect(throws: LedgerError.self) {
        try await ledger.record(entry("ben", [evidence("2")], receipt: large))
      }
      // A heartbeat would have found room.
      for _ in 0..<3 { await #expect(throws: LedgerError.self) { try await ledger.check() } }
      try await ledger.engine.submit { tables in try tables.execute("PRAGMA max_page_count = 1000000") }
      try await ledger.check()
      try await ledger.check()
      _ = try await ledger.record(entry("ben", [evidence("2")], receipt: large))
      #expect(try await ledger.memo("room") == nil)
    }
  }

  #if DEBUG
    /// One read error at the start says nothing about what is on the disk.
    @Test func `a disk that cannot be read at the start is told apart from a damaged ledger`() async throws {
      let scratch = try Scratch()
      let ledger = try await scratch.open()
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      await ledger.close()
      for read in 1...2 {
        let probe = try await Probe([scratch.path, "sequential", "1"], logFault: "read:\(read):\(EIO)")
        #expect(try await probe.finish() == ["open diskFailed"])
      }
      let reopened = try await scratch.open()
      #expect(try await reopened.profile(of: "anna") != nil)
      await reopened.close()
    }
  #endif

  @Test func `the message about a failed disk does not advise restoring a backup over a whole ledger`() {
    let failed = LedgerOpenError.diskFailed(path: "/ledger", problem: "SQLite 266").description
    #expect(failed.contains("start again") && failed.contains("only if the ledger is then said to be corrupt"))
    #expect(!LedgerOpenError.damaged(path: "/ledger", problem: "SQLite 11").description.contains("start again"))
  }
}
