import Entitlements
import Foundation
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// `countersign export` and `countersign erase` as they are run, against a service that runs.
@Suite struct PrivacyCommandTests {
  private static let user = "user+1|$"

  private func run(body: @Sendable (RunningService) async throws -> Void) async throws {
    try await RunningService.besideStore { service, store in
      _ = try await service.validate(try store.simulator.issueReceipt(.renewing).receiptData, user: Self.user)
      try await body(service)
    }
  }

  @Test func `a user is exported to a file of its owner's alone, or to the output`() async throws {
    try await run { service in
      let file = service.directory.appending(path: "export.json").path(percentEncoded: false)
      let out = try await ChildProcess.countersign(["export", Self.user, "--url", service.origin, "--out", file])
        .ending()
      #expect(out.code == 0 && out.output.isEmpty, "\(out.error)")
      let kept = try #require(FileManager.default.contents(atPath: file))
      #expect(kept.firstRange(of: Data(#""user_id":"\#(Self.user)""#.utf8)) != nil)
      let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
      #expect(mode == 0o600)
      let again = try await ChildProcess.countersign(["export", Self.user, "--url", service.origin, "--out", file])
        .ending()
      #expect(again.code == 1 && again.error.contains("exists"), "\(again.error)")
      let me = try await ChildProcess.countersign(["export", "me", "--url", service.origin]).ending()
      #expect(me.code == 77 && me.error.contains("'me' is for users; a key has to name the user."), "\(me.error)")
      let shown = try await ChildProcess.countersign(["export", Self.user, "--url", service.origin]).ending()
      #expect(shown.code == 0 && shown.output.hasPrefix("{") && shown.output.contains(#""receipt_data":"#))
    }
  }

  @Test func `a user is erased when the ID is given twice`() async throws {
    try await run { service in
      let wrong = try await ChildProcess.countersign(["erase", Self.user, "--confirm", "user", "--url", service.origin])
        .ending()
      #expect(wrong.code == 64 && wrong.error.contains("nothing was erased"), "\(wrong.error)")
      #expect(try await ChildProcess.countersign(["erase", Self.user, "--url", service.origin]).ending().code == 64)
      let key = try await ChildProcess.countersign(
        ["erase", Self.user, "--confirm", Self.user, "--url", service.origin], key: "a-wrong-key"
      ).ending()
      #expect(key.code == 77)
      #expect(try await service.ledger.isKnown(.init(Self.user)))

      let erased = try await ChildProcess.countersign(
        ["erase", Self.user, "--confirm", Self.user, "--url", service.origin], key: RunningService.supportKey
      ).ending()
      #expect(erased.code == 0 && erased.output.hasPrefix("Erased. There was no profile row"), "\(erased.output)")
      #expect(erased.output.contains("kept  purchases 1, lines of the history"))
      #expect(try await !service.ledger.isKnown(.init(Self.user)))
      let json = try await ChildProcess.countersign(
        ["erase", Self.user, "--confirm", Self.user, "--json", "--url", service.origin]
      ).ending()
      #expect(json.code == 0 && json.output.contains(#""purchases":0"#) && json.output.hasSuffix("}\n"))
    }
  }
}
