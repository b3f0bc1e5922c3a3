import Entitlements
import Foundation
import HTTPTransport
import Ledger
import SeededRandom
import Testing
import TestSupport

@testable import AppStoreSimulator

/// A buyer's purchase in the hands of somebody else who has the app's public key, through each dialect. Each attempt is made
/// under two of the six settings, and under all of them in `make cases`.
@Suite struct StolenPurchaseTests {
  private enum Door: CaseIterable {
    case validations, revenuecat, cordova, openiap, subscriptionsAPI, verifyReceipt
  }

  /// Under what ID the thief posts.
  private enum Guise: CaseIterable {
    case own, anonymous, noUUID
  }

  private struct Attempt {
    var number: Int64
    var door: Door
    var guise: Guise
    var isNamed: Bool
    var buyerWasFirst: Bool

    var buyer: String { "b0000000-0000-4000-8000-\(suffix)" }
    var thief: String { "c0000000-0000-4000-8000-\(suffix)" }
    private var suffix: String { String("000000000000\(number)".suffix(12)) }

    /// The ID under which the thief posts.
    var poster: String {
      switch guise {
      case .own: thief
      case .anonymous: "$RCAnonymousID:\(thief.replacing("-", with: ""))"
      case .noUUID: "thief-\(number)"
      }
    }

    /// Whether the dialect lets the app name anybody.
    static func isPossible(_ door: Door, _ guise: Guise) -> Bool {
      switch door {
      // A user's token, and no user at all.
      case .subscriptionsAPI, .verifyReceipt: guise == .own
      default: true
      }
    }

    static let all: [Attempt] = {
      var all: [Attempt] = []
      for door in Door.allCases {
        for guise in Guise.allCases where isPossible(door, guise) {
          for isNamed in [true, false] {
            for buyerWasFirst in [true, false] {
              all.append(
                Attempt(
                  number: Int64(all.count + 1), door: door, guise: guise, isNamed: isNamed,
                  buyerWasFirst: buyerWasFirst))
            }
          }
        }
      }
      return all
    }()
  }

  private static func steal(_ attempt: Attempt, _ proof: String, _ service: RunningService) async throws {
    let key = RunningService.publicKey
    let poster = attempt.poster
    switch attempt.door {
    case .validations: _ = try await service.validate(proof, user: poster)
    case .revenuecat: _ = try await RevenueCatApp(service: service).post(proof, of: poster)
    case .cordova: _ = try await service.cordova(try DialectBench.cordova(jws: proof, user: poster), key: key)
    case .openiap:
      _ = try await service.send(
        .post, "/v1/subscriptions/bind-user/\(key)", key: nil,
        body: #"{"purchaseToken":"\#(proof)","userId":"\#(poster)"}"#)
    case .subscriptionsAPI:
      _ = try await service.send(
        .post, "/api/subscriptions/verify", key: try TokenMint.user(poster, at: noon),
        body: #"{"externalId":"1","externalProvider":"apple","receipt_data":"\#(proof)"}"#)
    case .verifyReceipt: _ = try await service.verifyReceipt(try DialectBench.verifyReceipt(proof, password: key))
    }
    if attempt.guise == .anonymous {
      let joined = try await RevenueCatApp(service: service).identify(poster, as: attempt.thief)
      #expect(joined.status == 200 || joined.status == 201, "\(joined.text)")
    }
  }

  private static let policies = ["keep", "transfer_if_inactive", "transfer"]

  @Test(arguments: policies, ["hint", "user_id"])
  func `a purchase belongs to the buyer that it names, else it obeys the policy, whoever posts it`(
    ownership: String, tokens: String
  ) async throws {
    var settings = DialectBench.settings(policy: ["ownership": ownership, "app_account_token": tokens])
    settings.dialects.append("subscriptions_api")
    let turn = (Self.policies.firstIndex(of: ownership) ?? 0) + (tokens == "hint" ? 0 : 1)
    let attempts = Attempt.all.filter { SeededRandom.triesAll || (Int($0.number) + turn).isMultiple(of: 3) }
    #expect(attempts.count >= Attempt.all.count / 3)
    try await DialectBench.run(settings) { service, store in
      for attempt in attempts {
        let account = attempt.isNamed ? UUID(uuidString: attempt.buyer) : nil
        let (proof, id): (String, String)
        if attempt.door == .verifyReceipt {
          let issued = try store.simulator.issueReceipt(
            .renewing, subscriber: attempt.number, appAccountToken: account)
          (proof, id) = (issued.receiptData, try #require(issued.originalTransactionIDs.first))
        } else {
          let issued = try store.simulator.issueTransaction(
            .renewing, subscriber: attempt.number, appAccountToken: account)
          (proof, id) = (issued.signedTransaction, issued.originalTransactionID)
        }
        func tier(_ user: String) async throws -> String? { try await service.profile(user)["tier"] }
        if attempt.buyerWasFirst {
          #expect(try await service.validate(proof, user: attempt.buyer)["tier"] == "pro", "\(attempt)")
        }
        try await Self.steal(attempt, proof, service)
        let thief = attempt.guise == .noUUID ? attempt.poster : attempt.thief
        // verifyReceipt names nobody to whom it could go.
        let isTaken = attempt.door != .verifyReceipt && (!attempt.buyerWasFirst || ownership == "transfer")
        // Nobody can know yet that the token is a user's.
        let isUnknown = attempt.guise == .noUUID && tokens == "hint" && !attempt.buyerWasFirst
        let isThiefs = isTaken && (!attempt.isNamed || isUnknown)
        #expect(try await tier(thief) == (isThiefs ? "pro" : "free"), "\(attempt)")
        if attempt.buyerWasFirst {
          #expect(try await tier(attempt.buyer) == (isThiefs ? "free" : "pro"), "\(attempt)")
        }

        _ = try await service.validate(proof, user: attempt.buyer)
        let isKept = isThiefs && !attempt.isNamed && ownership != "transfer"
        let owners = try await service.ledger.ownedPurchases(.init(id)).map(\.owner.rawValue)
        #expect(owners == [isKept ? thief : attempt.buyer], "\(attempt)")
        #expect(try await tier(thief) == (isKept ? "pro" : "free"), "\(attempt)")
        #expect(try await tier(attempt.buyer) == (isKept ? "free" : "pro"), "\(attempt)")
      }
    }
  }
}
