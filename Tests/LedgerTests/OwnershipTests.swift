import Entitlements
import Ledger
import LedgerFixtures
import Testing

/// The outcome when Ben presents a subscription that is Anna's.
struct OwnershipCase: Sendable, CustomTestStringConvertible {
  enum End: Sendable {
    case refused
    case recorded(losers: [UserID], ben: [String], anna: [String])
  }

  var name: String
  var policy: OwnershipPolicy
  /// When Anna's subscription "1" ends; the answer is judged at 100.
  var annasEnd: Double = 1_000
  var annasProduct: ProductID = pro
  /// Ben has "own" already.
  var benOwns = false
  var answer: [SubscriptionEvidence]
  var end: End
  var testDescription: String { name }

  static let other: ProductID = "com.example.unknown"
  static let shared = evidence("1", time: 100)
  static let all: [OwnershipCase] = [
    .init(name: "keep: hers stays hers", policy: .keep, answer: [shared], end: .refused),
    .init(name: "keep: hers stays hers after its end", policy: .keep, annasEnd: 50, answer: [shared], end: .refused),
    .init(
      name: "keep: a free one beside hers is claimed", policy: .keep, answer: [shared, evidence("2", time: 100)],
      end: .recorded(losers: [], ben: ["2"], anna: ["1"])),
    .init(
      name: "keep: his own beside hers is refreshed", policy: .keep, benOwns: true,
      answer: [shared, evidence("own", time: 100)],
      end: .recorded(losers: [], ben: ["own"], anna: ["1"])),
    .init(
      name: "keep: owning something else does not help", policy: .keep, benOwns: true, answer: [shared], end: .refused),
    .init(
      name: "keep: a free one of no known product does not help", policy: .keep,
      answer: [shared, evidence("2", time: 100, product: other)], end: .refused),
    .init(
      name: "keep: hers of no known product is skipped", policy: .keep, annasProduct: other,
      answer: [evidence("1", time: 100, product: other), evidence("2", time: 100)],
      end: .recorded(losers: [], ben: ["2"], anna: ["1"])),
    .init(
      name: "keep: only hers of no known product is no dispute", policy: .keep, annasProduct: other,
      answer: [evidence("1", time: 100, product: other)],
      end: .recorded(losers: [], ben: [], anna: ["1"])),
    .init(
      name: "transfer: it goes to Ben", policy: .transfer, answer: [shared],
      end: .recorded(losers: ["anna"], ben: ["1"], anna: [])),
    .init(
      name: "transfer: so does one of no known product", policy: .transfer, annasProduct: other,
      answer: [evidence("1", time: 100, product: other)],
      end: .recorded(losers: ["anna"], ben: ["1"], anna: [])),
    .init(
      name: "transfer_if_inactive: a running one stays", policy: .transferIfInactive, answer: [shared], end: .refused),
    .init(
      name: "transfer_if_inactive: a running one stays, a free one is claimed", policy: .transferIfInactive,
      answer: [shared, evidence("2", time: 100)],
      end: .recorded(losers: [], ben: ["2"], anna: ["1"])),
    .init(
      name: "transfer_if_inactive: an ended one goes, though the answer renews it", policy: .transferIfInactive,
      annasEnd: 50, answer: [shared], end: .recorded(losers: ["anna"], ben: ["1"], anna: [])),
    .init(
      name: "transfer_if_inactive: it ends at the boundary", policy: .transferIfInactive, annasEnd: 100,
      answer: [shared], end: .recorded(losers: ["anna"], ben: ["1"], anna: [])),
    .init(
      name: "transfer_if_inactive: one that granted nothing goes", policy: .transferIfInactive, annasProduct: other,
      answer: [shared], end: .recorded(losers: ["anna"], ben: ["1"], anna: [])),
  ]
}

@Suite struct OwnershipTests {
  /// The fate of a purchase that names another user, under every policy.
  @Test(arguments: OwnershipPolicy.allCases)
  func `a purchase that names another user is not given, whoever has it`(policy: OwnershipPolicy) async throws {
    try await Scratch.withLedger { ledger, _ in
      var claim = entry("ben", [evidence("1")], ownership: policy)
      claim.keysNamingOthers = [key("1")]
      // Nobody has it yet.
      #expect(try await ledger.record(claim).isRefused)
      #expect(try await ledger.profile(of: "ben") == nil)
      #expect(try await ledger.receipts(mentioning: "1").isEmpty)
      // Somebody has it, and it is over.
      _ = try await ledger.record(entry("anna", [evidence("1", expires: -50)]))
      #expect(try await ledger.record(claim).isRefused)
      #expect(try await ledger.keys(of: "anna") == [key("1")])
      // One beside it is his.
      claim = entry("ben", [evidence("1", time: 1), evidence("2", time: 1)], ownership: policy)
      claim.keysNamingOthers = [key("1")]
      #expect(try await ledger.record(claim).recorded != nil)
      #expect(try await ledger.keys(of: "ben") == [key("2")])
      #expect(try await ledger.keys(of: "anna") == [key("1")])
    }
  }

  /// The first season runs until the 30th day, and the second one until the 61st.
  @Test func `a season that runs after another one of its owner is not inactive`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(
        entry("anna", [ticket("1", bought: 0, time: 5), ticket("2", bought: 5, time: 5)], rules: rules))
      func claim(at day: Double) -> LedgerEntry {
        entry(
          "ben", [ticket("2", bought: 5, time: day)], contested: [key("2")], ownership: .transferIfInactive,
          rules: checkedRules)
      }
      #expect(try await ledger.record(claim(at: 40)).isRefused)
      let context = EvaluationContext(
        evaluatedAt: clock(40 * 86_400), recordedAt: clock(40 * 86_400), rules: checkedRules)
      #expect(
        try await ledger.isAnothers(
          claim(at: 40).evidence, contested: [key("2")], than: "ben", ownership: .transferIfInactive, context))
      #expect(try await ledger.record(claim(at: 61)).recorded?.losers == ["anna"])
    }
  }

  @Test func `a user ID that is no UUID is another user than a known one whom the purchase names`() async throws {
    try await Scratch.withLedger { ledger, _ in
      var named = evidence("1", account: annasAccount)
      // Nobody is known by that UUID: it need not be a user's ID.
      _ = try await ledger.record(entry("ben", [named], rules: rules))
      #expect(try await ledger.keys(of: "ben") == [key("1")])
      // By the configuration it is.
      let other = evidence("2", account: annasAccount)
      let sure = entry("ben", [other], rules: rules).with { $0.tokensAreUserIDs = true }
      #expect(try await ledger.record(sure).isRefused)
      // Somebody is.
      _ = try await ledger.record(entry(UserID(annasAccount), [evidence("3")], rules: rules))
      for policy in OwnershipPolicy.allCases {
        #expect(try await ledger.record(entry("ben", [other], ownership: policy, rules: rules)).isRefused)
        #expect(
          try await ledger.isAnothers(
            [other], contested: [key("2")], than: "ben", ownership: policy, reevaluated(at: 0.5)))
      }
      #expect(
        try await ledger.record(entry(UserID(annasAccount), [other], rules: rules)).recorded?.entitlement.tier
          == "pro")
      // The purchase that he has stays his, until she presents it.
      named.evidenceTime = at(5)
      named.evaluatedAt = at(5)
      #expect(try await ledger.record(entry("ben", [named], rules: rules)).recorded != nil)
      #expect(try await ledger.keys(of: "ben") == [key("1")])
      let byID = entry(UserID(annasAccount), [named], rules: rules).with { $0.origin = .askedByID }
      #expect(try await ledger.record(byID).isRefused)
      #expect(
        try await !ledger.isAnothers(
          [named], contested: [key("1")], than: UserID(annasAccount), ownership: .keep, reevaluated(at: 5)))
      #expect(
        try await ledger.record(entry(UserID(annasAccount), [named], rules: rules)).recorded?.losers == ["ben"])
      #expect(try await ledger.keys(of: "ben") == [])
    }
  }

  @Test func `a named user's purchase stays with the user to whom support moved it, whose ID is a UUID`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let named = evidence("1", account: annasAccount)
      let ben = UserID("00000000-0000-4000-8000-000000000002")
      _ = try await ledger.record(entry(UserID(annasAccount), [named], rules: rules))
      _ = try await ledger.run(moving("1", to: ben, at: 1))
      #expect(try await ledger.record(entry(UserID(annasAccount), [named], rules: rules)).isRefused)
      #expect(try await ledger.keys(of: ben) == [key("1")])
    }
  }

  @Test func `a purchase that a user has goes on being recorded, though it names another`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("ben", [evidence("1")]))
      var news = entry("ben", [evidence("1", time: 10, expires: 5)])
      news.keysNamingOthers = [key("1")]
      #expect(try await ledger.record(news).recorded != nil)
      #expect(try await ledger.profile(of: "ben")?.evidence.map(\.evidenceTime) == [at(10)])
    }
  }

  @Test(arguments: OwnershipCase.all)
  func `another user's subscription obeys the policy of ownership`(_ example: OwnershipCase) async throws {
    try await Scratch.withLedger { ledger, _ in
      let hers = evidence("1", time: 0, expires: example.annasEnd, product: example.annasProduct)
      _ = try await ledger.record(entry("anna", [hers], receipt: "hers"))
      if example.benOwns { _ = try await ledger.record(entry("ben", [evidence("own")])) }
      let before = try await (ledger.profile(of: "anna"), ledger.profile(of: "ben"))
      let outcome = try await ledger.record(
        entry("ben", example.answer, receipt: "his", ownership: example.policy, request: "dispute"))
      let after = try await (ledger.profile(of: "anna"), ledger.profile(of: "ben"))
      switch example.end {
      case .refused:
        #expect(outcome.isRefused)
        #expect(after.0?.version == before.0?.version && after.1?.version == before.1?.version)
        #expect(after.0?.evidence == [hers])
        #expect(after.1?.evidence == before.1?.evidence)
        #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["hers"])
      case .recorded(let losers, let ben, let anna):
        let recorded = try #require(outcome.recorded)
        #expect(recorded.losers == losers)
        #expect(try await ledger.keys(of: "ben") == Set(ben.map { key($0) }))
        #expect(try await ledger.keys(of: "anna") == Set(anna.map { key($0) }))
        #expect(after.0?.version == (losers.isEmpty ? 1 : 2))
        #expect(try await ledger.receipts(mentioning: "1").map(\.owner) == [anna.isEmpty ? "ben" : "anna"])
      }
    }
  }

  @Test func `a user who loses a purchase is evaluated again over the others`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 900)]))
      _ = try await ledger.record(entry("anna", [evidence("2", expires: 50)]))
      let outcome = try await ledger.record(
        entry("ben", [evidence("1", time: 100)], ownership: .transfer, request: "dispute"))
      #expect(outcome.recorded?.losers == ["anna"])
      let anna = try #require(try await ledger.profile(of: "anna"))
      #expect(anna.entitlement.status == .expired)
      #expect(anna.entitlement.originalTransactionID == "2")
      #expect(anna.version == 3)
      let line = try #require(try await ledger.wholeHistory(of: "anna").first)
      #expect(line.changed && line.requestID == "dispute" && line.entitlement == anna.entitlement)
    }
  }

  @Test func `evidence of a subscription moves with it, though the answer is older`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let newer = evidence("1", time: 50, expires: 70)
      _ = try await ledger.record(entry("anna", [newer], receipt: "newer"))
      _ = try await ledger.record(
        entry("ben", [evidence("1", time: 10, expires: 900)], receipt: "older", ownership: .transfer))
      let ben = try #require(try await ledger.profile(of: "ben"))
      #expect(ben.evidence == [newer])
      #expect(ben.entitlement.expiresAt == at(70))
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["newer"])
    }
  }

  @Test func `one answer can take from several users, and each is judged anew`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for user in ["c", "a", "b"] { _ = try await ledger.record(entry(UserID(user), [evidence(user)])) }
      let all = ["a", "b", "c"].map { evidence($0, time: 1) }
      let outcome = try await ledger.record(entry("ben", all, ownership: .transfer))
      #expect(outcome.recorded?.losers == ["a", "b", "c"])
      for user in ["a", "b", "c"] {
        #expect(try await ledger.profile(of: UserID(user))?.entitlement.reason == .noPurchases)
        #expect(try await ledger.wholeHistory(of: UserID(user)).count == 2)
      }
      #expect(try await ledger.keys(of: "ben").count == 3)
    }
  }

  @Test(arguments: OwnershipPolicy.allCases)
  func `one thousand users post one purchase at once, and exactly one owns it`(policy: OwnershipPolicy) async throws {
    try await Scratch.withLedger { ledger, _ in
      let outcomes = try await withThrowingTaskGroup { group in
        for number in 0..<1_000 {
          group.addTask { try await ledger.record(entry(UserID("u\(number)"), [evidence("1")], ownership: policy)) }
        }
        return try await group.reduce(into: [RecordOutcome]()) { $0.append($1) }
      }
      let losers = outcomes.compactMap(\.recorded).flatMap(\.losers)
      let owners = try await ledger.receipts(mentioning: "1").compactMap(\.owner)
      #expect(owners.count == 1)
      switch policy {
      case .keep, .transferIfInactive:
        #expect(outcomes.count { $0.recorded != nil } == 1)
        #expect(outcomes.count(where: \.isRefused) == 999)
      case .transfer:
        #expect(outcomes.count { $0.recorded != nil } == 1_000)
        #expect(Set(losers).count == 999 && losers.count == 999)
      }
      var entitled: [UserID] = []
      for number in 0..<1_000 {
        let user = UserID("u\(number)")
        if try await ledger.profile(of: user)?.entitlement.tier == "pro" { entitled.append(user) }
      }
      #expect(entitled == owners)
    }
  }
}
