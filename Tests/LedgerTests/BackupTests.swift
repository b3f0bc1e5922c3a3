import Entitlements
import Foundation
import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

/// A copy of the ledger, made beside the service.
@Suite(.ofTheFile) struct BackupTests {
  private static func mode(_ path: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
  }

  private static func names(_ scratch: Scratch) throws -> Set<String> {
    Set(try FileManager.default.contentsOfDirectory(atPath: scratch.directory))
  }

  @Test func `a copy is the ledger of one moment, while it is open and written to`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      let copy = try Scratch()
      let backup = try await LedgerBackup.make(of: scratch.path, to: copy.path)
      #expect(backup.file == copy.path)
      #expect(backup.users == 1)
      #expect(backup.newestEntry != nil)
      #expect(backup.bytes == (try FileManager.default.attributesOfItem(atPath: copy.path)[.size] as? Int64))
      #expect(try Self.mode(copy.path) == 0o600)
      // Nothing lies beside it, and the ledger goes on.
      #expect(try Self.names(copy) == ["ledger.sqlite"])
      _ = try await ledger.record(entry("ben", [evidence("2")]))

      let restored = try await copy.open()
      #expect(try await restored.profile(of: "anna")?.version == 1)
      #expect(try await restored.profile(of: "ben") == nil)
      try await restored.verifyIntegrity()
      await restored.close()
    }
  }

  @Test func `a record made meanwhile is in the copy whole or not at all`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for number in 0..<20 { _ = try await ledger.record(entry(UserID("before-\(number)"), [evidence("b\(number)")])) }
      let copies = try await withThrowingTaskGroup(of: Scratch?.self) { group in
        for number in 0..<100 {
          group.addTask {
            _ = try await ledger.record(entry(UserID("user-\(number)"), [evidence("u\(number)")]))
            return nil
          }
        }
        for _ in 0..<3 {
          group.addTask {
            let copy = try Scratch()
            _ = try await LedgerBackup.make(of: scratch.path, to: copy.path)
            return copy
          }
        }
        return try await group.reduce(into: [Scratch]()) { copies, copy in if let copy { copies.append(copy) } }
      }
      #expect(copies.count == 3)
      for copy in copies {
        let file = try SQLiteFile(copy.path)
        let users = try file.first("SELECT count(*) FROM account", as: Int.self) ?? 0
        #expect(try users >= 20 && users == file.first("SELECT count(*) FROM event WHERE kind = 'verdict'"))
        file.close()
        let restored = try await copy.open()
        try await restored.verifyIntegrity()
        await restored.close()
      }
    }
  }

  @Test func `a ledger that nobody has open is copied too`() async throws {
    let scratch = try Scratch()
    await (try await scratch.open()).close()
    let backup = try await LedgerBackup.make(of: scratch.path, to: scratch.directory + "/copy")
    #expect(backup.users == 0)
    #expect(backup.newestEntry == nil)
    let reopened = try await scratch.open()
    await reopened.close()
  }

  @Test func `a file that is there is not touched, and neither is what a link leads to`() async throws {
    try await Scratch.withLedger { _, scratch in
      let file = scratch.directory + "/copy"
      try "precious".write(toFile: file, atomically: false, encoding: .utf8)
      let link = scratch.directory + "/link"
      try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: scratch.directory + "/nowhere")
      for path in [file, link, scratch.path] {
        let failure = await #expect(throws: LedgerBackup.Failure.self) {
          try await LedgerBackup.make(of: scratch.path, to: path)
        }
        #expect(failure?.description.contains("was not touched") == true, "\(String(describing: failure))")
      }
      #expect(try String(contentsOfFile: file, encoding: .utf8) == "precious")
      #expect(try !Self.names(scratch).contains { $0.hasSuffix(".partial") || $0 == "nowhere" })
    }
  }

  @Test func `a copy that was cut off is begun anew, one that is under way is left alone`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      let file = scratch.directory + "/copy"
      try Data(repeating: 7, count: 100_000).write(to: URL(filePath: file + ".partial"))
      let descriptor = Glibc.open(file + ".partial", O_RDWR | O_CLOEXEC)
      #expect(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
      let failure = await #expect(throws: LedgerBackup.Failure.self) {
        try await LedgerBackup.make(of: scratch.path, to: file)
      }
      #expect(failure?.description.contains("under way") == true, "\(String(describing: failure))")
      #expect(try Data(contentsOf: URL(filePath: file + ".partial")).count == 100_000)
      #expect(flock(descriptor, LOCK_UN) == 0 && close(descriptor) == 0)

      #expect(try await LedgerBackup.make(of: scratch.path, to: file).users == 1)
      #expect(try Self.mode(file) == 0o600)
      #expect(try !Self.names(scratch).contains("copy.partial"))
    }
  }

  @Test func `a file that is no ledger, is damaged or newer is not copied`() async throws {
    let damaged = try Scratch()
    await (try await damaged.open()).close()
    // Every page but the first two.
    var bytes = try Data(contentsOf: URL(filePath: damaged.path))
    bytes.replaceSubrange(8_192..<bytes.count, with: Data(repeating: 0xa5, count: bytes.count - 8_192))
    try bytes.write(to: URL(filePath: damaged.path))
    let newer = try Scratch()
    await (try await newer.open()).close()
    try await newer.change("INSERT INTO ledger_migration VALUES ('9999 tomorrow')")
    let other = try Scratch()
    try Data(repeating: 0x20, count: 10_000).write(to: URL(filePath: other.path))
    let absent = try Scratch()

    for (scratch, hint) in [
      (damaged, "restore a backup"), (newer, "newer version"), (other, "is not a Countersign ledger"),
      (absent, "there is no such file"),
    ] {
      let copy = scratch.directory + "/copy"
      let failure = await #expect(throws: LedgerBackup.Failure.self) {
        try await LedgerBackup.make(of: scratch.path, to: copy)
      }
      #expect(failure?.description.contains(hint) == true, "\(String(describing: failure))")
      #expect(try !Self.names(scratch).contains { $0.hasPrefix("copy") })
    }
    // A verification, of the ledger or against a backup, has the same sentence.
    let sound = try Scratch()
    await (try await sound.open()).close()
    for (path, former) in [(absent.path, nil), (sound.path, absent.path)] {
      let failure = await #expect(throws: LedgerOpenError.self) {
        try await LedgerVerification.verify(path: path, against: former)
      }
      #expect(failure?.description.contains("there is no such file") == true, "\(String(describing: failure))")
    }
    let nowhere = await #expect(throws: LedgerBackup.Failure.self) {
      try await LedgerBackup.make(of: newer.path, to: newer.directory + "/none/copy")
    }
    #expect(nowhere?.description.contains("no such file or directory") == true)
  }
}
