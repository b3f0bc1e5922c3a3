import Entitlements
import Foundation
import Ledger
import LedgerFixtures
import Testing

/// Purchases that Apple told of before anybody presented them.
@Suite struct UnclaimedTests {
  static let anna = UserID(annasAccount)
  static let ben = UserID(bensAccount)

  @Test func `notifications about a purchase that nobody had come with it`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      #expect(try await ledger.run(notification("n1", [part("1", reported: 10, cancelled: 10)])).isUnclaimed)
      #expect(
        try await ledger.run(notification("n2", [part("1", "t0", reported: 5, begin: -200, expires: -100)]))
          .isUnclaimed)
      #expect(try await scratch.fetch("SELECT count(*) FROM unclaimed_evidence") == [1])
      // An older telling, by which it still ran.
      let recorded = try await ledger.record(posted("anna", [part("1", reported: 0)])).recorded
      #expect(recorded?.entitlement.reason == .refunded)
      let evidence = try #require(try await ledger.profile(of: "anna")?.evidence.first)
      #expect(evidence.purchases.map(\.transactionID) == ["t0", "t1"])
      #expect(evidence.evidenceTime == at(10))
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["posted"])
      #expect(try await scratch.fetch("SELECT count(*) FROM unclaimed_evidence") == [0])
    }
  }

  @Test func `a purchase that names a user is theirs before they present it`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      // Before that user is known.
      #expect(
        try await ledger.run(notification("n1", [part("1", account: annasAccount)], proof: proof("first")))
          .isUnclaimed)
      let next = part("1", "t2", reported: 900, begin: 1_000, expires: 2_000, account: annasAccount)
      let taken = try #require(
        try await ledger.run(notification("n2", [next], proof: proof("second"), for: Self.anna)).recorded)
      #expect(taken.user == Self.anna)
      #expect(taken.recorded.entitlement.accessUntil == at(2_000))
      #expect(try await ledger.profile(of: Self.anna)?.evidence.first?.purchases.count == 2)
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["second"])
      #expect(try await scratch.fetch("SELECT claim FROM purchase") == ["account_token"])
      #expect(try await scratch.fetch("SELECT count(*) FROM unclaimed_evidence") == [0])
      #expect(try await ledger.receipts(mentioning: "1").map(\.isOwnedByName) == [true])
      _ = try await ledger.record(posted(Self.anna, [next]))
      #expect(try await ledger.receipts(mentioning: "1").map(\.isOwnedByName) == [false])
      #expect(
        try await scratch.fetch("SELECT user_id FROM event WHERE kind = 'gained' AND other_user_id IS NULL")
          == [annasAccount])
    }
  }

  @Test func `a notification makes no user, unless it is told that it may`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let hers = part("1", account: annasAccount)
      #expect(try await ledger.run(notification("n1", [hers], for: Self.anna, makesClaimant: false)).isUnclaimed)
      #expect(try await ledger.profile(of: Self.anna) == nil)
      for table in ["account", "event", "outbox"] {
        #expect(try await scratch.fetch("SELECT count(*) FROM \(table)") == [0])
      }
      // She comes, with another purchase, and this one is there.
      _ = try await ledger.record(posted(Self.anna, [part("2")]))
      #expect(try await ledger.profile(of: Self.anna)?.evidence.map(\.key) == [key("1"), key("2")])
      // From now on she is known.
      let next = part("3", account: annasAccount)
      #expect(
        try await ledger.run(notification("n2", [next], for: Self.anna, makesClaimant: false)).recorded?.user
          == Self.anna)
    }
  }

  @Test func `no user gets a purchase that names another, or of which there is no proof`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let hers = part("1", account: annasAccount)
      let outcome = try await ledger.run(notification("n1", [hers], for: Self.ben))
      #expect(outcome.isUnclaimed)
      #expect(try await ledger.run(notification("n2", [part("2")], proof: nil, for: Self.ben)).isUnclaimed)
      // A proof of the other store proves nothing here.
      #expect(
        try await ledger.run(notification("n3", [part("3")], proof: proof("jws", .sandbox), for: Self.ben))
          .isUnclaimed)
      // An older row names him, the newest known does not.
      let old = part("1", "t0", reported: 5, begin: -500, expires: -100, account: bensAccount)
      #expect(try await ledger.run(notification("n4", [old], for: Self.ben)).isUnclaimed)
      #expect(try await ledger.profile(of: Self.ben) == nil)
      #expect(
        try await scratch.fetch("SELECT coalesce(account_token, '-') FROM unclaimed_evidence ORDER BY 1")
          == ["-", "-", annasAccount])
    }
  }

  @Test func `a proof that was kept serves a later notification that has none`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(notification("n1", [part("1", reported: 10)], proof: proof("newest")))
      _ = try await ledger.run(notification("n2", [part("1", reported: 5)], proof: proof("older")))
      #expect(
        try await ledger.run(notification("n3", [part("1", reported: 20)], proof: nil, for: Self.anna)).recorded
          != nil
      )
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["newest"])
    }
  }

  @Test func `a user who presents a purchase gets those that name them as well`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.run(
        notification("n1", [part("1", account: annasAccount.uppercased())], proof: proof("one")))
      _ = try await ledger.run(notification("n2", [part("2", account: bensAccount)], proof: proof("two")))
      _ = try await ledger.run(notification("n3", [part("3", account: annasAccount)], proof: nil))
      let hers = UserID(annasAccount.uppercased())
      let recorded = try await ledger.record(posted(hers, [part("4", expires: 50)])).recorded
      #expect(recorded?.entitlement.accessUntil == at(1_000))
      #expect(try await ledger.keys(of: hers) == [key("1"), key("4")])
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["one"])
      #expect(
        try await scratch.fetch("SELECT claim FROM purchase ORDER BY original_transaction_id")
          == ["account_token", "proof"])
      #expect(
        try await scratch.fetch("SELECT original_transaction_id FROM unclaimed_evidence ORDER BY 1") == ["2", "3"])
      #expect(try await ledger.claimRechecks(dueAt: clock(1_060), limit: 5).count == 2)
    }
  }

  // MARK: Whose it is

  @Test(arguments: OwnershipPolicy.allCases)
  func `a purchase that is a user's by name alone goes to the user who presents it`(policy: OwnershipPolicy)
    async throws
  {
    try await Scratch.withLedger { ledger, scratch in
      // It names her no more: the newest row names nobody she is.
      _ = try await ledger.run(notification("n1", [part("1")], for: Self.anna))
      let recorded = try await ledger.record(posted("ben", [part("1", reported: 1)], ownership: policy)).recorded
      #expect(recorded?.losers == [Self.anna])
      #expect(try await ledger.profile(of: Self.anna)?.entitlement.reason == .noPurchases)
      #expect(try await scratch.fetch("SELECT claim FROM purchase") == ["proof"])
      let third = try await ledger.record(posted("cleo", [part("1", reported: 2)], ownership: .keep))
      #expect(third.isRefused)
    }
  }

  @Test func `a purchase that names a user is not given to another who presents it, nor an older row of it`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(notification("n1", [part("1", account: annasAccount)], for: Self.anna))
      let older = part("1", "t0", reported: 50, begin: -500, expires: -100)
      for policy in OwnershipPolicy.allCases {
        #expect(
          try await ledger.record(
            posted(Self.ben, [part("1", reported: 1, account: annasAccount)], ownership: policy)
          ).isRefused)
        #expect(try await ledger.record(posted(Self.ben, [older], ownership: policy)).isRefused)
      }
      // Nor is one that nobody has.
      _ = try await ledger.run(notification("n2", [part("2", account: annasAccount)]))
      let old = part("2", "t0", reported: 50, begin: -500, expires: -100)
      #expect(try await ledger.record(posted(Self.ben, [old])).isRefused)
      #expect(try await ledger.keys(of: Self.anna) == [key("1")])
    }
  }

  @Test func `a purchase that the user whom it names has presented is theirs like any other`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.run(notification("n1", [part("1")], proof: proof("told"), for: "anna"))
      // The service asked of itself: that presents nothing.
      _ = try await ledger.record(posted("anna", [part("1", reported: 1)]).with { $0.origin = .recheck(nil) })
      #expect(try await scratch.fetch("SELECT claim FROM purchase") == ["account_token"])
      _ = try await ledger.record(posted("anna", [part("1", reported: 1)]))
      #expect(try await scratch.fetch("SELECT claim FROM purchase") == ["proof"])
      #expect(try await ledger.record(posted("ben", [part("1", reported: 2)])).isRefused)
      // Notifications leave it so.
      _ = try await ledger.run(notification("n2", [part("1", reported: 3)]))
      #expect(try await scratch.fetch("SELECT claim FROM purchase") == ["proof"])
    }
  }

  @Test func `a purchase that is a user's by name alone does not go to another when the service asks of itself`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(notification("n1", [part("1")], for: "anna"))
      let answer = posted("ben", [part("1", reported: 1)]).with { $0.origin = .recheck(nil) }
      #expect(try await ledger.record(answer).isRefused)
      #expect(try await ledger.keys(of: "anna") == [key("1")])
    }
  }

  @Test func `a purchase that support gave to a user is theirs like one they presented`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(notification("n1", [part("1")], for: "anna"))
      _ = try await ledger.run(moving("1", to: "ben", at: 1))
      #expect(try await ledger.record(posted("cleo", [part("1", reported: 2)])).isRefused)
    }
  }

  // MARK: Merging with what is stored

  @Test func `a part does not take the place of an answer, nor an answer that of a newer part`() async throws {
    let whole = evidence("1", time: 100, expires: 500)
    let later = part("1", "t9", reported: 200, begin: 500, expires: 2_000)
    let early = part("1", "t8", reported: 50, begin: 500, expires: 3_000)
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
      let scratch = try Scratch()
      var ledger = try await scratch.open()
      let all = [whole, later, early]
      for index in order {
        _ = try await ledger.record(
          entry("anna", [all[index]], receipt: "receipt\(index)", rules: rules).with {
            $0.keepsReceipts = index != 0
          })
        await ledger.close()
        ledger = try await scratch.open()
      }
      let stored = try #require(try await ledger.profile(of: "anna")?.evidence.first)
      #expect(stored == whole.merging(later))
      #expect(stored.coverage == .partial(since: at(100)) && stored.answeredAt == at(100))
      #expect(stored.purchases.map(\.transactionID) == ["t-1-500.0", "t9"])
      // The receipt goes with the answer, whatever was told on its own since.
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["receipt0"])
      await ledger.close()
    }
  }

  @Test func `a purchase that an answer does not have yet is kept beside it, and its receipt is the answer's`()
    async throws
  {
    let whole = evidence("1", time: 100, expires: 500)
    let bought = part("1", "t9", reported: 50, begin: 40, expires: 2_000)
    for order in [[whole, bought], [bought, whole]] {
      let scratch = try Scratch()
      var ledger = try await scratch.open()
      for evidence in order + [bought] {
        let isAnswer = evidence.coverage == .snapshot
        _ = try await ledger.record(
          entry("anna", [evidence], receipt: isAnswer ? "answer" : "signed", rules: rules).with {
            $0.keepsReceipts = !isAnswer
          })
        await ledger.close()
        ledger = try await scratch.open()
      }
      let stored = try #require(try await ledger.profile(of: "anna")?.evidence.first)
      #expect(stored == whole.merging(bought))
      #expect(stored.ahead == "t9" && stored.coverage == .partial(since: at(100)) && stored.answeredAt == at(100))
      #expect(stored.purchases.map(\.transactionID) == ["t-1-500.0", "t9"])
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["answer"])
      await ledger.close()
    }
  }

  @Test(.ofTheFile) func `a receipt is kept in place of a signed transaction, not the reverse`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(posted("anna", [part("1", reported: 0)], jws: "jws"))
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["jws"])
      _ = try await ledger.record(entry("anna", [evidence("1", time: 10)], receipt: "receipt"))
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["receipt"])
      _ = try await ledger.record(posted("anna", [part("1", reported: 20)], jws: "newer"))
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["receipt"])
      #expect(try await scratch.fetch("SELECT CAST(content AS TEXT) FROM proof") == ["receipt"])
      _ = try await ledger.record(posted("anna", [part("2", reported: 20)], jws: "other"))
      #expect(try await ledger.receipts(mentioning: "2").map(\.base64) == ["other"])
    }
  }

  /// A notification and a post of one purchase, whichever is first.
  struct Race: Sendable, CustomTestStringConvertible {
    var name: String
    var reported: SubscriptionEvidence
    var claimant: UserID?
    var poster: UserID
    var posted: SubscriptionEvidence
    var testDescription: String { name }

    static let all: [Race] = [
      Race(
        name: "the notification is newer", reported: part("1", reported: 10, cancelled: 10), poster: "anna",
        posted: part("1")),
      Race(
        name: "the post is newer", reported: part("1", reported: 10), poster: "anna",
        posted: part("1", reported: 20, cancelled: 15)
      ),
      Race(
        name: "it names who posts", reported: part("1", account: annasAccount), claimant: UnclaimedTests.anna,
        poster: UnclaimedTests.anna, posted: part("1", reported: 5, account: annasAccount)),
      Race(
        name: "it names another than who posts", reported: part("1", account: annasAccount),
        claimant: UnclaimedTests.anna,
        poster: UnclaimedTests.ben, posted: part("1", reported: 5, account: annasAccount)),
      Race(
        name: "a receipt is posted", reported: part("1", "t9", reported: 10, begin: 1_000, expires: 2_000),
        poster: "anna",
        posted: evidence("1", time: 5)),
    ]
  }

  @Test(arguments: Race.all)
  func `a notification and a post end the same, whichever is first`(_ race: Race) async throws {
    var ends: [[String]] = []
    for notificationFirst in [true, false] {
      try await Scratch.withLedger { ledger, scratch in
        func tell() async throws {
          _ = try await ledger.run(notification("n", [race.reported], proof: proof("told"), for: race.claimant))
        }
        if notificationFirst { try await tell() }
        _ = try await ledger.record(posted(race.poster, [race.posted]))
        if !notificationFirst { try await tell() }
        ends.append(
          try await scratch.fetch(
            """
            SELECT user_id || ' ' || claim || ' ' || source || ' ' || evidence_at || ' ' || judged_at || ' ' || evidence
            FROM purchase UNION ALL SELECT key || ' ' || tier || ' ' || status || ' ' || coalesce(access_until, 0)
            FROM account WHERE EXISTS (SELECT 1 FROM purchase WHERE purchase.user_id = account.key)
            """))
        #expect(try await scratch.fetch("SELECT count(*) FROM unclaimed_evidence") == [0])
      }
    }
    #expect(ends[0] == ends[1])
    #expect(!ends[0].isEmpty)
  }
}
