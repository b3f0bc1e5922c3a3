import Entitlements
import Ledger
import LedgerFixtures
import Testing

/// Apple's requests for consumption information, and the word of the app's backend.
@Suite struct ConsumptionRequestTests {
  private static func request(
    _ id: String = "7", asked: Double = 100, by end: Double = 43_300.000_000_4
  ) -> ConsumptionRequest {
    ConsumptionRequest(
      environment: .production, transactionID: TransactionID(id), originalTransactionID: "7",
      bundleID: "com.example.app", isAutoRenewable: true, askedAt: at(asked), answerBy: at(end))
  }

  private static func take(_ request: ConsumptionRequest, _ uuid: String, _ ledger: Ledger) async throws {
    var entry = notification(uuid, [part("7", request.transactionID.rawValue)], received: 200)
    entry.consumption = request
    _ = try await ledger.run(entry)
  }

  private static func claim(
    _ ledger: Ledger, _ now: Double, until lease: Double = 500, in environment: StoreEnvironment? = nil
  ) async throws -> [ClaimedConsumptionRequest] {
    try await ledger.claimConsumptionRequests(in: environment, dueAt: clock(now), until: at(lease), limit: 9)
  }

  private static func record(_ ledger: Ledger) async throws -> ConsumptionRecord? {
    try await ledger.consumptionRecord(of: "7", in: .production)
  }

  @Test func `a request is kept with its notification, and claimed by one at a time`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for _ in 0..<2 { try await Self.take(Self.request(), "n1", ledger) }
      #expect(try await ledger.backlog(at: clock(200)).consumptionRequests == 1)
      #expect(try await Self.claim(ledger, 199).isEmpty)
      #expect(try await Self.claim(ledger, 200, in: .sandbox).isEmpty)
      let claimed = try await Self.claim(ledger, 200, in: .production)
      #expect(claimed.map(\.request.transactionID) == ["7"] && claimed.first?.said == nil)
      #expect(claimed.first?.request.answerBy == at(43_300))
      #expect(try await Self.claim(ledger, 499, until: 900).isEmpty)
      #expect(try await Self.claim(ledger, 500, until: 900).count == 1)
      try await ledger.returnConsumptionRequests(claimed.map(\.request), claimedUntil: at(500))
      #expect(try await Self.claim(ledger, 501).isEmpty, "another process has it")
      try await ledger.returnConsumptionRequests(claimed.map(\.request), claimedUntil: at(900))
      #expect(try await Self.claim(ledger, 501).count == 1)
    }
  }

  @Test func `a word of the backend makes a request due at once, and stays for the next one`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let said = ConsumptionInformation(customerConsented: true, refundPreference: .decline)
      let first = try await ledger.say(said, of: "7", in: .production, at: clock(50))
      #expect(first.said == said && first.request == nil)
      #expect(try await ledger.say(said, of: "7", in: .sandbox, at: clock(50)).request == nil)
      try await Self.take(Self.request(), "n1", ledger)
      let claimed = try #require(try await Self.claim(ledger, 200).first)
      #expect(claimed.said == said)
      try await ledger.settle(claimed.request, .due(at: at(800), attempts: 1, problem: "away"), at: clock(210))
      #expect(try await Self.claim(ledger, 799).isEmpty)
      let changed = ConsumptionInformation(customerConsented: false)
      let record = try await ledger.say(changed, of: "7", in: .production, at: clock(300))
      #expect(record.said == changed && record.request?.attempts == 1 && record.request?.problem == "away")
      #expect(try await Self.claim(ledger, 300).map(\.said) == [changed])
    }
  }

  @Test func `a customer's no stays until a word of the backend says yes, and each other member is replaced`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      func say(_ word: ConsumptionInformation, in environment: StoreEnvironment = .production) async throws
        -> ConsumptionInformation?
      {
        try await ledger.say(word, of: "7", in: environment, at: clock(50)).said
      }
      _ = try await say(ConsumptionInformation(customerConsented: false, refundPreference: .decline))
      for _ in 0..<2 {
        #expect(try await say(ConsumptionInformation()) == ConsumptionInformation(customerConsented: false))
      }
      #expect(try await say(ConsumptionInformation(), in: .sandbox) == ConsumptionInformation())
      let yes = ConsumptionInformation(customerConsented: true)
      #expect(try await say(yes) == yes)
      #expect(try await say(ConsumptionInformation()) == ConsumptionInformation())
    }
  }

  @Test func `a word that comes while a request is looked at makes it due at once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await Self.take(Self.request(), "n1", ledger)
      let claimed = try #require(try await Self.claim(ledger, 200).first)
      _ = try await ledger.say(
        ConsumptionInformation(customerConsented: true), of: "7", in: .production, at: clock(205))
      try await ledger.settle(claimed.request, .due(at: at(800), attempts: 0, problem: "no consent"), at: clock(210))
      #expect(try await Self.claim(ledger, 211).map(\.said?.customerConsented) == [true])
    }
  }

  @Test func `a request is settled once, and a later one about the transaction takes its place`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await Self.take(Self.request(), "n1", ledger)
      try await ledger.settle(Self.request(), .closed(.answered), at: clock(210))
      try await ledger.settle(Self.request(), .closed(.missed, problem: "late"), at: clock(220))
      #expect(try await Self.record(ledger)?.request?.state == .answered)
      #expect(try await Self.record(ledger)?.request?.closedAt == at(210))
      try await Self.take(Self.request(asked: 90), "n0", ledger)
      #expect(try await Self.claim(ledger, 900).isEmpty, "an earlier request is over")
      try await Self.take(Self.request(asked: 300), "n2", ledger)
      try await ledger.settle(Self.request(), .closed(.refused), at: clock(310))
      #expect(try await Self.claim(ledger, 900, until: 950).map(\.request.askedAt) == [at(300)])
      try await ledger.settle(Self.request(asked: 300), .closed(.missed, problem: "late"), at: clock(1_000))
      let backlog = try await ledger.backlog(at: clock(1_000))
      #expect(backlog.consumptionRequests == 0 && backlog.missedConsumptionRequests == 1)
      #expect(try await ledger.backlog(at: clock(1_000 + 8 * 86_400)).missedConsumptionRequests == 0)
    }
  }

  @Test func `an erased customer's consent and requests are gone, and old ones are removed`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(posted("anna", [part("7", "6")]))
      // Apple's newest answer has the renewal alone: the transaction before it is kept for the figures.
      var newest = part("7", "7", reported: 40, begin: 30, expires: 2_000, source: .verifyReceipt)
      newest.coverage = .snapshot
      _ = try await ledger.record(posted("anna", [newest]))
      _ = try await ledger.record(posted("ben", [part("8", "8")]))
      for id in ["6", "7", "8"] {
        _ = try await ledger.say(
          ConsumptionInformation(customerConsented: true), of: TransactionID(id), in: .production, at: clock(50))
      }
      try await Self.take(Self.request(), "n1", ledger)
      try await Self.take(Self.request("9"), "n2", ledger)
      // Of a transaction that no evidence has, and of another purchase.
      for (uuid, id, original) in [("n4", "99", "7"), ("n5", "88", "8")] as [(String, String, OriginalTransactionID)] {
        var entry = notification(uuid, [], received: 200)
        entry.consumption = Self.request(id)
        entry.consumption?.originalTransactionID = original
        _ = try await ledger.run(entry)
      }
      let exported = try await ledger.exportedPurchases(ofKey: "anna", from: 0, limit: 1).first?.consumption
      #expect(exported?["7"]?.said?.customerConsented == true && exported?["7"]?.request?.state == .due)
      #expect(exported?["6"]?.said?.customerConsented == true)
      _ = try await ledger.erase(Anna.erasure("anna", hasRows: false))
      #expect(try await Self.record(ledger) == nil)
      let left = "SELECT transaction_id FROM consumption_request ORDER BY transaction_id"
      #expect(try await scratch.fetch(left, as: String.self) == ["8", "88"])
      try await Self.take(Self.request(), "n3", ledger)
      _ = try await ledger.pruneNotifications(before: at(9_000), limit: 10)
      #expect(try await scratch.fetch(left, as: String.self) == ["7", "88"], "those that wait stay")
    }
  }
}
