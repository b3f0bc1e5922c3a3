import Entitlements
import LedgerFixtures
import Testing

@testable import Ledger

/// A subscription that Apple moves from the ID "1" to "9".
@Suite struct MigratedPurchaseTests {
  static let former = evidence("1", expires: 1_000)

  /// The transaction under the new ID, which names the former one.
  static func successor(time: Double = 100, expires: Double = 2_000, names former: OriginalTransactionID? = "1")
    -> SubscriptionEvidence
  {
    var moved = evidence("9", time: time, expires: expires)
    var terms = Purchase.Terms()
    terms.previousOriginalTransactionID = former
    moved.purchases[0].purchaseDate = at(time)
    moved.purchases[0].isFirst = false
    moved.purchases[0].sale = Purchase.Sale(price: 4_990, currency: "USD", terms: terms)
    moved.purchases[0].reportedAt = at(time)
    moved.coverage = .partial(since: nil)
    return moved
  }

  static func post(_ evidence: SubscriptionEvidence, of user: UserID) -> LedgerEntry {
    entry(user, [evidence], receipt: "receipt-\(evidence.key.originalTransactionID)", rules: rules)
  }

  static func notification(_ evidence: SubscriptionEvidence) -> NotificationEntry {
    NotificationEntry(
      uuid: "migration-\(evidence.evidenceTime.millisecondsSince1970)", type: "MIGRATION", receivedAt: clock(5_000),
      payload: "payload", evidence: [evidence], evaluatedAt: evidence.evaluatedAt, rules: rules)
  }

  /// The kept evidence of a user: the purchase, and its transactions.
  static func kept(_ ledger: Ledger, of user: UserID = "anna") async throws -> [String: Set<TransactionID>] {
    let evidence = try await ledger.profile(of: user)?.evidence ?? []
    let whole = try await ledger.includingPast(evidence, of: user)
    return Dictionary(
      uniqueKeysWithValues: whole.filter { !$0.purchases.isEmpty }.map {
        ($0.key.originalTransactionID.rawValue, Set($0.purchases.map(\.transactionID)))
      })
  }

  static let whole: [String: Set<TransactionID>] = ["9": ["t-1-1000.0", "t-9-2000.0"]]

  enum Step: Sendable { case former, successor, notification }

  @Test(arguments: [
    [Step.former, .successor], [.successor, .former], [.former, .notification], [.notification, .former],
    [.notification, .successor, .former], [.former, .notification, .successor], [.successor, .notification, .former],
    [.former, .former, .notification, .former], [.former, .successor, .former, .successor, .notification],
  ])
  func `a migration moves the evidence to the new ID, whatever comes first`(steps: [Step]) async throws {
    try await Scratch.withLedger { ledger, scratch in
      for step in steps {
        switch step {
        case .former: #expect(try await ledger.record(Self.post(Self.former, of: "anna")).recorded != nil)
        case .successor: #expect(try await ledger.record(Self.post(Self.successor(), of: "anna")).recorded != nil)
        case .notification: _ = try await ledger.run(Self.notification(Self.successor()))
        }
      }
      #expect(try await Self.kept(ledger) == Self.whole)
      let verdict = try await ledger.profile(of: "anna")?.entitlement
      #expect(verdict?.tier == "pro" && verdict?.originalTransactionID == "9" && verdict?.accessUntil == at(2_000))
      // Whoever asks by the former ID finds the purchase.
      #expect(try await ledger.ownedPurchases("1").map(\.owner) == ["anna"])
      #expect(try await ledger.receipts(mentioning: "1").map(\.owner) == ["anna"])
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `whoever has the purchase has its former ID too`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(Self.post(Self.former, of: "anna"))
      _ = try await ledger.run(Self.notification(Self.successor()))
      let context = EvaluationContext(evaluatedAt: clock(200), recordedAt: clock(200), rules: rules)
      for (user, isAnothers) in [("anna", false), ("ben", true)] {
        #expect(
          try await ledger.isAnothers(
            [Self.former], contested: [key("1")], than: UserID(user), ownership: .keep, context) == isAnothers)
      }
      // A report about the former ID has the purchase checked.
      #expect(try await ledger.recheckSoon(["1"], at: clock(300)) == 1)
    }
  }

  @Test func `the owner moves along, and nobody else gets either ID`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(Self.post(Self.former, of: "anna"))
      #expect(try await ledger.record(Self.post(Self.successor(), of: "ben")).isRefused)
      _ = try await ledger.run(Self.notification(Self.successor()))
      #expect(try await Self.kept(ledger) == Self.whole)
      #expect(try await ledger.record(Self.post(Self.former, of: "ben")).isRefused)
      #expect(try await Self.kept(ledger, of: "ben") == [:])
    }
  }

  @Test func `a purchase that a user has under both IDs becomes one`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(Self.post(Self.former, of: "anna"))
      _ = try await ledger.record(Self.post(Self.successor(names: nil), of: "anna"))
      #expect(try await Self.kept(ledger) == ["1": ["t-1-1000.0"], "9": ["t-9-2000.0"]])
      _ = try await ledger.run(Self.notification(Self.successor(time: 200)))
      #expect(try await Self.kept(ledger) == Self.whole)
      _ = try await ledger.record(Self.post(Self.former, of: "anna"))
      #expect(try await Self.kept(ledger) == Self.whole)
      #expect(try await ledger.timeline(of: "anna", before: nil, limit: 50).events.isEmpty == false)
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `notifications of before and after are those of the purchase`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(Self.post(Self.former, of: "anna"))
      _ = try await ledger.run(Self.notification(evidence("1", time: 10)))
      _ = try await ledger.run(Self.notification(Self.successor()))
      _ = try await ledger.run(Self.notification(evidence("1", time: 20)))
      let exported = try await ledger.exportedPurchases(ofKey: "anna", from: 0, limit: 10)
      #expect(exported.map(\.notifications.count) == [3])
    }
  }

  @Test func `a purchase of two users stays with each`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(Self.post(Self.former, of: "anna"))
      _ = try await ledger.record(Self.post(Self.successor(names: nil), of: "ben"))
      _ = try await ledger.run(Self.notification(Self.successor(time: 200)))
      #expect(try await Self.kept(ledger) == ["1": ["t-1-1000.0"]])
      #expect(try await Self.kept(ledger, of: "ben") == ["9": ["t-9-2000.0"]])
    }
  }

  @Test func `an answer about the new ID keeps the former transactions for the figures`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(Self.post(Self.former, of: "anna"))
      var answer = Self.successor()
      answer.coverage = .snapshot
      answer.purchases[0].reportedAt = nil
      _ = try await ledger.record(Self.post(answer, of: "anna"))
      #expect(try await ledger.profile(of: "anna")?.evidence.map(\.purchases.count) == [1])
      #expect(try await Self.kept(ledger) == Self.whole)
    }
  }

  @Test func `a provisional grant moves along`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(Postpone(pending("one", of: "anna"), provisional: [signed("1")], reevaluated(at: 0)))
      _ = try await ledger.run(Self.notification(Self.successor()))
      let granted = try await ledger.profile(of: "anna")?.evidence.filter { $0.provisionalUntil != nil }
      #expect(granted?.map(\.key) == [key("9")])
      // The former ID is no second purchase for somebody else.
      _ = try await ledger.run(Postpone(pending("two", of: "ben"), provisional: [signed("1")], reevaluated(at: 0)))
      #expect(try await ledger.profile(of: "ben") == nil)
    }
  }

  @Test func `extensions and a user whom Apple has to be told move along, and an erasure finds them`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let user: UserID = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
      func extend(_ id: OriginalTransactionID, _ request: String) -> AskExtension {
        AskExtension(
          environment: .production, subject: .purchase(id),
          terms: RenewalExtension(days: 7, reason: .other, requestIdentifier: request), author: "desk", note: "why",
          requestID: "r", idempotencyKey: "k", now: clock(20), claimedUntil: nil)
      }
      var bought = Self.post(Self.former, of: user)
      bought.tellsAccountTokens = true
      _ = try await ledger.record(bought)
      guard case .asked(let waiting) = try await ledger.run(extend("1", "one")) else {
        Issue.record("nothing was asked for")
        return
      }
      _ = try await ledger.run(Self.notification(Self.successor()))
      #expect(
        try await ledger.claimAccountTokens(in: nil, dueAt: clock(9_000), until: at(9_100), limit: 9).map(\.key)
          == [key("9")])
      for id in ["1", "9"] {
        #expect(try await ledger.extensions(of: key(id), limit: 9).map(\.id) == [waiting.id])
      }
      // Apple's answer to the request that named the former ID.
      let note = Note(author: "desk", text: "extended", requestID: "r", recordedAt: clock(6_000))
      let settled = try await ledger.settle(waiting, .extended(expiresAt: at(3_000), note: note), at: clock(6_000))
      #expect(settled != nil)
      #expect(try await ledger.exportedPurchases(ofKey: user.key, from: 0, limit: 9).map(\.extensions.count) == [1])
      _ = try await ledger.erase(Anna.erasure(user))
      #expect(try await ledger.extensions(ofProducts: false, limit: 9).isEmpty)
    }
  }

  @Test func `a refund and a payment that come under the former ID are the purchase's`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(Self.post(Self.former, of: "anna"))
      _ = try await ledger.run(Self.notification(Self.successor()))
      let refund = (key: key("1"), transactionID: TransactionID("t-1-1000.0"))
      #expect(try await ledger.knowledge(ofRefunds: [refund]) == [.new(owner: "anna")])
      try await ledger.keepPast([evidence("1", expires: 500)])
      #expect(try await Self.kept(ledger)["9"]?.contains("t-1-500.0") == true)
    }
  }

  @Test(arguments: [false, true])
  func `a subscription may migrate again, whichever is known first, and two that name each other do not`(
    isLaterFirst: Bool
  ) async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(Self.post(Self.former, of: "anna"))
      if !isLaterFirst { _ = try await ledger.record(Self.post(Self.successor(), of: "anna")) }
      var third = evidence("17", time: 300, expires: 3_000)
      third.coverage = .partial(since: nil)
      third.purchases[0].reportedAt = at(300)
      var terms = Purchase.Terms()
      terms.previousOriginalTransactionID = "9"
      third.purchases[0].sale = Purchase.Sale(terms: terms)
      _ = try await ledger.record(Self.post(third, of: "anna"))
      if isLaterFirst { _ = try await ledger.record(Self.post(Self.successor(), of: "anna")) }
      #expect(try await Self.kept(ledger) == ["17": ["t-1-1000.0", "t-9-2000.0", "t-17-3000.0"]])
      #expect(try await scratch.verify().findings == [])
      #expect(try await ledger.ownedPurchases("1").map(\.evidence.key) == [key("17")])
      var circle = Self.former
      circle.evidenceTime = at(400)
      terms.previousOriginalTransactionID = "17"
      circle.purchases[0].sale = Purchase.Sale(terms: terms)
      _ = try await ledger.record(Self.post(circle, of: "anna"))
      #expect(try await Self.kept(ledger).keys.sorted() == ["17"])
    }
  }
}

/// Apple names an ownership that this version does not know: a seat of an organization, perhaps.
@Suite struct UnknownOwnershipTests {
  private static func seat(_ id: String, time: Double = 0, account: String? = nil) -> SubscriptionEvidence {
    var seat = evidence(id, time: time)
    seat.purchases[0].ownership = .unknown
    seat.purchases[0].appAccountToken = account
    return seat
  }

  private static let account = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

  @Test(arguments: OwnershipPolicy.allCases)
  func `a purchase of unknown ownership is nobody's, whoever presents it`(policy: OwnershipPolicy) async throws {
    try await Scratch.withLedger { ledger, _ in
      for user: UserID in ["anna", "ben"] {
        let outcome = try await ledger.record(entry(user, [Self.seat("1")], ownership: policy))
        guard case .ofUnknownOwnership = outcome else {
          Issue.record("\(outcome)")
          continue
        }
        #expect(try await ledger.profile(of: user) == nil)
      }
      // A purchase beside it is the user's.
      let both = try await ledger.record(entry("anna", [Self.seat("1"), evidence("2")], ownership: policy))
      #expect(both.recorded != nil)
      #expect(try await ledger.profile(of: "anna")?.evidence.map(\.key) == [key("2")])
    }
  }

  @Test func `a purchase that a user has stays theirs`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      #expect(try await ledger.record(entry("anna", [Self.seat("1", time: 10)])).recorded?.entitlement.tier == "pro")
      let other = try await ledger.record(entry("ben", [Self.seat("1", time: 20)], ownership: .transfer))
      #expect(other.recorded == nil && !other.isRefused)
    }
  }

  @Test func `a notification about one waits for nobody`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let user = UserID(Self.account)
      _ = try await ledger.record(entry(user, [evidence("2")]))
      var notification = NotificationEntry(
        uuid: "1", type: "SUBSCRIBED", receivedAt: clock(1), payload: "payload",
        evidence: [Self.seat("1", account: Self.account)], evaluatedAt: at(1), rules: standIn)
      notification.proof = KeptReceipt(base64: "a.b.c", environment: .production, bundleID: "com.example.app")
      notification.claimant = user
      let outcome = try await ledger.run(notification)
      #expect("\(outcome)" == "unclaimed")
      _ = try await ledger.record(entry(user, [evidence("2", time: 10)]))
      #expect(try await ledger.profile(of: user)?.evidence.map(\.key) == [key("2")])
    }
  }
}
