import Foundation
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// Apple's certificates are in every receipt, and in the ledger once.
@Suite struct SharedCertificatesTests {
  @Test(.ofTheFile) func `receipts are kept without their certificates, and Apple is asked with them`() async throws {
    let start = Date(timeIntervalSince1970: 1_718_452_800)
    try await RunningService.besideStore(at: start) { service, store in
      for subscriber in 1...4 {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(subscriber)).receiptData
        #expect(try await service.validate(receipt, user: "user-\(subscriber)").verdict == "pro active renewing")
      }
      let path = service.directory.appending(path: "ledger.sqlite").path(percentEncoded: false)
      let file = try SQLiteFile(path)
      let lengths = (
        kept: try file.all("SELECT length(content) FROM proof ORDER BY id", as: Int.self),
        shared: try file.all("SELECT length(content) FROM proof_frame", as: Int.self)
      )
      let shared = try #require(lengths.shared.first)
      #expect(lengths.shared.count == 1 && lengths.kept.count == 4)
      #expect(lengths.kept.allSatisfy { $0 < shared }, "\(lengths)")
      // Apple is asked with the receipt as it came: the simulator refuses any other.
      store.simulator.advanceClock(by: .seconds(40 * 86_400))
      let answer = try await service.revalidate("user-4", note: "Asked by a test.")
      #expect(answer.status == 200 && answer["evidence_at"] == "2024-07-25T12:00:00Z", "\(answer.text)")
    }
  }
}
