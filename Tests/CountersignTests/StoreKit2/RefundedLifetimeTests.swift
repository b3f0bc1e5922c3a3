import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator

/// A purchase for life that Apple took back, and proofs of it from before.
@Suite struct RefundedLifetimeTests {
  /// Who tells that it was taken back.
  enum Source: CaseIterable, Sendable {
    case receipt, transaction, notification
  }

  @Test(arguments: Source.allCases)
  func `an old receipt or transaction gives nothing back, by anybody, and buying again does`(told: Source) async throws
  {
    try await World.run(withServerAPI: told == .transaction) { world in
      let (simulator, service) = (world.simulator, world.service)
      let age = Duration.seconds(50 * 86_400)
      let old = try simulator.issueReceipt(.lifetimeRefunded, subscriber: 1, age: age).receiptData
      let signed = try simulator.issueTransaction(.lifetimeRefunded, subscriber: 1, age: age)
      #expect(try await service.validate(old).verdict == "premium active lifetime")
      world.pass(60)
      switch told {
      case .receipt:
        let news = try simulator.issueReceipt(.lifetimeRefunded, subscriber: 1).receiptData
        #expect(try await service.validate(news).verdict == "free expired refunded")
      case .transaction:
        let news = try simulator.issueTransaction(.lifetimeRefunded, subscriber: 1).signedTransaction
        #expect(try await service.validate(news).verdict == "free expired refunded")
      case .notification:
        let all = try simulator.notifications(of: signed.originalTransactionID)
        let refund = try #require(all.last { $0.type == "REFUND" })
        #expect(try await service.notify(refund)["outcome"] == "recorded")
        #expect(try await service.profile().verdict == "free expired refunded")
      }

      for proof in [old, try Self.wrapped(old), signed.signedTransaction] {
        world.pass(60)
        #expect(try await service.validate(proof).verdict == "free expired refunded")
        try await Self.expectNothing(of: proof, for: "bob", service)
        try await Self.expectRefunded(service)
      }

      let again = try simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      #expect(try await service.validate(again).verdict == "premium active lifetime")
    }
  }

  @Test func `a refund that latest_receipt_info told stands against answers that have the receipt's own rows alone`()
    async throws
  {
    try await ReplayedAppleTests.run { (service, script, old) async throws in
      let bought = ReplayedAppleTests.row("forever", id: "78", expires: nil)
      let refunded = ReplayedAppleTests.row("forever", id: "78", expires: nil, cancelled: -300)
      script.say(ReplayedAppleTests.answer(inApp: [bought], latest: [bought]))
      #expect(try await service.validate(old).verdict == "premium active lifetime")
      script.say(ReplayedAppleTests.answer(requested: 60, inApp: [bought], latest: [refunded]))
      #expect(try await service.validate(old).verdict == "free expired refunded")

      for (number, proof) in [old, try Self.wrapped(old)].enumerated() {
        script.say(ReplayedAppleTests.answer(requested: 120 + 60 * Double(number), inApp: [bought], latest: []))
        #expect(try await service.validate(proof).verdict == "free expired refunded")
        try await Self.expectNothing(of: proof, for: "bob", service)
        try await Self.expectRefunded(service)
      }

      let anew = ReplayedAppleTests.row("forever", id: "79", expires: nil)
      script.say(ReplayedAppleTests.answer(requested: 240, inApp: [bought], latest: [refunded, anew]))
      #expect(try await service.validate(old).verdict == "premium active lifetime")
    }
  }

  /// With line breaks, as some encoders write it.
  private static func wrapped(_ receipt: String) throws -> String {
    try #require(Data(base64Encoded: receipt)).base64EncodedString(options: .lineLength76Characters)
  }

  private static func expectNothing(of proof: String, for user: String, _ service: RunningService) async throws {
    let answer = try await service.validate(proof, user: user)
    #expect(answer.status != 200 || answer["tier"] == "free", "\(answer.text)")
    #expect(try await service.profile(user)["tier"] == "free")
  }

  /// Has Apple asked about the receipts that are kept.
  private static func expectRefunded(_ service: RunningService) async throws {
    let asked = try await service.send(.post, "/v1/profiles/user-1/revalidation", body: #"{"note":"asked"}"#)
    #expect(asked.verdict == "free expired refunded", "\(asked.text)")
    #expect(try await service.profile().verdict == "free expired refunded")
  }
}
