import Entitlements
import Ledger
import LedgerFixtures
import Testing

/// The ledger's part in judging users anew without an answer of Apple's.
@Suite struct ReevaluationTests {
  private static func record(_ users: ClosedRange<Int>, in ledger: Ledger) async throws {
    for number in users {
      let product = number.isMultiple(of: 3) ? forever : pro
      let evidence = evidence("\(number)", expires: Double(number * 100), product: product)
      let entry = entry(UserID("u\(number)"), [evidence], rules: checkedRules)
      _ = try await ledger.record(entry)
    }
  }

  private static func reevaluation(
    of user: UserID, _ requestID: String = "r", at seconds: Double,
    withholds: @escaping Withholding = { _, _, _, _, _ in false }, approves: @escaping Approval = { _, _ in true },
    by rules: StandInRules = rules
  ) -> Reevaluate {
    Reevaluate(
      user, requestID: requestID,
      EvaluationContext(evaluatedAt: clock(seconds), recordedAt: clock(seconds), rules: rules),
      withholds: withholds,
      approves: approves)
  }

  @Test func `users come in pages, each once, with all that is known of them`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await Self.record(1...9, in: ledger)
      var users: [UserID] = []
      repeat {
        let page = try await ledger.profiles(after: users.last, limit: 4)
        #expect(page.users.allSatisfy { $0.profile.evidence.count == 1 && $0.profile.version == 1 })
        users += page.users.map(\.user)
        if page.last == nil { break }
      } while true
      #expect(users == (1...9).map { UserID("u\($0)") })
      #expect(try await ledger.profiles(after: "u9", limit: 4).users.isEmpty)
    }
  }

  @Test func `those who cannot be read are named, and end no page`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await Self.record(1...4, in: ledger)
      try await scratch.change("UPDATE purchase SET evidence = '[]' WHERE original_transaction_id IN ('1', '2')")
      let first = try await ledger.profiles(after: nil, limit: 2)
      #expect(first.users.isEmpty && first.unreadable == ["u1", "u2"] && first.last == "u2")
      let second = try await ledger.profiles(after: first.last, limit: 3)
      #expect(second.users.map(\.user) == ["u3", "u4"] && second.unreadable.isEmpty && second.last == nil)
    }
  }

  @Test func `a verdict is recorded with its line, its receipt and its news for the row`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await Self.record(1...1, in: ledger)
      try await ledger.settleUpdate(
        of: "u1", version: try #require(try await ledger.waitingUpdate(of: "u1")).version, isDoubtful: false,
        confirmingAt: nil)
      let outcome = try await ledger.run(
        Self.reevaluation(
          of: "u1", "rules-1", at: 5,
          by: StandInRules { user, evidence, given, now in
            #expect(evidence.count == 1 && now == at(5))
            var verdict = rules(user, evidence, given, now)
            verdict.tier = "premium"
            return verdict
          }))
      #expect(outcome == .recorded)
      let history = try await ledger.wholeHistory(of: "u1")
      #expect(history.map(\.requestID) == ["rules-1", "request"])
      #expect(history.first?.entitlement.tier == "premium" && history.first?.changed == true)
      #expect(try await ledger.profile(of: "u1")?.write == .waiting)
      #expect(try await ledger.waitingUpdate(of: "u1")?.entitlement.tier == "premium")
      // The line names a receipt that was judged already.
      #expect(try await ledger.knowledge(of: "cmVjZWlwdA==", for: "u1").wasEvaluated)
    }
  }

  @Test func `nothing is written where the verdict stands, is the same, is not admitted, or there is no such user`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      try await Self.record(1...1, in: ledger)
      let lower = StandInRules { user, _, given, now in rules(user, [], given, now) }
      let withheld = Self.reevaluation(
        of: "u1", at: 5,
        withholds: { verdict, _, _, recorded, _ in verdict.tier == "free" && recorded.tier == "pro" },
        approves: { _, _ in
          Issue.record("nothing is to be approved")
          return true
        }, by: lower)
      #expect(try await ledger.run(withheld) == .unchanged)
      #expect(try await ledger.run(Self.reevaluation(of: "u1", at: 5)) == .unchanged)
      let approves: Approval = { before, after in
        #expect(before?.tier == "pro" && after.tier == "free")
        return false
      }
      #expect(
        try await ledger.run(Self.reevaluation(of: "u1", at: 5, approves: approves, by: lower)) == .heldBack)
      #expect(
        try await ledger.run(Self.reevaluation(of: "nobody", at: 5, approves: approves, by: lower)) == .unchanged)
      #expect(try await ledger.wholeHistory(of: "u1").count == 1)
    }
  }

  @Test func `users are overdue whose recorded access is over and who wait to be asked about`() async throws {
    try await Scratch.withLedger { ledger, _ in
      // For life: u3, u6. The others end at 100, 200, 400, 500.
      try await Self.record(1...6, in: ledger)
      #expect(try await ledger.usersOverdue(since: at(99), limit: 9).isEmpty)
      #expect(try await ledger.usersOverdue(since: at(400), limit: 9) == ["u1", "u2", "u4"])
      #expect(try await ledger.usersOverdue(since: at(400), limit: 2) == ["u1", "u2"])
      #expect(try await ledger.run(Self.reevaluation(of: "u1", at: 1e6)) == .recorded)
      #expect(try await ledger.profile(of: "u1")?.entitlement.reason == .unproven)
      #expect(try await ledger.usersOverdue(since: at(400), limit: 9) == ["u2", "u4"])
    }
  }

  @Test(.ofTheFile) func `access that is given is counted by what gives it, also beside a process that has the ledger`()
    async throws
  {
    try await Scratch.withLedger { ledger, scratch in
      try await Self.record(1...7, in: ledger)
      _ = try await ledger.record(entry("nothing", [], rules: rules))
      let expected = [
        AccessCount(tier: "premium", product: forever, isForLife: true, users: 2),
        AccessCount(tier: "pro", product: pro, users: 5),
      ]
      #expect(try await ledger.accessGiven() == expected)
      #expect(await LedgerInspection.accessGiven(at: .file(scratch.path)) == expected)
      #expect(await LedgerInspection.accessGiven(at: .file(scratch.path + "-none")) == nil)
      // Those whose access has ended count until they are judged anew.
      for number in [1, 2, 4, 5, 7] {
        #expect(try await ledger.run(Self.reevaluation(of: UserID("u\(number)"), at: 1e6)) == .recorded)
      }
      #expect(try await ledger.accessGiven().map(\.product) == [forever])
    }
  }
}
