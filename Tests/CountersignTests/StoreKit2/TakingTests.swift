import Foundation
import Testing
import TestSupport

@testable import AppStoreSimulator

/// Purchases of others, presented when it is hardest to tell: while Apple cannot be asked, and before their owners come.
@Suite struct TakingTests {
  @Test(arguments: [Trouble.serverAPIKeyRejected, .serverAPINotFoundRetryable, .http500])
  func `while Apple is away nobody is granted what names another, who is`(trouble: Trouble) async throws {
    let own = UUID()
    let owner = own.uuidString.lowercased()
    let thief = UUID().uuidString.lowercased()
    let settings = Settings(policy: ["provisional": "24h"])
    let clock = MovingClock()
    try await RunningService.besideStore(withServerAPI: true, settings: settings, now: { clock.date }) {
      service, store in
      store.simulator.setTrouble(trouble)
      let signed = try store.simulator.issueTransaction(.renewing, appAccountToken: own)
      let taken = try await service.validate(signed.signedTransaction, user: thief)
      #expect(taken.status == 202)
      #expect(taken["tier"] == "free" && taken["provisional"] == "false")
      let answer = try await service.validate(signed.signedTransaction, user: owner)
      #expect(answer.status == 202)
      #expect(answer["tier"] == "pro" && answer["provisional"] == "true")
      store.simulator.setTrouble(nil)
      try await eventually(clock, step: 5) { try await service.profile(owner)["provisional"] == "false" }
      #expect(try await service.profile(owner).verdict == "pro active renewing")
      #expect(try await service.profile(thief).verdict == "free active no_purchases")
    }
  }

  @Test func `a purchase that names a user is nobody else's, whatever their ID is`() async throws {
    let settings = Settings(policy: ["app_account_token": "user_id"])
    try await RunningService.besideStore(withServerAPI: true, settings: settings) { service, store in
      let named = UUID()
      let signed = try store.simulator.issueTransaction(.renewing, appAccountToken: named)
      for notification in try store.simulator.notifications(of: signed.originalTransactionID) {
        #expect(try await service.notify(notification)["outcome"] == "recorded")
      }
      let id = signed.originalTransactionID
      // A user who can be named, and is not; and one who cannot.
      for other in [UUID().uuidString.lowercased(), "user-1"] {
        #expect(try await service.validate(originalTransactionID: id, user: other).status == 409)
        #expect(try await service.validate(signed.signedTransaction, user: other).status == 409)
      }
      let owner = named.uuidString.lowercased()
      #expect(try await service.validate(originalTransactionID: id, user: owner).verdict == "pro active renewing")
      #expect(try await service.profile(owner).verdict == "pro active renewing")
    }
  }

  @Test func `users who make up IDs do not take up what Apple allows us to ask`() async throws {
    let settings = Settings(jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
    try await RunningService.besideStore(withServerAPI: true, settings: settings) { service, store in
      store.simulator.setDelay(.milliseconds(300))
      var answers: [String: Int] = [:]
      try await withThrowingTaskGroup(of: String.self) { group in
        for number in 10..<34 {
          let token = try TokenMint.user("user-\(number)", at: noon)
          group.addTask {
            try await service.post(["original_transaction_id": "4800000999\(number)0000"], key: token)["code"]
              ?? "none"
          }
        }
        for try await code in group { answers[code, default: 0] += 1 }
      }
      // Whoever is let in is asked about; on a machine that is too busy for an answer in time, too.
      let refused = answers["overloaded", default: 0]
      let asked = answers["unknown_transaction", default: 0] + answers["app_store_unavailable", default: 0]
      #expect(refused > 0 && asked >= 4 && refused + asked == 24, "\(answers)")
      #expect(answers["unknown_transaction", default: 0] > 0, "\(answers)")
      #expect(store.simulator.calls.peakInFlight <= 4)
      // There is room again.
      store.simulator.setDelay(.zero)
      let token = try TokenMint.user("user-1", at: noon)
      for number in 10..<16 {
        let id = "4800000888\(number)0000"
        #expect(try await service.post(["original_transaction_id": id], key: token).status == 404)
      }
    }
  }
}
