import Entitlements
import Foundation
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator

/// `countersign backup` as it is run, beside a service that runs.
@Suite(.ofTheFile) struct BackupProcessTests {
  /// Under another umask than that of the tests, which all of them share.
  private func backup(_ arguments: [String], umask: String = "022") async throws -> ChildProcess.Ending {
    try await ChildProcess.run(
      "/bin/sh",
      ["-c", "umask \(umask); exec \"$0\" backup \"$@\"", ServiceProcess.program("countersign")] + arguments,
      environment: ServiceProcess.environment)
  }

  private static func mode(_ path: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
  }

  @Test(arguments: ["000", "777"])
  func `the copy is its owner's alone whatever the umask, and can be started from`(umask: String) async throws {
    try await RunningService.besideStore { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await service.validate(receipt).status == 200)
      let configuration = service.directory.appending(path: "countersign.yaml").path(percentEncoded: false)
      let file = service.directory.appending(path: "backup.sqlite").path(percentEncoded: false)
      let made = try await backup(["--config", configuration, file], umask: umask)
      #expect(made.code == 0, "\(made.error)")
      #expect(made.output.hasPrefix("\(file): ") && made.output.hasSuffix("; its structure is sound.\n"))
      #expect(made.output.contains(", 1 user, the newest entry of 2024-06-15T12:00:00Z"), "\(made.output)")
      #expect(try Self.mode(file) == 0o600)
      let copy = try await Ledger.open(path: file, onFatal: { _ in })
      #expect(try await copy.profile(of: "user-1")?.version == 1)
      await copy.close()
    }
  }

  @Test func `each failure has its exit code, and JSON is JSON`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      let configuration = service.directory.appending(path: "countersign.yaml").path(percentEncoded: false)
      let file = service.directory.appending(path: "backup.sqlite").path(percentEncoded: false)
      let made = try await backup(["--config", configuration, "--json", file])
      #expect(made.code == 0, "\(made.error)")
      let answer = Answer(status: 200, headers: [], body: Array(made.output.utf8))
      #expect(answer["file"] == file && answer["users"] == "0" && answer["newest_entry_at"] == "null")
      #expect(made.output.hasSuffix("}\n") && made.output.count { $0 == "\n" } == 1)

      let again = try await backup(["--config", configuration, file])
      #expect(again.code == 1)
      #expect(again.error.contains("was not touched") && again.output == "")
      #expect(try await backup(["--config", configuration]).code == 64)
      let unconfigured = try await backup([file + ".2"])
      #expect(unconfigured.code == 78)
      #expect(unconfigured.error.contains("'countersign init' writes one"))
    }
  }

  @Test func `a start says that others could read the ledger, and ends it`() async throws {
    let directory = try TemporaryDirectory()
    try await RunningService.run(apple: .unreachable, directory: directory.url) { service in
      #expect(!service.log.text.contains("could read the ledger"))
    }
    let ledger = directory.url.appending(path: "ledger.sqlite").path(percentEncoded: false)
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: ledger)
    try await RunningService.run(apple: .unreachable, directory: directory.url) { service in
      let reported = service.log.lines.filter { $0.contains("other users of this machine could read the ledger") }
      #expect(reported.count == 1)
      #expect(reported.allSatisfy { $0.contains("ledger.sqlite (mode 644)") && $0.contains("their mode is 600 now") })
      let mode = try Self.mode(ledger)
      #expect(mode == 0o600)
    }
  }
}
