import Entitlements
import Foundation
import Ledger
import LedgerFixtures
import Testing

@Suite struct ProvisionalGrantTests {
  private func present(
    _ ledger: Ledger, _ user: UserID, _ signed: [SubscriptionEvidence], receipt: String = "x", at now: Double = 0
  ) async throws {
    let outcome = try await ledger.run(
      Postpone(
        pending(receipt, of: user, at: now), provisional: signed, reevaluated(at: now)))
    #expect(outcome == .kept)
  }

  private func tier(_ ledger: Ledger, _ user: UserID) async throws -> Tier? {
    try await ledger.profile(of: user)?.entitlement.tier
  }

  private func answer(_ user: UserID, _ evidence: [SubscriptionEvidence]) -> LedgerEntry {
    entry(user, evidence, rules: rules)
  }

  // MARK: Given

  @Test func `a signature counts until its time is over, and the app's row is told`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1", time: -50, now: 0, until: 100)])
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement.tier == "pro" && profile.entitlement.isProvisional)
      #expect(profile.entitlement.accessUntil == at(100))
      #expect(profile.entitlement.expiresAt == at(10_000))
      #expect(profile.evidence == [signed("1", time: -50, now: 0, until: 100)])
      #expect(try await ledger.waitingUpdate(of: "anna")?.version == milliseconds(-50))
      #expect(try await ledger.wholeHistory(of: "anna").map(\.requestID) == ["request-x"])

      #expect(try await ledger.endProvisional(reevaluated(at: 99.999)) == 0)
      #expect(try await ledger.endProvisional(reevaluated(at: 100)) == 1)
      #expect(try await tier(ledger, "anna") == "free")
      #expect(try await ledger.profile(of: "anna")?.evidence == [])
      #expect(try await ledger.waitingUpdate(of: "anna")?.version == milliseconds(-50) + 1)
      #expect(try await ledger.wholeHistory(of: "anna").map(\.changed) == [true, true])
      #expect(try await ledger.endProvisional(reevaluated(at: 101)) == 0)
    }
  }

  @Test func `the grant of a user who cannot be read does not end, and those of others do`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 1_000)]))
      for (user, id) in [("anna", "2"), ("ben", "3")] as [(UserID, String)] {
        try await present(ledger, user, [signed(id, time: -50, now: 0, until: 100)], receipt: id)
      }
      try await scratch.change("UPDATE purchase SET evidence = '[]'")
      // The grant itself counts no more, whatever it says.
      try await scratch.change("UPDATE provisional_grant SET evidence = '[]' WHERE user_id = 'ben'")
      for ended in [1, 0] {
        var unreadable: [SubscriptionKey] = []
        #expect(try await ledger.endProvisional(reevaluated(at: 100)) { unreadable += $0 } == ended)
        #expect(unreadable == [key("2")])
      }
      #expect(try await tier(ledger, "ben") == "free")
      #expect(try await scratch.rows("SELECT user_id FROM provisional_grant WHERE is_over = 0") == [["anna"]])
    }
  }

  @Test func `a receipt that proves nothing is kept, and nobody is judged for it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [])
      #expect(try await ledger.profile(of: "anna") == nil)
      #expect(try await ledger.backlog(at: clock(0)).pendingReceipts == 1)
    }
  }

  @Test func `proof alone is not a grant`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [evidence("1")])
      #expect(try await ledger.profile(of: "anna") == nil)
    }
  }

  @Test func `another user's purchase is not granted`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 10)]))
      try await present(ledger, "ben", [signed("1", time: 20), signed("2", time: 20)], at: 20)
      #expect(try await ledger.keys(of: "ben") == [key("2")])
      #expect(try await ledger.keys(of: "anna") == [key("1")])
    }
  }

  @Test(arguments: [(known: 19.0, isGranted: true), (known: 20, isGranted: false), (known: 21, isGranted: false)])
  func `where something as new is known nothing is granted`(known: Double, isGranted: Bool) async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", time: known, expires: 10)]))
      try await present(ledger, "anna", [signed("1", time: 20)], at: 25)
      #expect(try await tier(ledger, "anna") == (isGranted ? "pro" : "free"))
    }
  }

  @Test func `notifications about a purchase that nobody has yet count`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(notification("n1", [part("1", "t-1-10000.0", reported: 10, cancelled: 10)]))
      _ = try await ledger.run(notification("n2", [part("2", "t-2-10000.0", reported: 10, account: annasAccount)]))
      // Bought again after the one that was taken back.
      _ = try await ledger.run(notification("n3", [part("3", "t-0", reported: 10, cancelled: 10)]))
      let ben = UserID(bensAccount)
      try await present(ledger, ben, [signed("1", time: 5), signed("2", time: 5), signed("3", time: 5)], at: 20)
      #expect(try await ledger.keys(of: ben) == [key("3")])
      try await present(ledger, UserID(annasAccount), [signed("2", time: 5)], receipt: "hers", at: 20)
      #expect(try await tier(ledger, UserID(annasAccount)) == "pro")
    }
  }

  @Test func `the user who presents a purchase first has it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1")])
      try await present(ledger, "ben", [signed("1", time: 5)], receipt: "y", at: 5)
      #expect(try await tier(ledger, "anna") == "pro")
      #expect(try await ledger.profile(of: "ben") == nil)
    }
  }

  // MARK: Reserved, while Apple calls the receipt malformed

  @Test func `a reserved purchase counts for nobody, and is granted to nobody else`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1").reserved])
      #expect(try await ledger.profile(of: "anna") == nil)
      #expect(try await ledger.waitingUpdate(of: "anna") == nil)
      try await present(ledger, "ben", [signed("1", time: 5)], receipt: "y", at: 5)
      #expect(try await ledger.profile(of: "ben") == nil)
      // Nor does somebody else take the place, by a reservation of their own.
      try await present(ledger, "ben", [signed("1", time: 6).reserved], receipt: "y", at: 6)
      try await present(ledger, "ben", [signed("1", time: 7)], receipt: "y", at: 7)
      #expect(try await ledger.profile(of: "ben") == nil)
      #expect(try await ledger.endProvisional(reevaluated(at: 50)) == 0)
    }
  }

  @Test(arguments: ["x", "another receipt"])
  func `a user who reserved a purchase is granted it when Apple cannot be asked, once`(receipt: String) async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1").reserved])
      try await present(ledger, "anna", [signed("1", time: 5)], receipt: receipt, at: 5)
      #expect(try await tier(ledger, "anna") == "pro")
      #expect(try await ledger.profile(of: "anna")?.entitlement.accessUntil == at(105))
      try await present(ledger, "anna", [signed("1", time: 50).reserved], receipt: "z", at: 50)
      #expect(try await tier(ledger, "anna") == "pro")
      #expect(try await ledger.endProvisional(reevaluated(at: 105)) == 1)
      try await present(ledger, "anna", [signed("1", time: 110)], receipt: receipt, at: 110)
      #expect(try await tier(ledger, "anna") == "free")
    }
  }

  @Test func `a reservation goes with its receipt, and nobody is judged for it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1").reserved])
      let receipt = try #require(try await ledger.pendingReceipts(dueAt: clock(0), limit: 1).first)
      try await ledger.run(SettlePending(receipt.id, reevaluated(at: 1)))
      #expect(try await ledger.profile(of: "anna") == nil)
      try await present(ledger, "ben", [signed("1", time: 5)], receipt: "y", at: 5)
      #expect(try await tier(ledger, "ben") == "pro")
    }
  }

  @Test func `Apple's answer decides the owner of a reserved purchase`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1").reserved])
      #expect(try await ledger.record(answer("ben", [evidence("1", time: 10)])).recorded?.losers == [])
      #expect(try await tier(ledger, "ben") == "pro")
      #expect(try await ledger.profile(of: "anna") == nil)
    }
  }

  @Test func `the waiting receipt that reserved the purchase is settled first, for a day`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1").reserved])
      try await present(ledger, "ben", [], receipt: "y", at: 5)
      let bens = try #require(
        try await ledger.pendingReceipts(dueAt: clock(9), limit: 9).first { $0.user == "ben" })
      func settle(at now: Double) async throws -> RecordOutcome {
        try await ledger.record(
          answer("ben", [evidence("1", time: 10)]).with {
            $0.origin = .settlement(bens.id, .keep)
            $0.recordedAt = clock(now)
          })
      }
      guard case .heldBack = try await settle(at: 86_399) else {
        Issue.record("ben was faster")
        return
      }
      #expect(try await settle(at: 86_400).recorded?.entitlement.tier == "pro")
    }
  }

  @Test func `the same number in the other store is another purchase`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1")])
      try await present(ledger, "ben", [signed("1", environment: .sandbox)])
      #expect(try await tier(ledger, "anna") == "pro")
      #expect(try await tier(ledger, "ben") == "pro")
    }
  }

  @Test func `a user with too many waiting receipts is granted nothing`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 0..<20 { try await present(ledger, "anna", [], receipt: "r\(number)") }
      let outcome = try await ledger.run(
        Postpone(pending("x", of: "anna"), provisional: [signed("1")], reevaluated(at: 0)))
      #expect(outcome == .tooMany)
      #expect(try await ledger.profile(of: "anna") == nil)
    }
  }

  @Test func `a grant outlives a restart, with its end`() async throws {
    let scratch = try Scratch()
    let first = try await scratch.open()
    try await present(first, "anna", [signed("1")])
    await first.close()
    let second = try await scratch.open()
    #expect(try await second.profile(of: "anna")?.evidence == [signed("1")])
    #expect(try await second.endProvisional(reevaluated(at: 100)) == 1)
    #expect(try await tier(second, "anna") == "free")
    await second.close()
  }

  // MARK: Not prolonged

  @Test(arguments: [50.0, 99.999, 100, 150, 100_000])
  func `a grant is prolonged neither by the same receipt nor by another`(again: Double) async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1", expires: 1e6)])
      _ = try await ledger.endProvisional(reevaluated(at: again))
      try await present(ledger, "anna", [signed("1", expires: 1e6, now: again)], at: again)
      try await present(ledger, "anna", [signed("1", time: again, expires: 1e6)], receipt: "y", at: again)
      try await present(ledger, "ben", [signed("1", time: again, expires: 1e6)], receipt: "z", at: again)
      _ = try await ledger.endProvisional(reevaluated(at: max(again, 100)))
      #expect(try await tier(ledger, "anna") == "free")
      #expect(try await ledger.keys(of: "anna").isEmpty)
      #expect(try await ledger.profile(of: "ben") == nil)
    }
  }

  @Test func `a grant whose time is over is over after a restart`() async throws {
    let scratch = try Scratch()
    let first = try await scratch.open()
    try await present(first, "anna", [signed("1")])
    #expect(try await first.endProvisional(reevaluated(at: 100)) == 1)
    await first.close()
    let second = try await scratch.open()
    try await present(second, "anna", [signed("1", time: 101)], receipt: "y", at: 101)
    #expect(try await tier(second, "anna") == "free")
    #expect(try await second.endProvisional(reevaluated(at: 1_000)) == 0)
    await second.close()
  }

  @Test func `grants of one moment end together, others at theirs`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 0..<30 {
        try await present(
          ledger, UserID("u\(number)"), [signed("\(number)", until: number < 20 ? 100 : 200)], receipt: "r\(number)")
      }
      #expect(try await ledger.endProvisional(reevaluated(at: 150)) == 20)
      for number in 0..<30 { #expect(try await tier(ledger, UserID("u\(number)")) == (number < 20 ? "free" : "pro")) }
    }
  }

  @Test func `the end of a grant leaves what is proven`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 5_000)]))
      let version = try await ledger.profile(of: "anna")?.version
      var lifetime = signed("2", expires: 9_000)
      lifetime.purchases = [
        Purchase(productID: forever, transactionID: "t-2", originalTransactionID: "2", purchaseDate: at(0))
      ]
      try await present(ledger, "anna", [lifetime])
      #expect(try await tier(ledger, "anna") == "premium")
      #expect(try await ledger.endProvisional(reevaluated(at: 100)) == 1)
      #expect(try await tier(ledger, "anna") == "pro")
      #expect(try await ledger.profile(of: "anna")?.version == version.map { $0 + 2 })
    }
  }

  // MARK: Apple speaks

  @Test func `Apple's answer takes the place of the grant`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1")])
      let recorded = try await ledger.record(answer("anna", [evidence("1", time: 10, expires: 5)])).recorded
      #expect(recorded?.entitlement.tier == "free")
      #expect(recorded?.entitlement.isProvisional == false)
      #expect(recorded?.losers == [])
      #expect(try await ledger.profile(of: "anna")?.evidence == [evidence("1", time: 10, expires: 5)])
      #expect(try await ledger.endProvisional(reevaluated(at: 1_000)) == 0)
    }
  }

  @Test func `Apple's answer about one purchase leaves the grant on another`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1")])
      let recorded = try await ledger.record(answer("anna", [evidence("2", time: 10, expires: 5)])).recorded
      #expect(recorded?.entitlement.isProvisional == true)
      #expect(try await ledger.keys(of: "anna") == [key("1"), key("2")])
    }
  }

  @Test func `Apple's answer for another user ends the grant, and its holder is judged with it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "ben", [signed("1", time: 50)], at: 50)
      // Also an answer of before the grant: the purchase is Anna's.
      let recorded = try #require(try await ledger.record(answer("anna", [evidence("1", time: 40)])).recorded)
      #expect(recorded.losers == ["ben"])
      #expect(try await tier(ledger, "anna") == "pro")
      #expect(try await tier(ledger, "ben") == "free")
      #expect(try await ledger.profile(of: "ben")?.evidence == [])
      #expect(try await ledger.profile(of: "ben")?.write == .waiting)
      #expect(try await ledger.wholeHistory(of: "ben").count == 2)
      try await present(ledger, "ben", [signed("1", time: 60)], receipt: "y", at: 60)
      #expect(try await tier(ledger, "ben") == "free", "it is somebody else's now")
    }
  }

  /// An answer that was under way when Apple went away, about the period before the one just paid for.
  @Test func `an answer of before the receipt does not end what the receipt proves`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1", time: 20)], at: 20)
      let recorded = try await ledger.record(answer("anna", [evidence("1", time: 10, expires: 15)])).recorded
      #expect(recorded?.entitlement.isProvisional == true)
      #expect(try await ledger.profile(of: "anna")?.evidence.count == 2)
      let later = try await ledger.record(answer("anna", [evidence("1", time: 20, expires: 15)])).recorded
      #expect(later?.entitlement.tier == "free")
      #expect(try await ledger.profile(of: "anna")?.evidence == [evidence("1", time: 20, expires: 15)])
    }
  }

  @Test func `a settled receipt takes its grants with it, in one transaction`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1"), signed("2")])
      try await present(ledger, "ben", [signed("3")], receipt: "y")
      let receipts = try await ledger.pendingReceipts(dueAt: clock(0), limit: 10)
      let settled = try #require(receipts.first { $0.user == "anna" })
      let commits = ledger.statistics.commits
      try await ledger.run(SettlePending(settled.id, reevaluated(at: 1)))
      #expect(ledger.statistics.commits == commits + 1)
      #expect(try await tier(ledger, "anna") == "free")
      #expect(try await ledger.wholeHistory(of: "anna").count == 2)
      #expect(try await ledger.waitingUpdate(of: "anna")?.entitlement.tier == "free")
      #expect(try await tier(ledger, "ben") == "pro")
      try await ledger.run(SettlePending(settled.id, reevaluated(at: 1)))
      #expect(try await ledger.wholeHistory(of: "anna").count == 2)
    }
  }

  @Test func `a settled receipt whose grants Apple has confirmed changes nothing`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1")])
      _ = try await ledger.record(answer("anna", [evidence("1", time: 10, expires: 9_000)]))
      let version = try await ledger.profile(of: "anna")?.version
      let receipt = try #require(try await ledger.pendingReceipts(dueAt: clock(10), limit: 1).first)
      try await ledger.run(SettlePending(receipt.id, reevaluated(at: 11)))
      #expect(try await ledger.profile(of: "anna")?.version == version)
      #expect(try await tier(ledger, "anna") == "pro")
    }
  }

  @Test func `a receipt that Apple rejects grants nothing from then on, and stays queued`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1")])
      let receipt = try #require(try await ledger.pendingReceipts(dueAt: clock(0), limit: 1).first)
      #expect(try await tier(ledger, "anna") == "pro")
      try await ledger.run(RefusePending(receipt.id, retryAt: at(60), reevaluated(at: 1)))
      #expect(try await tier(ledger, "anna") == "free")
      #expect(try await ledger.pendingReceipts(dueAt: clock(59), limit: 1).isEmpty)
      let waiting = try #require(try await ledger.pendingReceipts(dueAt: clock(60), limit: 1).first)
      #expect(waiting.attempts == 1)
      let version = try await ledger.profile(of: "anna")?.version
      // Nothing of it is left to be ended, so that nobody is judged again.
      try await ledger.run(RefusePending(receipt.id, retryAt: at(90), reevaluated(at: 61)))
      #expect(try await ledger.profile(of: "anna")?.version == version)
      try await present(ledger, "anna", [signed("1", time: 70)], at: 70)
      #expect(try await tier(ledger, "anna") == "free")
    }
  }

  @Test func `when there was a verdict on the receipt, the next outage begins anew`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1")])
      let receipt = try #require(try await ledger.pendingReceipts(dueAt: clock(0), limit: 1).first)
      try await ledger.run(SettlePending(receipt.id, reevaluated(at: 1)))
      try await present(ledger, "anna", [signed("1", time: 500)], receipt: "y", at: 500)
      #expect(try await ledger.profile(of: "anna")?.entitlement.accessUntil == at(600))
    }
  }

  /// A grant is judged by our own clock; what Apple proved of other purchases is judged by Apple's.
  @Test func `a grant made by a clock a year ahead does not end what Apple says runs`() async throws {
    let year = 365 * 86_400.0
    try await Scratch.withLedger { ledger, _ in
      try await present(ledger, "anna", [signed("1", time: 0, expires: 2 * year, now: year)], at: year)
      let recorded = try await ledger.record(answer("anna", [evidence("2", time: 10, expires: 9_000)])).recorded
      #expect(recorded?.entitlement.explanation.evaluatedAt.map { $0 >= at(year) } == true, "the grant speaks")
      let receipt = try #require(try await ledger.pendingReceipts(dueAt: clock(year), limit: 1).first)
      try await ledger.run(SettlePending(receipt.id, reevaluated(at: 11)))
      let settled = try #require(try await ledger.profile(of: "anna")?.entitlement)
      #expect(settled.tier == "pro" && !settled.isStale && settled.explanation.evaluatedAt == at(11))
    }
  }

  /// The best of what is proven is judged at Apple's time, whatever the moment of the grant.
  @Test func `a lesser grant of a fast clock leaves the proven tier`() async throws {
    try await Scratch.withLedger { ledger, _ in
      // Ours is 200 s ahead of Apple's.
      try await present(ledger, "anna", [signed("1", expires: 300, now: 200, until: 250)], at: 200)
      let recorded = try await ledger.record(answer("anna", [evidence("2", time: 10, expires: 400)])).recorded
      #expect(recorded?.entitlement.originalTransactionID == "2")
      #expect(recorded?.entitlement.explanation.evaluatedAt == at(10))
    }
  }
}
