import Entitlements
import Foundation
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// `countersign validate`: the verdict that the service would give, of what knows nothing else.
@Suite struct ValidateTests {
  /// Tier, status, reason, source, and whether it is stale.
  private func verdict(on text: String, _ apple: Apple, now: Date) async throws -> String {
    let directory = try TemporaryDirectory()
    let yaml = Settings().yaml(apple: apple, directory: directory.url)
    let configuration = try ServiceConfiguration.load(
      file: try directory.write("countersign.yaml", yaml), environment: [:])
    let entitlement = try await Validate.verdict(
      on: Array(text.utf8), of: UserID("command-line"), configuration, clock: .moved(by: { now }))
    let source = entitlement.source?.rawValue ?? "none"
    return "\(entitlement.tier) \(entitlement.status.rawValue) \(entitlement.reason.rawValue) \(source)"
      + (entitlement.isStale ? " stale" : "")
  }

  @Test func `a file that cannot be opened is said to be, with the reason`() {
    let error = #expect(throws: ReceiptFile.Unreadable.self) { try ReceiptFile.read("/no/such/file") }
    #expect(error?.description == "/no/such/file cannot be opened: No such file or directory.")
  }

  @Test func `a receipt and a signed transaction get the service's verdict, from whom the service asks`() async throws {
    try await SimulatedStore.run { store in
      let receipt = try store.simulator.issueReceipt(.grace, subscriber: 1).receiptData
      let signed = try store.simulator.issueTransaction(.grace, subscriber: 2).signedTransaction
      let running = try store.simulator.issueTransaction(.renewing, subscriber: 3).signedTransaction
      #expect(
        try await verdict(on: receipt, store.apple(), now: noon)
          == "pro grace_period billing_grace verify_receipt")
      #expect(
        try await verdict(on: signed + "\n", store.apple(), now: noon)
          == "pro grace_period billing_grace server_api")
      #expect(try await verdict(on: running, store.apple, now: noon) == "pro active renewing signature")
    }
  }

  @Test func `a transaction of long ago is judged as of today, as the service does`() async throws {
    try await SimulatedStore.run { store in
      let signed = try store.simulator.issueTransaction(.subscriber).signedTransaction
      let held = noon.addingTimeInterval(33 * 86_400)
      #expect(try await verdict(on: signed, store.apple, now: held) == "pro active renewing signature stale")
      let later = noon.addingTimeInterval(300 * 86_400)
      #expect(try await verdict(on: signed, store.apple, now: later) == "free expired unproven signature stale")
    }
  }

  @Test func `the text of a verdict says who told, and that it is stale`() async throws {
    try await SimulatedStore.run { store in
      let signed = try store.simulator.issueTransaction(.subscriber).signedTransaction
      let directory = try TemporaryDirectory()
      let yaml = Settings().yaml(apple: store.apple, directory: directory.url)
      let configuration = try ServiceConfiguration.load(
        file: try directory.write("countersign.yaml", yaml), environment: [:])
      let verdict = try await Validate.verdict(
        on: Array(signed.utf8), of: UserID("command-line"), configuration,
        clock: .moved(by: { noon.addingTimeInterval(33 * 86_400) }))
      #expect(verdict.summary.contains("source        signature, stale"))
    }
  }
}
