import Access
import Entitlements
import Foundation
import LedgerFixtures
import SeededRandom
import Testing

@testable import Ledger

/// A meter of free users; `pro` has no limit.
private func meter(_ rules: String...) throws -> Feature {
  Feature(
    name: "questions", kind: .meter, values: ["free": .meter(try MeterRule.rules(rules)), "pro": .meter([])],
    tiers: ["free", "pro"])
}

private let usual = ZoneChoice(usual: .utc, named: nil, isTrusted: false)

extension Ledger {
  /// Consumes, and answers how much is used then.
  fileprivate func consume(
    _ feature: Feature, by user: UserID = "anna", tier: Tier = "free", amount: Int = 1, at seconds: Double = 0,
    zone: ZoneChoice = usual, key: String? = nil, request: String? = nil
  ) async throws -> Outcome {
    let outcome = try await run(
      Consume(
        user: user, feature: feature, tier: tier, amount: amount, now: clock(seconds), zone: zone,
        idempotencyKey: key, request: request ?? "\(amount)"))
    return switch outcome {
    case .consumed(let answer): .consumed(answer.access.current ?? -1)
    case .refused: .refused
    case .mismatch: .mismatch
    }
  }

  fileprivate func giveBack(
    _ feature: Feature, _ key: String, of user: UserID = "anna", at seconds: Double = 0, isByUser: Bool = true
  ) async throws -> GiveBack.Outcome {
    try await run(
      GiveBack(
        user: user, feature: feature, tier: "free", idempotencyKey: key, now: clock(seconds), zone: usual,
        isByUser: isByUser))
  }

  fileprivate func total(_ feature: Feature, of user: UserID = "anna") async throws -> Int {
    try await read(ReadUsage(of: user, in: nil, usual: .utc) { _ in [feature.name: []] }).usage[feature.name]?.total
      ?? -1
  }

  func zoneName(of user: UserID) async throws -> String {
    try await read(ReadUsage(of: user, in: nil, usual: .utc) { _ in [:] }).zone.name
  }
}

private enum Outcome: Hashable {
  case consumed(Int)
  case refused
  case mismatch
}

extension GiveBack.Outcome {
  fileprivate var word: String {
    switch self {
    case .returned: "returned"
    case .unknown: "unknown"
    case .tooLate: "too late"
    case .tooOften: "too often"
    }
  }
}

/// The counted consumption of users.
@Suite struct UsageTests {
  @Test func `a rule lets as many of a thousand consumers at once through as it allows`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let feature = try meter("10 per month")
      let outcomes = try await withThrowingTaskGroup(of: Outcome.self) { group in
        for _ in 0..<1000 { group.addTask { try await ledger.consume(feature) } }
        return try await group.reduce(into: [Outcome]()) { $0.append($1) }
      }
      #expect(
        outcomes.filter { $0 != .refused }.map { "\($0)" }.sorted()
          == (1...10).map { "\(Outcome.consumed($0))" }.sorted())
      #expect(outcomes.count { $0 == .refused } == 990)
      #expect(try await ledger.total(feature) == 10)
    }
  }

  @Test func `a key that is used a thousand times counts once, and gets one answer`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let feature = try meter("10 per month")
      let outcomes = try await withThrowingTaskGroup(of: Outcome.self) { group in
        for _ in 0..<1000 { group.addTask { try await ledger.consume(feature, amount: 3, key: "k") } }
        return try await group.reduce(into: Set<Outcome>()) { $0.insert($1) }
      }
      #expect(outcomes == [.consumed(3)])
      #expect(try await ledger.total(feature) == 3)
      #expect(try await ledger.consume(feature, amount: 2, key: "k") == .mismatch)
      // Of another user, and of another feature, it is another key.
      #expect(try await ledger.consume(feature, by: "ben", key: "k") == .consumed(1))
    }
  }

  @Test func `a refused request leaves its key free`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let feature = try meter("2 per day")
      #expect(try await ledger.consume(feature, amount: 2) == .consumed(2))
      #expect(try await ledger.consume(feature, key: "k") == .refused)
      #expect(try await ledger.consume(feature, at: 86_400, key: "k") == .consumed(1))
    }
  }

  @Test func `a key stands for a week, and is free afterwards`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let feature = try meter("3 per day")
      let week = 7.0 * 86_400
      #expect(try await ledger.consume(feature, key: "k") == .consumed(1))
      #expect(try await ledger.consume(feature, at: week - 0.001, key: "k") == .consumed(1))
      #expect(try await ledger.total(feature) == 1)
      #expect(try await ledger.consume(feature, at: week, key: "k") == .consumed(1))
      #expect(try await ledger.total(feature) == 2)
      // The keys of others go with the next consumption of the same user.
      #expect(try await ledger.consume(feature, at: 2 * week + 1) == .consumed(1))
      #expect(try await scratch.fetch("SELECT count(*) FROM consumption WHERE idempotency_key IS NOT NULL") == [0])
      #expect(try await scratch.fetch("SELECT count(*) FROM consumption") == [3])
    }
  }

  @Test func `keys that are over are freed once an hour`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let feature = try meter("9 per day")
      let week = 7.0 * 86_400
      func keys() async throws -> [Int] {
        try await scratch.fetch("SELECT count(*) FROM consumption WHERE idempotency_key IS NOT NULL")
      }
      #expect(try await ledger.consume(feature, key: "k") == .consumed(1))
      #expect(try await ledger.consume(feature, at: 10, key: "l") == .consumed(2))
      #expect(try await ledger.consume(feature, at: week + 5) == .consumed(1))
      #expect(try await keys() == [1])
      #expect(try await ledger.consume(feature, at: week + 3_604) == .consumed(2))
      #expect(try await keys() == [1])
      #expect(try await ledger.consume(feature, at: week + 3_606) == .consumed(3))
      #expect(try await keys() == [0])
    }
  }

  @Test func `consumption that no rule looks back to is forgotten, and the total has it`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let feature = try meter("5 per day", "6 in total")
      #expect(try await ledger.consume(feature, amount: 4) == .consumed(4))
      #expect(try await ledger.consume(feature, at: 63 * 86_400) == .consumed(5))
      #expect(try await scratch.fetch("SELECT count(*) FROM consumption") == [1])
      #expect(try await ledger.consume(feature, amount: 2, at: 64 * 86_400) == .refused)
      #expect(try await ledger.total(feature) == 5)
    }
  }

  @Test func `consumption that was forgotten counts for no window, also after a clock that was ahead`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let feature = try meter("99 per rolling 7d")
      #expect(try await ledger.consume(feature, amount: 50) == .consumed(50))
      #expect(try await ledger.consume(feature, at: 366 * 86_400) == .consumed(1))
      #expect(try await scratch.fetch("SELECT count(*) FROM consumption") == [1])
      // That of the year ahead counts on.
      #expect(try await ledger.consume(feature, at: 10) == .consumed(2))
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `what was given back stays, and fits the rest, where a rule counts it for ever`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let feature = try meter("9 in total", "9 per rolling 7d")
      for (second, key) in ["a", nil, "b"].enumerated() {
        _ = try await ledger.consume(feature, amount: 2, at: Double(second), key: key)
        if let key { #expect(try await ledger.giveBack(feature, key, at: Double(second)).word == "returned") }
      }
      let later = 63.0 * 86_400
      #expect(try await ledger.consume(feature, at: later) == .consumed(3))
      #expect(try await scratch.fetch("SELECT count(*) FROM consumption") == [3])
      #expect(try await scratch.verify().findings == [])
      // Between what stayed, after the clock was set back.
      #expect(try await ledger.consume(feature, at: 1) == .consumed(4))
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `a user gives back one of the last thousand consumptions`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let feature = try meter("unlimited")
      #expect(try await ledger.consume(feature, key: "k") != .refused)
      try await scratch.change("UPDATE feature_total SET next_number = next_number + 1000")
      #expect(try await ledger.giveBack(feature, "k").word == "too late")
      try await scratch.change("UPDATE feature_total SET next_number = next_number - 1")
      #expect(try await ledger.giveBack(feature, "k").word == "returned")
    }
  }

  @Test func `a consumption is given back once, and its key is free`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let feature = try meter("2 per month")
      #expect(try await ledger.consume(feature, amount: 2, key: "k") == .consumed(2))
      #expect(try await ledger.consume(feature) == .refused)
      guard case .returned(let access) = try await ledger.giveBack(feature, "k") else {
        Issue.record("it is not given back")
        return
      }
      #expect(access.isAllowed && access.current == 0 && access.remaining == 2)
      #expect(try await ledger.giveBack(feature, "k").word == "unknown")
      #expect(try await ledger.giveBack(feature, "other").word == "unknown")
      #expect(try await ledger.total(feature) == 0)
      #expect(try await ledger.consume(feature, key: "k") == .consumed(1))
    }
  }

  @Test func `a user gives back no more than the rule allows to consume`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let monthly = try meter("10 per month")
      #expect(try await ledger.consume(monthly, amount: 7, key: "a") == .consumed(7))
      #expect(try await ledger.giveBack(monthly, "a").word == "returned")
      #expect(try await ledger.consume(monthly, amount: 4, key: "b") == .consumed(4))
      #expect(try await ledger.giveBack(monthly, "b").word == "too often")
      // Of all time nothing that was given back is forgotten.
      let once = try meter("1 in total")
      #expect(try await ledger.consume(once, by: "ben", key: "a") == .consumed(1))
      #expect(try await ledger.giveBack(once, "a", of: "ben").word == "returned")
      let later = 100.0 * 86_400
      #expect(try await ledger.consume(once, by: "ben", at: later, key: "b") == .consumed(1))
      #expect(try await ledger.giveBack(once, "b", of: "ben", at: later).word == "too often")
    }
  }

  @Test func `a run of days is not kept up by giving back`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let feature = try meter("3 days in a row")
      var words: [String] = []
      for day in 0..<4 {
        #expect(try await ledger.consume(feature, at: Double(day) * 86_400, key: "\(day)") == .consumed(1))
        words.append(try await ledger.giveBack(feature, "\(day)", at: Double(day) * 86_400 + 1).word)
      }
      #expect(words == ["returned", "returned", "returned", "too often"])
    }
  }

  @Test func `a user gives back within ten minutes and as often as the rule allows, a server whenever`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let feature = try meter("2 per month")
      for key in ["a", "b"] {
        #expect(try await ledger.consume(feature, key: key) == .consumed(1))
        #expect(try await ledger.giveBack(feature, key, at: 599.999).word == "returned")
      }
      #expect(try await ledger.consume(feature, key: "c") == .consumed(1))
      #expect(try await ledger.giveBack(feature, "c", at: 600).word == "too late")
      #expect(try await ledger.giveBack(feature, "c").word == "too often")
      #expect(try await ledger.giveBack(feature, "c", at: 601, isByUser: false).word == "returned")
      #expect(try await ledger.total(feature) == 0)
    }
  }

  /// 15 June 2025, 15:06:40 UTC, is the next day already in Auckland.
  @Test func `a user's zone is kept, and changes once a day at most`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let feature = try meter("1 per day")
      func zone(_ name: String, isTrusted: Bool = false) -> ZoneChoice {
        ZoneChoice(usual: .utc, named: Zone(named: name), isTrusted: isTrusted)
      }
      let auckland = zone("Pacific/Auckland")
      #expect(try await ledger.consume(feature, zone: zone("UTC")) == .consumed(1))
      // Otherwise each zone would have a day of its own.
      #expect(try await ledger.consume(feature, at: 1, zone: auckland) == .refused)
      #expect(try await ledger.consume(feature, at: 2, zone: zone("Pacific/Auckland", isTrusted: true)) == .refused)
      #expect(try await ledger.zoneName(of: "anna") == "UTC")
      #expect(try await ledger.consume(feature, at: 86_400, zone: auckland) == .consumed(1))
      #expect(try await ledger.zoneName(of: "anna") == "Pacific/Auckland")
      // A server's counts at once.
      #expect(
        try await ledger.consume(feature, at: 2 * 86_400, zone: zone("Europe/Berlin", isTrusted: true)) == .consumed(1))
      #expect(try await ledger.zoneName(of: "anna") == "Europe/Berlin")
    }
  }

  @Test func `the number of things that exist is set, and read with the rest`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let children = Feature(name: "children", kind: .limit, values: ["free": .limit(9)], tiers: ["free", "pro"])
      let before = ledger.usageGeneration(of: "anna")
      try await ledger.run(SetCount(7, of: children, of: "anna", with: "free", at: clock(0)))
      #expect(ledger.usageGeneration(of: "anna") > before)
      let usage = try await ledger.read(
        ReadUsage(of: "anna", in: nil, usual: .utc) { _ in ["children": [], "trips": []] })
      #expect(usage.usage["children"]?.total == 7 && usage.usage["trips"]?.total == 0)
    }
  }

  @Test func `a join loses no consumption, whichever keys and moments both have`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let alias: UserID = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
      let feature = try meter("9 per month")
      for (user, amount) in [("anna" as UserID, 1), (alias, 2)] {
        #expect(try await ledger.consume(feature, by: user, amount: amount, key: "k") == .consumed(amount))
        #expect(
          try await ledger.consume(feature, by: user, amount: amount, key: user.rawValue) == .consumed(2 * amount))
      }
      _ = try await ledger.run(JoinCustomer(alias, to: "anna", requestID: "join", reevaluated(at: 0)))
      #expect(try await ledger.total(feature) == 6)
      #expect(try await scratch.fetch("SELECT count(*) FROM consumption WHERE user_id = 'anna'") == [4])
      #expect(try await scratch.fetch("SELECT count(*) FROM consumption WHERE user_id <> 'anna'") == [0])
      // The user's own keeps the key; the other key came along.
      #expect(try await ledger.consume(feature, key: "k") == .consumed(1))
      #expect(try await ledger.consume(feature, amount: 2, key: alias.rawValue) == .consumed(4))
      #expect(try await ledger.consume(feature, amount: 3) == .consumed(9))
      #expect(try await ledger.consume(feature) == .refused)
    }
  }

  @Test func `an ID that was joined has the meter, the count and the zone of its user`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let alias: UserID = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
      let questions = try meter("2 per month")
      let children = Feature(name: "children", kind: .limit, values: ["free": .limit(9)], tiers: ["free", "pro"])
      let berlin = ZoneChoice(usual: .utc, named: Zone(named: "Europe/Berlin"), isTrusted: true)
      _ = try await ledger.run(JoinCustomer(alias, to: "anna", requestID: "join", reevaluated(at: 0)))
      let before = ledger.usageGeneration(of: "anna")
      #expect(try await ledger.consume(questions, by: alias, zone: berlin, key: "k") == .consumed(1))
      #expect(ledger.usageGeneration(of: "anna") > before)
      #expect(try await ledger.consume(questions, key: "k") == .consumed(1))
      #expect(try await ledger.consume(questions) == .consumed(2))
      #expect(try await ledger.consume(questions, by: alias) == .refused)
      #expect(try await ledger.changeEvents(after: 0, limit: 10).map(\.user) == ["anna"])
      #expect(try await ledger.total(questions, of: alias) == 2)
      #expect(try await ledger.giveBack(questions, "k", of: alias).word == "returned")
      #expect(try await ledger.total(questions) == 1)
      try await ledger.run(SetCount(7, of: children, of: alias, with: "free", at: clock(0)))
      for user in [alias, "anna"] { #expect(try await ledger.total(children, of: user) == 7) }
      #expect(try await ledger.zoneName(of: alias) == "Europe/Berlin")
      for table in ["consumption", "feature_total", "user_time_zone", "recorded_refusal"] {
        #expect(try await scratch.fetch("SELECT DISTINCT user_id FROM \(table)") == ["anna"], "\(table)")
      }
    }
  }

  /// The answers of SQL beside those from the list of all consumptions.
  @Test func `the table answers every question as the list of consumptions does`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      var random = SeededRandom(seed: 18)
      let feature = try meter("unlimited")
      for number in 0..<40 {
        let user = UserID("u\(number)")
        let alias = UserID("$RCAnonymousID:\(String(format: "%032x", number))")
        var list: [Consumption] = []
        for index in 0..<Int.random(in: 0...12, using: &random) {
          let (seconds, amount) = (
            Double(Int.random(in: 0...20, using: &random)), Int.random(in: 1...4, using: &random)
          )
          let consumer = number % 2 == 0 ? user : [user, alias].randomElement(using: &random) ?? user
          _ = try await ledger.consume(
            feature, by: consumer, tier: "pro", amount: amount, at: seconds, key: "\(index)")
          if Int.random(in: 0..<4, using: &random) == 0 {
            #expect(try await ledger.giveBack(feature, "\(index)", of: consumer, at: seconds).word == "returned")
          } else {
            list.append(Consumption(moment: at(seconds), amount: amount))
          }
        }
        if number % 2 == 1 {
          _ = try await ledger.run(JoinCustomer(alias, to: user, requestID: "join", reevaluated(at: 0)))
        }
        var questions: Set<UsageQuestion> = []
        for _ in 0..<20 {
          let start = Int.random(in: -1...20, using: &random)
          let end =
            Bool.random(using: &random) ? at(Double(start + Int.random(in: 0...9, using: &random))) : .distantFuture
          questions.insert(
            UsageQuestion(
              range: at(Double(start))..<end,
              keeping: [nil, Int.random(in: -1...9, using: &random)].randomElement(using: &random) ?? nil))
        }
        let asked = questions
        let usage = try await ledger.read(ReadUsage(of: user, in: nil, usual: .utc) { _ in [feature.name: asked] })
        for question in questions {
          let expected = UsageAnswer(to: question, from: list)
          let answer = try #require(usage.usage[feature.name])[question]
          #expect(answer.amount == expected.amount && answer.blocking == expected.blocking)
          if question.keeping != nil { #expect(answer.oldest == expected.oldest) }
        }
      }
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `verify finds a running total that is wrong`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let feature = try meter("9 per month")
      for second in 0..<3 { _ = try await ledger.consume(feature, amount: 2, at: Double(second)) }
      #expect(try await scratch.verify().findings == [])
      try await scratch.change("UPDATE consumption SET running_total = 5 WHERE number = 2")
      #expect(
        try await scratch.verify().findings == ["Running totals of consumption that do not fit its amounts: 1."])
    }
  }
}

/// Kills under consumption.
@Suite(.serialized) struct UsageFaultTests {
  private static let isFull = ProcessInfo.processInfo.environment["COUNTERSIGN_FAULTS"] == "full"

  @Test(.ofTheFile) func `kills lose no consumption that was acknowledged, and count none twice`() async throws {
    let scratch = try Scratch()
    var acknowledged: Set<String> = []
    let rounds = Self.isFull ? 200 : 10
    for round in 1...rounds {
      let probe = try await Probe([scratch.path, "consume"])
      try await probe.wait(forLines: 10 + 7 * (round % 20))
      acknowledged.formUnion(await probe.kill().filter { $0.hasPrefix("ack ") }.map { String($0.dropFirst(4)) })
    }
    let ledger = try await scratch.open()
    await ledger.close()
    let kept = try await scratch.fetch("SELECT user_id || ' ' || idempotency_key FROM consumption", as: String.self)
    #expect(Set(kept).count == kept.count)
    #expect(acknowledged.subtracting(kept) == [])
    // At most one consumption of each of the eight was under way when the process was killed.
    #expect(kept.count <= acknowledged.count + 8 * rounds)
    #expect(
      try await scratch.fetch("SELECT sum(total) FROM feature_total", as: Int.self)
        == scratch.fetch("SELECT sum(amount) FROM consumption"))
    #expect(acknowledged.count >= rounds * 4)
    print("faults: \(rounds) kills under consumption, \(acknowledged.count) acknowledged, 0 lost, 0 counted twice")
  }
}
