import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator

/// A purchase for life that Apple took back, and proofs of it from before.
@Suite struct RefundedLifetimeTests {
  @Test(arguments: ["receipt", "transaction"])
  func `an old receipt or transaction gives nothing back, by anybody, and buying again does`(told: String) async throws
  {
    try await World.run(withServerAPI: told == "transaction") { world in
      let (simulator, service) = (world.simulator, world.service)
      let age = Duration.seconds(50 * 86_400)
      let old = try simulator.issueReceipt(.lifetimeRefunded, subscriber: 1, age: age).receiptData
      let signed = try simulator.issueTransaction(.lifetimeRefunded, subscriber: 1, age: age).signedTransaction
      #expect(try await service.validate(old).verdict == "premium active lifetime")
      world.pass(60)
      let news =
        told == "receipt"
        ? try simulator.issueReceipt(.lifetimeRefunded, subscriber: 1).receiptData
        : try simulator.issueTransaction(.lifetimeRefunded, subscriber: 1).signedTransaction
      #expect(try await service.validate(news).verdict == "free expired refunded")

      let wrapped = try #require(Data(base64Encoded: old)).base64EncodedString(options: .lineLength76Characters)
      for proof in [old, wrapped, signed] {
        world.pass(60)
        #expect(try await service.validate(proof).verdict == "free expired refunded")
        let other = try await service.validate(proof, user: "bob")
        #expect(other.status != 200 || other["tier"] == "free", "\(other.text)")
        #expect(try await service.profile("bob")["tier"] == "free")
        #expect(try await service.profile().verdict == "free expired refunded")
      }
      let asked = try await service.send(.post, "/v1/profiles/user-1/revalidation", body: #"{"note":"asked"}"#)
      #expect(asked.verdict == "free expired refunded", "\(asked.text)")

      let again = try simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      #expect(try await service.validate(again).verdict == "premium active lifetime")
    }
  }
}
