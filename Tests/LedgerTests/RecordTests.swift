import Entitlements
import Ledger
import LedgerFixtures
import Testing

@Suite struct RecordTests {
  @Test func `a recorded answer is read back as it was`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let one = evidence("1", time: 10)
      let outcome = try await ledger.record(entry("anna", [one], receipt: "YQ=="))
      let recorded = try #require(outcome.recorded)
      #expect(recorded.changed && recorded.losers.isEmpty)
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.evidence == [one])
      #expect(profile.entitlement == recorded.entitlement)
      #expect(profile.entitlement == standIn("anna", [one], [], at(10)))
      #expect(profile.version == 1)
      let kept = try await ledger.receipts(mentioning: "1")
      #expect(
        kept == [KeptReceipt(base64: "YQ==", environment: .production, bundleID: "com.example.app", owner: "anna")])
      let history = try await ledger.wholeHistory(of: "anna")
      #expect(history.map(\.entitlement) == [recorded.entitlement])
      #expect(history.map(\.changed) == [true])
      #expect(history.map(\.requestID) == ["request"])
      #expect(history.map(\.recordedAt) == [at(5_000)])
    }
  }

  @Test func `a user never seen has no profile and no history`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let profile = try await ledger.profile(of: "nobody")
      #expect(profile == nil)
      #expect(try await ledger.wholeHistory(of: "nobody").isEmpty)
      #expect(try await ledger.receipts(mentioning: "1").isEmpty)
    }
  }

  @Test func `a receipt without purchases is a verdict too`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let first = try #require(try await ledger.record(entry("anna", [])).recorded)
      #expect(first.entitlement.reason == .noPurchases && first.changed)
      let second = try #require(try await ledger.record(entry("anna", [])).recorded)
      #expect(!second.changed)
      #expect(try await ledger.profile(of: "anna")?.version == 1)
    }
  }

  @Test func `an answer says nothing about a subscription that it does not mention`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 900)]))
      let recorded = try await ledger.record(entry("anna", [evidence("2", time: 20, expires: 10)])).recorded
      #expect(recorded?.entitlement.tier == "pro")
      #expect(recorded?.entitlement.originalTransactionID == "1")
      #expect(try await ledger.keys(of: "anna") == [key("1"), key("2")])
    }
  }

  @Test func `the same ID in the two stores is two subscriptions, each with its receipt`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")], receipt: "YQ=="))
      _ = try await ledger.record(entry("ben", [evidence("1", environment: .sandbox)], receipt: "Yg=="))
      let kept = try await ledger.receipts(mentioning: "1")
      #expect(kept.map(\.environment) == [.production, .sandbox])
      #expect(kept.map(\.owner) == ["anna", "ben"])
    }
  }

  // MARK: Repeating

  @Test func `an identical post is recorded once, however often it comes`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let same = entry("anna", [evidence("1"), evidence("2")])
      let first = try #require(try await ledger.record(same).recorded)
      for _ in 0..<50 {
        let again = try #require(try await ledger.record(same).recorded)
        #expect(!again.changed)
        #expect(again.entitlement == first.entitlement)
      }
      #expect(try await ledger.wholeHistory(of: "anna").count == 1)
      #expect(try await ledger.profile(of: "anna")?.version == 1)
    }
  }

  @Test func `the same evidence judged later, with the same outcome, is not a new verdict`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", evaluatedAt: 0)]))
      let later = try await ledger.record(entry("anna", [evidence("1", evaluatedAt: 60)])).recorded
      #expect(later?.changed == false)
      #expect(try await ledger.profile(of: "anna")?.version == 1)
      #expect(try await ledger.profile(of: "anna")?.evidence.map(\.evaluatedAt) == [at(60)])
    }
  }

  @Test func `the answer that was asked for later stands, whichever of one evidence time arrives last`() async throws {
    for order in [[0, 1], [1, 0]] {
      try await Scratch.withLedger { ledger, _ in
        var later = evidence("1", evaluatedAt: 60)
        later.isAccountGone = true
        let answers = [evidence("1", evaluatedAt: 0), later]
        for index in order { _ = try await ledger.record(entry("anna", [answers[index]])) }
        let kept = try await ledger.profile(of: "anna")?.evidence
        #expect(kept?.map(\.isAccountGone) == [true])
        #expect(kept?.map(\.evaluatedAt) == [at(60)])
      }
    }
  }

  @Test func `newer evidence of the same state is kept, and is a line of the history once a day`() async throws {
    let day = 86_400.0
    try await Scratch.withLedger { ledger, _ in
      func record(_ time: Double) async throws -> Recorded? {
        try await ledger.record(entry("anna", [evidence("1", time: time, expires: 5 * day)])).recorded
      }
      func lines() async throws -> [Bool] { try await ledger.wholeHistory(of: "anna").map(\.changed) }
      _ = try await record(0)
      for time in [60, day - 1] {
        let again = try #require(try await record(time))
        #expect(!again.changed && again.update == nil && again.write == .waiting)
        #expect(again.entitlement.evidenceTime == at(time))
        #expect(try await lines() == [true])
        #expect(try await ledger.profile(of: "anna")?.version == 1)
        #expect(try await ledger.profile(of: "anna")?.evidence.map(\.evidenceTime) == [at(time)])
      }
      let next = try #require(try await record(day))
      #expect(!next.changed && next.update != nil)
      #expect(try await lines() == [false, true])
      _ = try await record(day + 60)
      #expect(try await lines() == [false, true])
    }
  }

  @Test func `an answer between two that say the same is old news, though neither is a line`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", time: 0)]))
      _ = try await ledger.record(entry("anna", [evidence("1", time: 60)]))
      let late = try await ledger.record(entry("anna", [evidence("1", time: 30, expires: 31)])).recorded
      #expect(late?.entitlement.tier == "pro")
      #expect(try await ledger.profile(of: "anna")?.evidence == [evidence("1", time: 60)])
    }
  }

  @Test func `a confirmation is a line if nobody posted it, somebody noted why, or the app's row is not written`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      func lines() async throws -> Int { try await ledger.wholeHistory(of: "anna").count }
      _ = try await ledger.record(entry("anna", [evidence("1", time: 0)]))
      let note = try await ledger.keepNote(
        Note(author: "desk", text: "why", requestID: "request", recordedAt: clock(5_000)), about: "anna")
      _ = try await ledger.record(
        entry("anna", [evidence("1", time: 50)]).with { ($0.origin, $0.note) = (.recheck(nil), note) })
      #expect(try await lines() == 2)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 60)]).with { $0.origin = .recheck(nil) })
      #expect(try await lines() == 3)
      let update = try #require(try await ledger.waitingUpdate(of: "anna"))
      _ = try await ledger.record(entry("anna", [evidence("1", time: 70)]))
      #expect(try await lines() == 3)
      try await ledger.retryUpdate(
        of: "anna", version: update.version, at: at(1e9), problem: "x", isDoubtful: false)
      let again = try await ledger.record(entry("anna", [evidence("1", time: 80)])).recorded
      #expect(try await lines() == 4)
      #expect(again?.update != nil, "the row is tried at once")
    }
  }

  @Test func `a confirmation with other content is a line`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", time: 0)]))
      var signed = evidence("1", time: 60)
      signed.source = .signature
      for one in [signed, evidence("1", time: 70, order: 7)] { _ = try await ledger.record(entry("anna", [one])) }
      #expect(try await ledger.wholeHistory(of: "anna").map(\.changed) == [false, false, true])
    }
  }

  @Test func `answers that lack the same purchase are one line, whether a user or a schedule asked`() async throws {
    try await Scratch.withLedger { ledger, _ in
      func lines() async throws -> Int { try await ledger.wholeHistory(of: "anna").count }
      func answer(_ time: Double) -> LedgerEntry { posted("anna", [evidence("1", time: time, expires: -50)]) }
      let bought = part("1", "t2", reported: 0, begin: 0, expires: 9_000, source: .signature)
      _ = try await ledger.record(posted("anna", [bought]))
      for entry in [answer(10), answer(20), answer(30).with { $0.origin = .recheck(nil) }] {
        #expect(try await ledger.record(entry).recorded?.entitlement.tier == "pro")
        #expect(try await lines() == 2)
      }
      #expect(try await ledger.profile(of: "anna")?.evidence.map(\.answeredAt) == [at(30)])
      let last = try await ledger.record(answer(3_700)).recorded
      #expect(last?.entitlement.tier == "free" && last?.changed == true)
      #expect(try await lines() == 3)
    }
  }

  @Test func `a verdict that differs is a change`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 50)]))
      let later = try await ledger.record(entry("anna", [evidence("1", time: 60, expires: 50)])).recorded
      #expect(later?.changed == true)
      #expect(later?.entitlement.status == .expired)
    }
  }

  // MARK: Newest evidence

  /// Four answers about one subscription, of which the third is the newest; in whatever order they come in, the third
  /// has the last word, and its receipt is kept.
  @Test(arguments: permutations([0, 1, 2, 3]))
  func `newest evidence wins in whatever order answers arrive`(order: [Int]) async throws {
    let times: [Double] = [10, 20, 40, 30]
    let ends: [Double] = [5_000, 25, 600, 35]
    try await Scratch.withLedger { ledger, _ in
      for index in order {
        _ = try await ledger.record(
          entry("anna", [evidence("1", time: times[index], expires: ends[index])], receipt: "receipt\(index)"))
      }
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.evidence == [evidence("1", time: 40, expires: 600)])
      #expect(profile.entitlement == standIn("anna", profile.evidence, [], at(40)))
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["receipt2"])
    }
  }

  /// The subscription ends at 25. An answer asked at 20 that comes in after one asked at 30 is no proof that it lives.
  @Test(arguments: permutations([0, 1, 2]))
  func `a late answer about one subscription does not revive another`(order: [Int]) async throws {
    let answers = [
      entry("anna", [evidence("1", time: 10, expires: 25)]), entry("anna", [evidence("2", time: 20, expires: 15)]),
      entry("anna", [evidence("3", time: 30, expires: 5)]),
    ]
    try await Scratch.withLedger { ledger, _ in
      for index in order { _ = try await ledger.record(answers[index]) }
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement.status == .expired)
      #expect(profile.entitlement.explanation.evaluatedAt == at(30))
    }
  }

  @Test func `evidence of the same time replaces`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", time: 10, expires: 100)], receipt: "a"))
      let recorded = try await ledger.record(entry("anna", [evidence("1", time: 10, expires: 200)], receipt: "b"))
      #expect(recorded.recorded?.changed == true)
      #expect(try await ledger.profile(of: "anna")?.evidence == [evidence("1", time: 10, expires: 200)])
      #expect(try await ledger.receipts(mentioning: "1").map(\.base64) == ["b"])
    }
  }

  @Test func `an answer that names a subscription twice counts with the newer`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let twice = [evidence("1", time: 30, expires: 300), evidence("1", time: 20, expires: 200)]
      _ = try await ledger.record(entry("anna", twice))
      #expect(try await ledger.profile(of: "anna")?.evidence == [twice[0]])
    }
  }

  @Test func `a date that cannot be written down refuses the entry and nothing else`() async throws {
    try await Scratch.withLedger { ledger, _ in
      await #expect(throws: LedgerError.self) {
        _ = try await ledger.record(entry("anna", [evidence("1", expires: .infinity)]))
      }
      #expect(try await ledger.profile(of: "anna") == nil)
      let next = try await ledger.record(entry("anna", [evidence("1")])).recorded
      #expect(next != nil)
    }
  }
}

func permutations(_ items: [Int]) -> [[Int]] {
  guard items.count > 1 else { return [items] }
  return items.flatMap { first in permutations(items.filter { $0 != first }).map { [first] + $0 } }
}
