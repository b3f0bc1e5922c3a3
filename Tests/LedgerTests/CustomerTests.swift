import Access
import Entitlements
import LedgerFixtures
import Testing

@testable import Ledger

/// The customers of SDKs, and the anonymous among them who sign in.
@Suite struct CustomerTests {
  private let anonymous: UserID = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
  private let other: UserID = "$RCAnonymousID:ffffffffffffffffffffffffffffffff"

  private func join(_ ledger: Ledger, _ id: UserID, _ user: UserID, at seconds: Double = 50) async throws
    -> JoinCustomer.Outcome
  {
    try await ledger.run(JoinCustomer(id, to: user, requestID: "join", reevaluated(at: seconds)))
  }

  @Test func `a customer is kept from the first time on, and seen once a day`() async throws {
    try await Scratch.withLedger { ledger, _ async throws in
      let first = try await ledger.meet("anna", at: clock(0))
      #expect(first.isNew && first.customer.firstSeenAt == at(0))
      let commits = ledger.statistics.commits
      #expect(try await !ledger.meet("anna", at: clock(3_600)).isNew)
      #expect(ledger.statistics.commits == commits)
      let later = try await ledger.meet("anna", at: clock(86_400)).customer
      #expect(later.firstSeenAt == at(0) && later.lastSeenAt == at(86_400) && later.originalID == "anna")
    }
  }

  @Test func `a user who bought before any SDK came is no new customer`() async throws {
    try await Scratch.withLedger { ledger, _ async throws in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 1_000)], rules: rules))
      let met = try await ledger.meet("anna", at: clock(500_000))
      #expect(!met.isNew && met.customer.firstSeenAt < at(500_000))
    }
  }

  @Test func `purchases, what was given and receipts that wait move, and both users have a line`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      _ = try await ledger.record(entry(anonymous, [evidence("1", expires: 1_000)], rules: rules))
      _ = try await ledger.run(
        Give(
          user: anonymous, kind: .promotion, tier: "premium", startsAt: at(0), endsAt: at(200), author: "desk",
          requestID: "grant", evaluationContext: reevaluated(at: 0)))
      #expect(try await join(ledger, anonymous, "anna") == .joined)
      let anna = try #require(try await ledger.profile(of: "anna"))
      #expect(anna.evidence.map(\.key.originalTransactionID) == ["1"] && anna.given.count == 1)
      #expect(anna.entitlement.tier == "premium")
      #expect(try await ledger.given(to: "anna", limit: 10).count == 1)
      #expect(try await ledger.ownedPurchases("1").first?.owner == "anna")
      // The row of the named user alone is written.
      #expect(try await ledger.waitingUpdate(of: "anna")?.entitlement.tier == "premium")
      #expect(try await ledger.claimUpdates(dueAt: clock(100), until: at(200), limit: 10).map(\.user) == ["anna"])
      let history = try await ledger.timeline(of: "anna", before: nil, limit: 10).events
      #expect(history.count == 2, "\(history)")
      #expect(try await ledger.profile(of: anonymous)?.evidence == anna.evidence)
      #expect(try await join(ledger, anonymous, "anna") == .unchanged)
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `what was given to both is in one order, whoever got it first`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      for user in [anonymous, "anna"] {
        _ = try await ledger.run(
          Give(
            user: user, kind: .promotion, tier: "pro", startsAt: at(0), endsAt: at(200), author: "desk",
            requestID: "grant", evaluationContext: reevaluated(at: 0)))
      }
      #expect(try await join(ledger, anonymous, "anna") == .joined)
      #expect(try await ledger.profile(of: "anna")?.given.map(\.id) == [1, 2])
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `a purchase that names a third user is left behind, for the user who proves it`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      let named = evidence("2", expires: 1_000, account: annasAccount)
      _ = try await ledger.record(entry(anonymous, [evidence("1", expires: 1_000), named], rules: rules))
      _ = try await ledger.record(entry(UserID(annasAccount), [evidence("3", expires: 1_000)], rules: rules))
      #expect(try await join(ledger, anonymous, "ben") == .joined)
      #expect(try await ledger.keys(of: "ben") == [key("1")])
      #expect(try await ledger.keys(of: anonymous) == [key("1")])
      #expect(try await ledger.profile(of: "ben")?.entitlement.tier == "pro")
      let left = try #require(try await ledger.ownedPurchases("2").first?.owner)
      #expect(left.isErased)
      #expect(try await ledger.record(entry("ben", [named], rules: rules)).isRefused)
      #expect(try await ledger.record(entry("carl", [named], rules: rules)).isRefused)
      _ = try await ledger.record(entry(UserID(annasAccount), [named], rules: rules))
      #expect(try await ledger.keys(of: UserID(annasAccount)) == [key("2"), key("3")])
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `a provisional grant of a third user's purchase ends with the join`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      var named = signed("1", time: -50, now: 0, until: 100)
      named.purchases[0].appAccountToken = annasAccount
      let own = signed("2", time: -50, now: 0, until: 100)
      for (receipt, evidence) in [("x", named), ("y", own)] {
        _ = try await ledger.run(
          Postpone(
            pending(receipt, of: anonymous, at: 0), provisional: [evidence], reevaluated(at: 0)))
      }
      let ben: UserID = "00000000-0000-4000-8000-000000000002"
      #expect(try await join(ledger, anonymous, ben) == .joined)
      #expect(try await ledger.profile(of: ben)?.evidence.map(\.key) == [key("2")])
      // Her own receipt may count meanwhile.
      _ = try await ledger.run(
        Postpone(
          pending("x", of: UserID(annasAccount), at: 51), provisional: [named], reevaluated(at: 51)))
      #expect(try await ledger.profile(of: UserID(annasAccount))?.entitlement.tier == "pro")
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `where every account token is a user's, a named purchase does not go to another kind of ID`() async throws
  {
    for tokensAreUserIDs in [true, false] {
      try await Scratch.withLedger { ledger, _ async throws in
        let named = evidence("1", expires: 1_000, account: annasAccount)
        _ = try await ledger.record(entry(anonymous, [named], rules: rules))
        let context = EvaluationContext(
          evaluatedAt: clock(50), recordedAt: clock(50), tokensAreUserIDs: tokensAreUserIDs, rules: rules)
        #expect(try await ledger.run(JoinCustomer(anonymous, to: "ben", requestID: "join", context)) == .joined)
        #expect(try await ledger.keys(of: "ben") == (tokensAreUserIDs ? [] : [key("1")]))
      }
    }
  }

  @Test func `whatever is recorded for the ID afterwards is the user's`() async throws {
    try await Scratch.withLedger { ledger, _ async throws in
      #expect(try await join(ledger, anonymous, "anna") == .joined)
      let answer = entry(anonymous, [evidence("1", expires: 1_000)], rules: rules)
      #expect(try await ledger.record(answer).recorded != nil)
      #expect(try await ledger.ownedPurchases("1").first?.owner == "anna")
      #expect(try await ledger.user(named: anonymous) == "anna")
      #expect(try await ledger.meet(anonymous, at: clock(60)).customer.user == "anna")
    }
  }

  @Test func `a receipt that waits under the ID afterwards counts for the user`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      #expect(try await join(ledger, anonymous, "anna") == .joined)
      let grant = signed("1", time: 50, now: 51, until: 200)
      _ = try await ledger.run(
        Postpone(pending("x", of: anonymous, at: 51), provisional: [grant], reevaluated(at: 51)))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
      #expect(try await ledger.pendingReceipts(dueAt: clock(60), limit: 5).map(\.user) == ["anna"])
      #expect(try await !ledger.knowledge(of: "x", for: anonymous).wasEvaluated)
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `a purchase that support moves to the ID leaves its user's grant alone`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      _ = try await ledger.record(entry("ben", [evidence("1", expires: 1_000)], rules: rules))
      _ = try await ledger.erase(Anna.erasure("ben", hasRows: false))
      #expect(try await join(ledger, anonymous, "anna", at: 9_050) == .joined)
      let grant = signed("1", time: 9_100, expires: 20_000, until: 15_000)
      _ = try await ledger.run(
        Postpone(pending("x", of: "anna", at: 9_100), provisional: [grant], reevaluated(at: 9_100)))
      guard case .moved = try await ledger.run(moving("1", to: anonymous, at: 9_200)) else { throw Unexpected() }
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `an ID that was joined leads on where its user is joined to another`() async throws {
    try await Scratch.withLedger { ledger, _ async throws in
      #expect(try await join(ledger, anonymous, other) == .joined)
      #expect(try await join(ledger, other, "anna") == .joined)
      #expect(try await ledger.user(named: anonymous) == "anna")
      #expect(try await join(ledger, anonymous, "ben") == .separate)
      #expect(try await ledger.user(named: anonymous) == "anna")
    }
  }

  @Test func `a purchase at another store moves, and events under the old ID go on counting for the user`() async throws
  {
    try await Scratch.withLedger { ledger, scratch async throws in
      func take(_ id: String, at seconds: Double) async throws -> RevenueCatReportOutcome {
        try await ledger.run(
          RevenueCatReport.purchase(
            RevenueCatReport.event(.period, id: id, at: seconds, user: anonymous, until: 1_000 + seconds))
        )
      }
      _ = try await take("1", at: 1)
      #expect(try await join(ledger, anonymous, "anna", at: 2) == .joined)
      #expect(try await ledger.ownedPurchases(RevenueCatReport.playKey.originalTransactionID).first?.owner == "anna")
      guard case .recorded(let owner, let losers, let isForAnother) = try await take("2", at: 100) else {
        throw Unexpected()
      }
      #expect(owner == "anna" && losers.isEmpty && !isForAnother)
      #expect(try await ledger.profile(of: "anna")?.evidence.map(\.key) == [RevenueCatReport.playKey])
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `a transfer from the user takes along what the ID had bought, unless it came before the join`()
    async throws
  {
    try await Scratch.withLedger { ledger, scratch async throws in
      let first = RevenueCatReport.playKey
      let second = RevenueCatReport.Store("play_store").key(.production, "GPA.2")
      func take(_ change: StoreEvent.Change, _ id: String, at seconds: Double, _ user: UserID, _ key: SubscriptionKey)
        async throws -> String
      {
        let event = RevenueCatReport.event(change, id: id, at: seconds, user: user)
        return outcome(try await ledger.run(RevenueCatReport.purchase(event, of: key)))
      }
      func transfer(_ id: String, at seconds: Double, from: UserID, to: UserID) async throws -> String {
        let report = RevenueCatReport.report(.transfer(from: [from], to: to), id: id, at: seconds)
        return outcome(try await ledger.run(report))
      }
      func outcome(_ outcome: RevenueCatReportOutcome) -> String {
        guard case .recorded(let owner, let losers, let isForAnother) = outcome else { return "not recorded" }
        return "\(owner)" + losers.map { " from \($0)" }.joined() + (isForAnother ? " for another" : "")
      }
      _ = try await take(.period, "1", at: 1, anonymous, first)
      #expect(try await join(ledger, anonymous, "anna", at: 2) == .joined)
      #expect(try await transfer("2", at: 100, from: "anna", to: "ben") == "ben from anna")
      #expect(try await take(.renewalOff, "3", at: 200, anonymous, first) == "ben for another")
      #expect(try await ledger.ownedPurchases(first.originalTransactionID).map(\.owner) == ["ben"])

      _ = try await take(.period, "4", at: 201, other, second)
      #expect(try await transfer("5", at: 202, from: "carl", to: "dora") == "not recorded")
      #expect(try await join(ledger, other, "carl", at: 203) == .joined)
      #expect(try await take(.renewalOff, "6", at: 204, other, second) == "carl")
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `a period that RevenueCat gives the ID meanwhile is the user's, and ends as theirs`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      func give(_ id: String, at seconds: Double) async throws {
        _ = try await ledger.run(
          RevenueCatReport.temporary(id: id, at: seconds, user: anonymous) { $0.product = pro })
      }
      func end(_ id: String, at seconds: Double) async throws {
        let event = RevenueCatReport.event(
          .expired, id: id, at: seconds, user: anonymous, from: -500, until: -100)
        _ = try await ledger.run(RevenueCatReport.purchase(event))
      }
      try await give("1", at: 1)
      #expect(try await join(ledger, anonymous, "anna", at: 2) == .joined)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
      try await end("2", at: 3)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      try await give("3", at: 4)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
      try await end("4", at: 5)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `two named users keep what they have`() async throws {
    try await Scratch.withLedger { ledger, _ async throws in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 1_000)], rules: rules))
      #expect(try await join(ledger, "anna", "ben") == .separate)
      #expect(try await ledger.ownedPurchases("1").first?.owner == "anna")
      #expect(try await ledger.profile(of: "ben") == nil)
    }
  }

  @Test func `a user's UUID is the same in capitals`() async throws {
    let uuid: UserID = "6F0C2F3E-0D3E-4F83-9A52-2A1C9D6F6A11"
    try await Scratch.withLedger { ledger, _ async throws in
      _ = try await ledger.record(entry(uuid, [evidence("1", expires: 1_000)], rules: rules))
      _ = try await ledger.record(entry(anonymous, [evidence("2", expires: 2_000)], rules: rules))
      #expect(try await join(ledger, anonymous, UserID(uuid.rawValue.lowercased())) == .joined)
      #expect(try await ledger.user(named: anonymous).rawValue == uuid.rawValue)
      #expect(try await ledger.profile(of: uuid)?.evidence.count == 2)
    }
  }

  @Test func `there is room for a hundred attributes`() async throws {
    try await Scratch.withLedger { ledger, _ async throws in
      let many = Dictionary(
        uniqueKeysWithValues: (0..<101).map {
          ("a\($0 + 100)", CustomerAttribute(value: "x", updatedAtMilliseconds: 1))
        })
      #expect(try await ledger.keep(many, of: "anna", at: clock(0)) == ["a200"])
      #expect(try await ledger.attributes(of: "anna").count == 100)
      let newer = ["a100": CustomerAttribute(value: "y", updatedAtMilliseconds: 2)]
      #expect(try await ledger.keep(newer, of: "anna", at: clock(1)) == [])
      #expect(try await ledger.attributes(of: "anna")["a100"]?.value == "y")
    }
  }

  @Test func `attributes are bounded in bytes, one by one and all together`() async throws {
    try await Scratch.withLedger { ledger, _ async throws in
      // A character of two thousand bytes.
      let long = "e" + String(repeating: "\u{301}", count: 999)
      func attributes(_ count: Int) -> [String: CustomerAttribute] {
        let pairs = (100..<100 + count).map { ("a\($0)", CustomerAttribute(value: long, updatedAtMilliseconds: 1)) }
        return Dictionary(uniqueKeysWithValues: pairs)
      }
      let refused = try await ledger.keep(attributes(40), of: "anna", at: clock(0))
      #expect(refused == (132..<140).map { "a\($0)" })
      #expect(try await ledger.attributes(of: "anna").count == 32)
      // A shorter value makes room.
      _ = try await ledger.keep(["a100": .init(value: "x", updatedAtMilliseconds: 2)], of: "anna", at: clock(1))
      #expect(try await ledger.keep(["a132": attributes(1)["a100"]!], of: "anna", at: clock(2)) == [])
    }
  }

  @Test func `a post that says nothing new writes no row, and one attribute is one row`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      let many = Dictionary(
        uniqueKeysWithValues: (0..<100).map { ("a\($0)", CustomerAttribute(value: "x", updatedAtMilliseconds: 5)) })
      _ = try await ledger.keep(many, of: "anna", at: clock(0))
      _ = try await ledger.keep(
        ["a7": .init(value: "y", updatedAtMilliseconds: 6), "a8": .init(value: "old", updatedAtMilliseconds: 4)],
        of: "anna", at: clock(1))
      let rows = try await scratch.rows(
        "SELECT name, value FROM customer_attribute WHERE key = 'anna' AND (updated_at <> 5 OR value <> 'x')")
      #expect(rows == [["a7", "y"]])
    }
  }

  @Test func `an invented ID moves no first day, and one that bought does`() async throws {
    try await Scratch.withLedger { ledger, _ async throws in
      _ = try await ledger.meet(anonymous, at: clock(0))
      _ = try await ledger.keep(["a": .init(value: "x", updatedAtMilliseconds: 1)], of: anonymous, at: clock(0))
      _ = try await ledger.meet("anna", at: clock(10))
      #expect(try await join(ledger, anonymous, "anna") == .joined)
      let anna = try await ledger.meet("anna", at: clock(60)).customer
      #expect(anna.firstSeenAt == at(10) && anna.originalID == "anna")
      _ = try await ledger.meet(other, at: clock(20))
      _ = try await ledger.record(entry(other, [evidence("1", expires: 1_000)], rules: rules))
      _ = try await ledger.meet("ben", at: clock(40))
      #expect(try await join(ledger, other, "ben") == .joined)
      let ben = try await ledger.meet("ben", at: clock(60)).customer
      #expect(ben.firstSeenAt == at(20) && ben.originalID == other)
    }
  }

  @Test func `fifty of a user's invented IDs are known`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      _ = try await ledger.record(entry(other, [evidence("1", expires: 1_000)], rules: rules))
      #expect(try await join(ledger, other, "anna", at: 40) == .joined)
      for number in 0..<60 {
        let id = UserID("$RCAnonymousID:" + String(repeating: "0", count: 30) + String(number + 10))
        #expect(try await join(ledger, id, "anna", at: 50 + Double(number)) == .joined)
      }
      let known = try await scratch.rows("SELECT count(*) FROM customer WHERE joined_to = 'anna'")
      #expect(known == [["51"]])
      #expect(try await ledger.user(named: other) == "anna")
      let (oldest, newest) = ("10", "69")
      for (number, user) in [(oldest, nil), (newest, "anna" as UserID?)] {
        let id = UserID("$RCAnonymousID:" + String(repeating: "0", count: 30) + number)
        #expect(try await ledger.user(named: id) == user ?? id)
      }
      #expect(try await scratch.verify().findings == [])
    }
  }

  private func joinInvented(_ count: Int, to user: UserID, _ ledger: Ledger) async throws {
    for number in 0..<count {
      let id = UserID("$RCAnonymousID:" + String(repeating: "0", count: 29) + String(number + 100))
      #expect(try await join(ledger, id, user, at: 50 + Double(number)) == .joined)
    }
  }

  private func isErased(_ user: UserID, from ledger: Ledger, _ scratch: Scratch) async throws -> Bool {
    _ = try await ledger.erase(Anna.erasure(user, hasRows: false))
    try await ledger.removeTraces()
    return try await scratch.traces(of: [anonymous.rawValue]).isEmpty
  }

  @Test func `an alias that a waiting receipt names is not pushed out, and the erasure finds it`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      for user in [anonymous, "anna"] {
        _ = try await ledger.run(Postpone(pending("x", of: user), provisional: [], reevaluated(at: 0)))
      }
      #expect(try await join(ledger, anonymous, "anna", at: 10) == .joined)
      try await joinInvented(60, to: "anna", ledger)
      #expect(try await ledger.user(named: anonymous) == "anna")
      #expect(try await isErased("anna", from: ledger, scratch))
    }
  }

  @Test func `the zone goes with whoever has none, and nothing of an alias is left when it is forgotten`() async throws
  {
    let feature = Feature(name: "questions", kind: .meter, values: ["free": .meter([])], tiers: ["free"])
    try await Scratch.withLedger { ledger, scratch async throws in
      for (user, zone) in [(other, "Europe/Berlin"), (anonymous, "Pacific/Auckland")] {
        _ = try await ledger.run(consuming(feature, by: user, zone: Zone(named: zone)))
      }
      #expect(try await join(ledger, other, "anna", at: 10) == .joined)
      #expect(try await ledger.zoneName(of: "anna") == "Europe/Berlin")
      #expect(try await join(ledger, anonymous, "anna", at: 20) == .joined)
      #expect(try await ledger.zoneName(of: "anna") == "Europe/Berlin")
      try await joinInvented(60, to: "anna", ledger)
      #expect(try await ledger.user(named: anonymous) == anonymous)
      #expect(try await isErased("anna", from: ledger, scratch))
    }
  }

  @Test func `a customer known only by an ID is forgotten after 30 days`() async throws {
    try await Scratch.withLedger { ledger, scratch async throws in
      for id in ["bare", "fresh", "said", "bought", "joined"] as [UserID] {
        _ = try await ledger.meet(id, at: clock(0))
      }
      _ = try await ledger.keep(["a": .init(value: "x", updatedAtMilliseconds: 1)], of: "said", at: clock(0))
      _ = try await ledger.record(entry("bought", [evidence("1", expires: 1_000)], rules: rules))
      _ = try await join(ledger, anonymous, "joined", at: 0)
      _ = try await ledger.meet("fresh", at: clock(86_401))
      #expect(try await ledger.pruneCustomers(before: at(86_400), limit: 10) == 1)
      #expect(try await ledger.pruneCustomers(before: at(86_400), limit: 10) == 0)
      let left = try await scratch.rows("SELECT key FROM customer WHERE joined_to IS NULL ORDER BY key")
      #expect(left == [["bought"], ["fresh"], ["joined"], ["said"]])
      #expect(try await scratch.rows("SELECT count(*) FROM user_progress WHERE user_id = 'bare'") == [["0"]])
    }
  }
}
