import Entitlements
import LedgerFixtures
import Testing

@testable import Ledger

/// The users whom Apple has to be told.
@Suite struct AccountTokenTests {
  private static let anna = UserID("6F0C2F3E-0D3E-4F83-9A52-2A1C9D6F6A11")
  private static let ben = UserID("11111111-1111-4111-8111-111111111111")

  private static func context(_ seconds: Double) -> EvaluationContext {
    EvaluationContext(
      evaluatedAt: clock(seconds), recordedAt: clock(seconds), tokensAreUserIDs: true, tellsAccountTokens: true,
      rules: rules)
  }

  private static func claim(
    _ user: UserID, _ evidence: SubscriptionEvidence, in ledger: Ledger, tells: Bool = true
  ) async throws {
    var entry = entry(user, [evidence], rules: rules)
    (entry.tokensAreUserIDs, entry.tellsAccountTokens) = (true, tells)
    _ = try await ledger.record(entry)
  }

  private static func move(
    _ user: UserID, at seconds: Double, in ledger: Ledger, tells: Bool = true
  ) async throws {
    var move = moving("1", to: user, at: seconds)
    move.evaluationContext = context(seconds)
    move.evaluationContext.tellsAccountTokens = tells
    _ = try await ledger.run(move)
  }

  private static func due(
    _ ledger: Ledger, _ now: Double = 20_000, until lease: Double = 20_100, in environment: StoreEnvironment? = nil
  ) async throws -> [AccountTokenTask] {
    try await ledger.claimAccountTokens(in: environment, dueAt: clock(now), until: at(lease), limit: 9)
  }

  @Test func `a purchase that names nobody is told with its claim, once, and by one at a time`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for _ in 0..<2 { try await Self.claim(Self.anna, evidence("1"), in: ledger) }
      #expect(try await ledger.backlog(at: clock(0)).accountTokens == 1)
      #expect(try await Self.due(ledger, in: .sandbox).isEmpty)
      let tasks = try await Self.due(ledger, in: .production)
      #expect(
        tasks == [
          AccountTokenTask(
            key: key("1"), bundleID: "com.example.app", token: "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11", attempts: 0)
        ])
      #expect(try await Self.due(ledger, 20_099).isEmpty, "another process has it")
      let again = try await Self.due(ledger, 20_100, until: 20_200)
      #expect(again == tasks)
      try await ledger.settle(again[0], dueAgainAt: at(20_500))
      #expect(try await Self.due(ledger, 20_499).isEmpty)
      let last = try await Self.due(ledger, 20_500, until: 20_600)
      #expect(last.map(\.attempts) == [1])
      try await ledger.returnAccountTokens(last, claimedUntil: at(20_600))
      #expect(try await Self.due(ledger, 20_501).count == 1)
      try await ledger.settle(last[0], dueAgainAt: nil)
      #expect(try await ledger.backlog(at: clock(0)).accountTokens == 0)
    }
  }

  @Test func `nothing is told of a user without a UUID, nor of a purchase that names the user or is shared`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      try await Self.claim("anna", evidence("1"), in: ledger)
      try await Self.claim(Self.anna, evidence("2", account: Self.anna.accountToken), in: ledger)
      var shared = evidence("3")
      shared.purchases[0].ownership = .familyShared
      try await Self.claim(Self.anna, shared, in: ledger)
      try await Self.claim(Self.anna, evidence("4"), in: ledger, tells: false)
      #expect(try await Self.due(ledger).isEmpty)
    }
  }

  @Test func `a purchase that moves is told with its new user, after the former one, or not at all`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await Self.claim(Self.anna, evidence("1"), in: ledger)
      let annas = try await Self.due(ledger)
      try await Self.move(Self.ben, at: 20_001, in: ledger)
      #expect(try await Self.due(ledger, 20_050).isEmpty, "Apple is being told Anna")
      try await ledger.settle(annas[0], dueAgainAt: nil)
      let bens = try await Self.due(ledger, 20_050, until: 20_150)
      #expect(bens.map(\.token) == [Self.ben.accountToken])
      try await ledger.settle(bens[0], dueAgainAt: nil)
      try await Self.move(Self.anna, at: 20_200, in: ledger)
      try await Self.move("carl", at: 20_201, in: ledger)
      #expect(try await Self.due(ledger, 30_000).isEmpty)
    }
  }

  @Test func `a purchase that moves while nobody is told is not told with its former user later`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await Self.claim(Self.anna, evidence("1"), in: ledger)
      try await Self.move(Self.ben, at: 20_000, in: ledger, tells: false)
      #expect(try await Self.due(ledger, 30_000).isEmpty)
    }
  }

  @Test func `an anonymous customer's purchase is told when the user signs in`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let anonymous: UserID = "$RCAnonymousID:87c6049c58069238dce29853916d624c"
      _ = try await ledger.meet(anonymous, at: clock(0))
      try await Self.claim(anonymous, evidence("1"), in: ledger)
      #expect(try await Self.due(ledger).isEmpty)
      _ = try await ledger.run(JoinCustomer(anonymous, to: Self.anna, requestID: "join", Self.context(50)))
      #expect(try await Self.due(ledger).map(\.token) == [Self.anna.accountToken])
    }
  }
}
