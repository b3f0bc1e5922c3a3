import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

@Suite struct RecheckTests {
  /// The part of the spread that a subscription gets, in seconds.
  private func offset(_ id: String) -> Double { Double(RecheckSchedule.offset(of: key(id))) / 1_000 }

  private func answer(_ user: UserID, _ evidence: [SubscriptionEvidence], receipt: String = "YQ==") -> LedgerEntry {
    entry(user, evidence, receipt: receipt).with { $0.rules = checkedRules }
  }

  @Test func `a subscription is asked about when its state ends, and not before`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100)], receipt: "Yg=="))
      let due = 100 + offset("1")
      #expect(try await ledger.claimRechecks(dueAt: clock(due - 0.001), limit: 10).isEmpty)
      let claimed = try await ledger.claimRechecks(dueAt: clock(due), limit: 10)
      let receipt = KeptReceipt(base64: "Yg==", environment: .production, bundleID: "com.example.app", owner: "anna")
      #expect(
        claimed == [
          Recheck(
            key: key("1"), owner: "anna", receipt: receipt, scheduledAt: at(100),
            dueAt: StoredForm.date(try StoredForm.milliseconds(at(100)) + RecheckSchedule.offset(of: key("1"))),
            attempts: 1, dueAgainAt: StoredForm.date(try StoredForm.milliseconds(at(due)) + 120_000))
        ])
    }
  }

  /// Two minutes, doubled up to a day, for two months; then once a month.
  @Test func `each claim puts the next one off for longer`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100)]))
      var now = 1_000.0
      for attempt in 1...72 {
        let claimed = try await ledger.claimRechecks(dueAt: clock(now), limit: 10)
        #expect(claimed.map(\.attempts) == [attempt])
        #expect(claimed.map(\.scheduledAt) == [at(100)])
        let pause = attempt > 70 ? 30 * 86_400 : min(86_400, 120 * pow(2, Double(attempt - 1)))
        #expect(try await ledger.claimRechecks(dueAt: clock(now + pause - 0.001), limit: 10).isEmpty)
        now += pause
      }
    }
  }

  @Test func `an answer takes the place of claims`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100)]))
      for now in [200.0, 320, 560] { #expect(try await ledger.claimRechecks(dueAt: clock(now), limit: 10).count == 1) }
      _ = try await ledger.record(answer("anna", [evidence("1", time: 570, expires: 700)]))
      #expect(try await ledger.claimRechecks(dueAt: clock(699), limit: 10).isEmpty)
      let claimed = try await ledger.claimRechecks(dueAt: clock(760), limit: 10)
      #expect(claimed.map(\.attempts) == [1])
      #expect(claimed.map(\.scheduledAt) == [at(700)])
    }
  }

  @Test func `a refund that the next answer does not show is asked about soon`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 9_000)]))
      var refunded = evidence("1", time: 11, expires: 9_000, cancelled: 10)
      (refunded.coverage, refunded.renewals) = (.partial(since: nil), [])
      _ = try await ledger.record(answer("anna", [refunded]))
      #expect(try await ledger.claimRechecks(dueAt: clock(1e6), limit: 10).isEmpty)
      for (time, next) in [(20.0, 70.0), (75, 130), (620, 1_220)] {
        _ = try await ledger.record(answer("anna", [evidence("1", time: time, expires: 9_000)]))
        #expect(try await ledger.claimRechecks(dueAt: clock(next - 1), limit: 10).isEmpty)
        #expect(try await ledger.claimRechecks(dueAt: clock(next + 60), limit: 10).map(\.scheduledAt) == [at(next)])
      }
      _ = try await ledger.record(answer("anna", [evidence("1", time: 1_300, expires: 9_000, cancelled: 10)]))
      #expect(try await ledger.claimRechecks(dueAt: clock(1e6), limit: 10).isEmpty)
    }
  }

  @Test func `a subscription that has ended for good is asked about no more`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100)]))
      var ended = evidence("1", time: 200, expires: 100)
      ended.renewals = [RenewalInfo(originalTransactionID: "1", autoRenews: false, expirationIntent: 1)]
      _ = try await ledger.record(answer("anna", [ended]))
      #expect(try await ledger.claimRechecks(dueAt: clock(1e9), limit: 10).isEmpty)
    }
  }

  /// The first season runs for 30 days, and the second one for the 31 days after them.
  @Test func `a season that was bought ahead is asked about when it ends, after the one before it`() async throws {
    let end = 61.0 * 86_400
    let tickets = [ticket("1", bought: 0, time: 0), ticket("2", bought: 5, time: 5)]
    try await Scratch.withLedger { ledger, _ in
      for ticket in tickets { _ = try await ledger.record(answer("anna", [ticket])) }
      #expect(try await ledger.claimRechecks(dueAt: clock(end - 1), limit: 10).map(\.scheduledAt) == [at(30 * 86_400)])
      #expect(try await ledger.claimRechecks(dueAt: clock(end + 60), limit: 10).map(\.scheduledAt) == [at(end)])
    }
    try await Scratch.withLedger { ledger, _ in
      for ticket in tickets { _ = try await ledger.record(entry("anna", [ticket])) }
      #expect(try await ledger.scheduleMissing(by: checkedRules, at: clock(40 * 86_400), limit: 1) == 1)
      #expect(try await ledger.claimRechecks(dueAt: clock(end + 60), limit: 10).map(\.scheduledAt) == [at(end)])
    }
    // Without the first one the second one ends earlier.
    try await Scratch.withLedger { ledger, _ in
      for ticket in tickets + [ticket("1", bought: 0, time: 6, cancelled: 6)] {
        _ = try await ledger.record(answer("anna", [ticket]))
      }
      #expect(try await ledger.claimRechecks(dueAt: clock(end - 1), limit: 10).map(\.scheduledAt) == [at(35 * 86_400)])
    }
  }

  @Test func `an answer about one subscription leaves the others due as they were`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100), evidence("2", expires: 100)]))
      _ = try await ledger.record(answer("anna", [evidence("1", time: 50, expires: 5_000)]))
      #expect(try await ledger.claimRechecks(dueAt: clock(160), limit: 10).map(\.key) == [key("2")])
    }
  }

  @Test func `Apple is asked about a purchase of which another user presents a newer period`() async throws {
    for isBeside in [false, true] {
      try await Scratch.withLedger { ledger, _ in
        _ = try await ledger.record(entry("anna", [evidence("1", expires: 100)]))
        if isBeside { _ = try await ledger.record(entry("ben", [evidence("2")])) }
        let known = evidence("1", time: 20, expires: 100)
        let renewed = evidence("1", time: 200, begin: 100, expires: 1_000)
        for (answer, due) in [(known, []), (renewed, [key("1")])] {
          let outcome = try await ledger.record(entry("ben", [answer] + (isBeside ? [evidence("2", time: 300)] : [])))
          #expect(outcome.isRefused != isBeside)
          #expect(try await ledger.claimRechecks(dueAt: clock(5_001), limit: 10).map(\.key) == due)
        }
        #expect(try await ledger.keys(of: "anna") == [key("1")])
      }
    }
  }

  @Test func `a purchase that cannot be read holds up no other, and is looked at again a day later`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for (user, id) in [("anna", "1"), ("ben", "2")] as [(UserID, String)] {
        _ = try await ledger.record(answer(user, [evidence(id, expires: 100)]))
      }
      try await scratch.change("UPDATE purchase SET evidence = '[]' WHERE original_transaction_id = '1'")
      func claim(at seconds: Double) async throws -> (due: [SubscriptionKey], unreadable: [Int64]) {
        var unreadable: [Int64] = []
        let due = try await ledger.claimRechecks(dueAt: clock(seconds), limit: 10) { unreadable += $0 }
        return (due.map(\.key), unreadable)
      }
      let first = try await claim(at: 200)
      #expect(first.due == [key("2")] && first.unreadable.count == 1)
      #expect(try await claim(at: 400).unreadable.isEmpty)
      #expect(try await claim(at: 86_600).unreadable == first.unreadable)
      // A start makes due whatever was put off.
      try await ledger.releaseClaims()
      #expect(try await claim(at: 86_700).unreadable == first.unreadable)
    }
  }

  @Test func `after an error of PostgreSQL's nothing more is done in the transaction`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = await #expect(throws: LedgerError.self) {
        _ = try await ledger.engine.submit { tables in
          try tables.skippingUnreadable([1, 2]) { number in
            if number == 1 { throw PostgreSQLError(state: "23514", message: "") }
            Issue.record("the next one was taken")
          }
        }
      }
    }
  }

  @Test func `where checks are scheduled, one that cannot be read is left out`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for (user, id) in [("anna", "1"), ("ben", "2")] as [(UserID, String)] {
        _ = try await ledger.record(entry(user, [evidence(id, expires: 100)]))
      }
      try await scratch.change("UPDATE purchase SET evidence = '[]' WHERE original_transaction_id = '1'")
      var unreadable: [Int64] = []
      let count = try await ledger.scheduleMissing(by: checkedRules, at: clock(0), limit: 10) { unreadable += $0 }
      #expect(count == 1 && unreadable.count == 1)
    }
  }

  @Test func `a purchase whose owner has one that cannot be read is scheduled, and the other is named`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 100), evidence("2", expires: 200)]))
      try await scratch.change("UPDATE purchase SET evidence = '[]' WHERE original_transaction_id = '1'")
      var unreadable: [Int64] = []
      let count = try await ledger.scheduleMissing(by: checkedRules, at: clock(0), limit: 10) { unreadable += $0 }
      let row = try await scratch.rows("SELECT id FROM purchase WHERE original_transaction_id = '1'")
      #expect(count == 1 && row.joined().compactMap(\.self) == unreadable.map { "\($0)" })
      #expect(try await ledger.claimRechecks(dueAt: clock(500), limit: 10).map(\.key) == [key("2")])
    }
  }

  @Test func `a search for refunds goes past a purchase that cannot be read`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for (user, id) in [("anna", "1"), ("ben", "2")] as [(UserID, String)] {
        _ = try await ledger.record(entry(user, [evidence(id, expires: 100)]))
      }
      try await scratch.change("UPDATE purchase SET evidence = '[]' WHERE original_transaction_id = '1'")
      let first = try await ledger.refundQuestions(after: 0, limit: 1)
      #expect(first.questions.isEmpty && first.unreadable.count == 1)
      let second = try await ledger.refundQuestions(after: try #require(first.last), limit: 1)
      #expect(second.questions.map(\.key) == [key("2")] && second.unreadable.isEmpty)
      #expect(try await ledger.refundQuestions(after: try #require(second.last), limit: 1).last == nil)
    }
  }

  /// Ours is 200 s ahead: each answer says that the subscription still runs.
  @Test func `a clock ahead of Apple's does not ask again and again`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100)]))
      var claims = 0
      for ours in stride(from: 100.0, to: 400, by: 1) {
        for recheck in try await ledger.claimRechecks(dueAt: clock(ours), limit: 10) {
          claims += 1
          _ = try await ledger.record(answer(recheck.owner, [evidence("1", time: ours - 200, expires: 100)]))
        }
      }
      #expect(1...4 ~= claims, "\(claims)")
    }
  }

  @Test func `a question claimed by a clock a year ahead is due as Apple's answer says`() async throws {
    let year = 365 * 86_400.0
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 1_000)]))
      #expect(try await ledger.claimRechecks(dueAt: clock(year), limit: 10).count == 1)
      _ = try await ledger.record(answer("anna", [evidence("1", time: 50, expires: 1_000)]))
      #expect(try await ledger.claimRechecks(dueAt: clock(999), limit: 10).isEmpty)
      #expect(try await ledger.claimRechecks(dueAt: clock(1_060), limit: 10).count == 1)
    }
  }

  @Test(.ofTheFile, arguments: [true, false])
  func `a question claimed by a clock a year ahead is due as its state says`(afterRestart: Bool) async throws {
    let year = 365 * 86_400.0
    let scratch = try Scratch()
    var ledger = try await scratch.open()
    _ = try await ledger.record(answer("anna", [evidence("1", expires: 1_000)]))
    #expect(try await ledger.claimRechecks(dueAt: clock(year), limit: 10).count == 1)
    if afterRestart {
      await ledger.close()
      ledger = try await scratch.open()
    } else {
      try await ledger.releaseClaims()
    }
    #expect(try await ledger.claimRechecks(dueAt: clock(999), limit: 10).isEmpty)
    #expect(try await ledger.claimRechecks(dueAt: clock(1_000), limit: 10).map(\.attempts) == [2])
    await ledger.close()
  }

  @Test(.ofTheFile) func `a claim of a process that ended is due at once, and still counted`() async throws {
    let scratch = try Scratch()
    let first = try await scratch.open()
    _ = try await first.record(answer("anna", [evidence("1", expires: 100)]))
    for now in [200.0, 320, 560] { #expect(try await first.claimRechecks(dueAt: clock(now), limit: 10).count == 1) }
    await first.close()
    let second = try await scratch.open()
    #expect(try await second.claimRechecks(dueAt: clock(561), limit: 10).map(\.attempts) == [4])
    await second.close()
  }

  @Test func `a claim that is given back is due as it was, unless an answer has come since`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for id in ["1", "2"] { _ = try await ledger.record(answer(UserID("u\(id)"), [evidence(id, expires: 100)])) }
      #expect(try await ledger.claimRechecks(dueAt: clock(200), limit: 10).map(\.attempts) == [1, 1])
      let claimed = try await ledger.claimRechecks(dueAt: clock(320), limit: 10)
      _ = try await ledger.record(answer("u2", [evidence("2", time: 321, expires: 700)]))
      try await ledger.giveBack(claimed[...])
      let again = try await ledger.claimRechecks(dueAt: clock(320), limit: 10)
      #expect(again.map(\.key) == [key("1")])
      #expect(again.map(\.attempts) == [2])
      #expect(try await ledger.claimRechecks(dueAt: clock(699), limit: 10).map(\.key) == [key("1")])
    }
  }

  @Test func `a subscription that was asked about in an outage is due in two minutes, each time`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100)]))
      for now in stride(from: 200.0, through: 21_800, by: 120) {
        let claimed = try #require(try await ledger.claimRechecks(dueAt: clock(now), limit: 10).first)
        #expect(claimed.attempts <= 2)
        try await ledger.retrySoon(claimed, at: clock(now))
        #expect(try await ledger.claimRechecks(dueAt: clock(now + 119), limit: 10).isEmpty)
      }
    }
  }

  @Test func `a claim without an answer is over when time changes the verdict, and one with an answer is not`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100)]))
      func claim(at seconds: Double) async throws -> Recheck? {
        try await ledger.claimRechecks(dueAt: clock(seconds), limit: 10).first
      }
      for now in [200.0, 320] { #expect(try await claim(at: now) != nil) }
      try await ledger.bringForward(try #require(try await claim(at: 560)), at: at(560)) { _, _ in at(700) }
      #expect(try await claim(at: 699) == nil)
      let last = try #require(try await claim(at: 700))
      try await ledger.bringForward(last, at: at(700)) { _, _ in at(5_000) }
      #expect(try await claim(at: 1_659) == nil, "the claim ends before")
      _ = try await ledger.record(answer("anna", [evidence("1", time: 1_600, expires: 9_000)]))
      try await ledger.bringForward(last, at: at(1_600)) { _, _ in at(1_650) }
      #expect(try await claim(at: 8_999) == nil)
    }
  }

  @Test func `a verdict that is held back leaves the claim as it was`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100)]))
      #expect(try await ledger.claimRechecks(dueAt: clock(200), limit: 10).count == 1)
      let outcome = try await ledger.record(
        answer("anna", [evidence("1", time: 200, expires: 100)]).with { $0.approves = { _, _ in false } })
      guard case .heldBack = outcome else {
        Issue.record("\(outcome)")
        return
      }
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
      #expect(try await ledger.claimRechecks(dueAt: clock(319), limit: 10).isEmpty)
      #expect(try await ledger.claimRechecks(dueAt: clock(320), limit: 10).count == 1)
    }
  }

  @Test func `the longest overdue are claimed first, and no more than asked for`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for (id, expires) in [("1", 700.0), ("2", 100), ("3", 400)] {
        _ = try await ledger.record(answer(UserID("u\(id)"), [evidence(id, expires: expires)]))
      }
      #expect(try await ledger.claimRechecks(dueAt: clock(5_000), limit: 2).map(\.owner) == ["u2", "u3"])
      #expect(try await ledger.claimRechecks(dueAt: clock(5_000), limit: 2).map(\.owner) == ["u1"])
      #expect(try await ledger.claimRechecks(dueAt: clock(1e6), limit: -1).isEmpty)
    }
  }

  @Test func `a subscription that moved is asked about for its new owner, with the newest receipt`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(answer("anna", [evidence("1", expires: 100)], receipt: "YQ=="))
      _ = try await ledger.record(
        answer("ben", [evidence("1", time: 10, expires: 100)], receipt: "Yg==").with {
          $0.origin = .presented(.transfer)
        })
      let claimed = try await ledger.claimRechecks(dueAt: clock(160), limit: 10)
      #expect(claimed.map(\.owner) == ["ben"])
      #expect(claimed.map(\.receipt.base64) == ["Yg=="])
    }
  }

  @Test func `subscriptions that end together are spread over a minute, each always alike`() {
    let offsets = (0..<1_000).map { RecheckSchedule.offset(of: key("\($0)")) }
    #expect(offsets.allSatisfy { (0..<60_000).contains($0) })
    let perSecond = Dictionary(grouping: offsets) { $0 / 1_000 }.mapValues(\.count)
    #expect(perSecond.count == 60 && (perSecond.values.max() ?? 0) < 60)
    #expect(RecheckSchedule.offset(of: key("1")) != RecheckSchedule.offset(of: key("1", .sandbox)))
    #expect(offsets == (0..<1_000).map { RecheckSchedule.offset(of: key("\($0)")) })
  }
}
