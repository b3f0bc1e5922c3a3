import Access
import Entitlements
import LedgerFixtures
import SeededRandom
import Testing

@testable import Figures
@testable import Ledger

/// The variants that users saw, and their figures, as the ledger keeps them up.
@Suite struct ExperimentLedgerTests {
  fileprivate static let anonymous: UserID = "$RCAnonymousID:0123456789abcdef0123456789abcdef"

  fileprivate static func saw(
    _ user: UserID, _ variant: String, of experiment: String = "paywall", at seconds: Double = 0
  ) -> AppEvent {
    AppEvent(
      user: user, type: "experiment_exposed", at: at(seconds), properties: "{}",
      exposure: Exposure(experiment: experiment, variant: variant, at: at(seconds)))
  }

  private static func count(_ ledger: Ledger) async throws {
    while try await ledger.countPurchases([:], limit: 3) > 0 {}
    while try await ledger.countExposures([:], limit: 3) > 0 {}
  }

  private static func kept(_ ledger: Ledger, _ user: UserID) async throws -> [String: String] {
    Dictionary(uniqueKeysWithValues: try await ledger.exposures(of: user).exposures.map { ($0.experiment, $0.variant) })
  }

  private static func exposed(_ ledger: Ledger, _ variant: String, of experiment: String = "paywall") async throws
    -> Int64
  {
    try await ledger.readLong(ReadExperimentFigures(exposedIn: 0..<100_000)).counts[experiment]?[variant]?[""]?.exposed
      ?? 0
  }

  @Test func `a replica with the prices of before counts no user by them`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let former: [ProductID: Plans.Terms] = [pro: .init(prices: ["EUR": Price(milliunits: 2_990)])]
      try await ledger.beginFigures(former)
      try await ledger.beginFigures([:])
      try await ledger.record([Self.saw("anna", "family")], at: clock(10))
      #expect(try await ledger.countExposures(former, limit: 10) == 0)
      #expect(try await ledger.readLong(ReadExperimentFigures(exposedIn: 0..<100_000)).pending > 0)
      #expect(try await ledger.countExposures([:], limit: 10) == 1)
    }
  }

  @Test func `the first one stays, and what it says is read at once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let user = UserID(annasAccount)
      let generation = ledger.usageGeneration(of: user)
      try await ledger.record([Self.saw(UserID(annasAccount.uppercased()), "family", at: 5)], at: clock(10))
      #expect(ledger.usageGeneration(of: user) != generation)
      try await ledger.record([Self.saw(user, "savings", at: 1), Self.saw(user, "start", of: "cta")], at: clock(11))
      #expect(try await Self.kept(ledger, user) == ["paywall": "family", "cta": "start"])
      #expect(try await ledger.exposures(of: user).exposures.last?.at == at(5))
      // Every one of them is an event all the same.
      #expect(try await ledger.changeEvents(after: 0, limit: 10).count == 3)
    }
  }

  @Test func `one of many exposures at once is kept, and counted once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<40 {
          group.addTask { try await ledger.record([Self.saw("anna", "v\(number)")], at: clock(1)) }
        }
        try await group.waitForAll()
      }
      let kept = try await Self.kept(ledger, "anna")
      #expect(kept.count == 1)
      try await ledger.record([Self.saw("anna", "later")], at: clock(2))
      #expect(try await Self.kept(ledger, "anna") == kept)
      try await Self.count(ledger)
      #expect(try await Self.exposed(ledger, try #require(kept["paywall"])) == 1)
      #expect(try await ledger.readLong(ReadExperimentFigures(exposedIn: 0..<100_000)).counts["paywall"]?.count == 1)
    }
  }

  @Test func `an anonymous customer's becomes the user's, but where the user saw another one`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await ledger.record(
        [
          Self.saw(Self.anonymous, "family"), Self.saw(Self.anonymous, "start", of: "cta"), Self.saw("anna", "savings"),
        ], at: clock(1))
      try await Self.count(ledger)
      #expect(try await Self.exposed(ledger, "family") == 1)
      _ = try await ledger.run(JoinCustomer(Self.anonymous, to: "anna", requestID: "join", reevaluated(at: 5)))
      #expect(try await Self.kept(ledger, "anna") == ["paywall": "savings", "cta": "start"])
      let joined = try await ledger.exposures(of: Self.anonymous)
      #expect(joined.user == "anna" && joined.exposures.count == 2)
      // Events of the former ID are the user's.
      try await ledger.record([Self.saw(Self.anonymous, "family")], at: clock(6))
      try await Self.count(ledger)
      #expect(try await Self.exposed(ledger, "family") == 0)
      #expect(try await Self.exposed(ledger, "savings") == 1)
      #expect(try await Self.exposed(ledger, "start", of: "cta") == 1)
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `an erased user is in the sums alone, and who comes back is new`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await ledger.record([Self.saw("anna", "family")], at: clock(1))
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      try await Self.count(ledger)
      let generation = ledger.usageGeneration(of: "anna")
      _ = try await ledger.erase(Erasure(user: "anna", reset: nil, evaluationContext: reevaluated(at: 9)))
      #expect(ledger.usageGeneration(of: "anna") != generation)
      #expect(try await Self.kept(ledger, "anna") == [:])
      try await Self.count(ledger)
      #expect(try await Self.exposed(ledger, "family") == 1)
      try await ledger.record([Self.saw("anna", "savings", at: 10)], at: clock(10))
      #expect(try await Self.kept(ledger, "anna") == ["paywall": "savings"])
      try await Self.count(ledger)
      #expect(try await Self.exposed(ledger, "family") == 1)
      #expect(try await Self.exposed(ledger, "savings") == 1)
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `a span is of the days on which users saw it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let day = 86_400.0
      try await ledger.record(
        [Self.saw("anna", "family"), Self.saw("ben", "family", at: day), Self.saw("cleo", "family", at: 3 * day)],
        at: clock(3 * day))
      #expect(try await ledger.readLong(ReadExperimentFigures(exposedIn: 0..<100_000)).pending == 3)
      try await Self.count(ledger)
      let first = at(0).utcDay
      for (days, users) in [(first..<first + 1, 1), (first + 1..<first + 4, 2), (first + 4..<first + 9, 0)] {
        let figures = try await ledger.readLong(ReadExperimentFigures(exposedIn: days))
        #expect(figures.pending == 0)
        #expect(figures.counts["paywall"]?["family"]?[""]?.exposed ?? 0 == Int64(users))
      }
      #expect(try await ledger.readLong(ReadExperimentFigures()).counts["paywall"]?["family"]?[""]?.exposed == 3)
    }
  }

  @Test func `verify finds what is not to be counted`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await ledger.record([Self.saw("anna", "family")], at: clock(1))
      #expect(try await scratch.verify().findings == [])
      try await scratch.change("DELETE FROM exposure_due")
      #expect(
        try await scratch.verify().findings == [
          "Of what users saw of experiments 1 are neither counted nor to be counted."
        ])
    }
  }

  // MARK: Against a naive recount

  @Test(arguments: 0..<4)
  func `after any history the figures are those of a naive recount`(seed: Int) async throws {
    try await Scratch.withLedger { ledger, scratch in
      var run = Run(ledger: ledger, random: SeededRandom(seed: UInt64(seed)))
      for _ in 0..<90 { try await run.step() }
      try await Self.count(ledger)
      var figures: [String: [Int64]] = [:]
      for (experiment, variants) in try await ledger.readLong(ReadExperimentFigures(exposedIn: 0..<100_000)).counts {
        for (variant, counts) in variants {
          for (currency, one) in counts {
            figures["\(experiment) \(variant) \(currency)"] =
              currency.isEmpty ? [one.exposed, one.paidBefore, one.trials, one.paid] : [one.revenue, one.refunds]
          }
        }
      }
      let naive = run.recount()
      #expect(figures == naive)
      let whole = try await ledger.readLong(ReadExperimentFigures(exposedIn: 0..<100_000)).counts
      #expect(try await ledger.readLong(ReadExperimentFigures()).counts == whole)
      // As other rules left them.
      for change in ["DELETE FROM variant_figure", "UPDATE variant_figure SET exposed = 7"] {
        try await scratch.change("\(change) WHERE day < -1000000")
        #expect(try await ledger.readLong(ReadExperimentFigures()).counts != whole)
        try await ledger.keepMemo("figure rules", "0")
        try await ledger.beginFigures([:])
        #expect(try await ledger.readLong(ReadExperimentFigures()).counts == whole)
        #expect(try await ledger.readLong(ReadExperimentFigures(exposedIn: Int.min..<Int.max)).counts == whole)
      }
      #expect(naive.count > 4)
      #expect(try await scratch.verify().findings == [])
    }
  }

  /// A random history, with what is known of it.
  private struct Run {
    struct Payment {
      var at: Double
      var price: Int64
      var isTrial: Bool
      var refundedAt: Double?
    }

    struct Bought {
      var owner: UserID
      var payments: [Payment]
    }

    static let ids = ["1", "2", "3", "4", "5", "6"]

    let ledger: Ledger
    var random: SeededRandom
    var now = 0.0
    var users: [UserID] = ["anna", "ben", "cleo", "dora", ExperimentLedgerTests.anonymous]
    var seen: [UserID: [String: (variant: String, at: Double)]] = [:]
    var purchases: [String: Bought] = [:]
    var trials: [UserID: [Double]] = [:]

    private mutating func pick<Element>(_ choices: [Element]) -> Element {
      choices[Int.random(in: 0..<choices.count, using: &random)]
    }

    mutating func step() async throws {
      now += Double(Int.random(in: 1...50_000, using: &random))
      switch Int.random(in: 0..<12, using: &random) {
      case 0...3: try await expose()
      case 4...6: try await buy()
      case 7: try await refund()
      case 8: try await transfer()
      case 9: try await beginTrial()
      case 10: try await join()
      default:
        _ = try await ledger.countPurchases([:], limit: Int.random(in: 1...3, using: &random))
        _ = try await ledger.countExposures([:], limit: Int.random(in: 1...3, using: &random))
      }
    }

    private mutating func expose() async throws {
      let (user, experiment, variant) = (pick(users), pick(["paywall", "cta"]), pick(["a", "b"]))
      // An app may have been offline.
      let moment = now - pick([0, 0, 30_000])
      try await ledger.record([ExperimentLedgerTests.saw(user, variant, of: experiment, at: moment)], at: clock(now))
      if seen[user]?[experiment] == nil { seen[user, default: [:]][experiment] = (variant, moment) }
    }

    private mutating func buy() async throws {
      let id = pick(Self.ids)
      var bought = purchases[id] ?? Bought(owner: pick(users), payments: [])
      let isTrial = bought.payments.isEmpty && pick([true, false])
      bought.payments.append(Payment(at: now, price: pick([4_990, 9_990]), isTrial: isTrial))
      purchases[id] = bought
      try await report(id, bought)
    }

    private mutating func refund() async throws {
      guard let id = purchases.keys.sorted().randomElement(using: &random), var bought = purchases[id] else { return }
      let place = Int.random(in: 0..<bought.payments.count, using: &random)
      guard !bought.payments[place].isTrial else { return }
      bought.payments[place].refundedAt = bought.payments[place].refundedAt ?? now
      purchases[id] = bought
      try await report(id, bought)
    }

    private func report(_ id: String, _ bought: Bought) async throws {
      var evidence = evidence(id, time: now)
      evidence.purchases = bought.payments.map { payment in
        Purchase(
          productID: pro, transactionID: TransactionID("\(id)-\(payment.at)"),
          originalTransactionID: OriginalTransactionID(id), purchaseDate: at(payment.at),
          expiresDate: at(payment.at + 90_000), cancellationDate: payment.refundedAt.map(at), isTrial: payment.isTrial,
          isFirst: payment.at == bought.payments.first?.at,
          sale: .init(price: payment.price, currency: id == "1" ? "EUR" : "USD"))
      }
      #expect(try await ledger.record(entry(bought.owner, [evidence])).recorded != nil)
    }

    private mutating func transfer() async throws {
      guard let id = purchases.keys.sorted().randomElement(using: &random) else { return }
      let user = pick(users)
      _ = try await ledger.run(moving(id, to: user, at: now))
      purchases[id]?.owner = user
    }

    private mutating func beginTrial() async throws {
      let user = pick(users)
      let device = DeviceID(rawValue: "00000000-0000-4000-8000-\(String(1_000_000_000_000 + Int(now)).suffix(12))")
      if case .started = try await ledger.run(Anna.trial(user, on: device, at: now)) {
        trials[user, default: []].append(now)
      }
    }

    private mutating func join() async throws {
      guard users.contains(ExperimentLedgerTests.anonymous), now > 1_000_000 else { return }
      let former = ExperimentLedgerTests.anonymous
      #expect(
        try await ledger.run(JoinCustomer(former, to: "anna", requestID: "join", reevaluated(at: now))) == .joined)
      users.removeAll { $0 == former }
      for (experiment, one) in seen.removeValue(forKey: former) ?? [:] where seen["anna"]?[experiment] == nil {
        seen["anna", default: [:]][experiment] = one
      }
      for id in purchases.keys where purchases[id]?.owner == former { purchases[id]?.owner = "anna" }
      trials["anna", default: []] += trials.removeValue(forKey: former) ?? []
    }

    /// Users under `experiment variant `, and money with the currency behind it.
    func recount() -> [String: [Int64]] {
      var figures: [String: [Int64]] = [:]
      for (user, experiments) in seen {
        for (experiment, saw) in experiments {
          var (before, began, paid) = (false, trials[user, default: []].contains { $0 >= saw.at }, false)
          var money: [String: [Int64]] = [:]
          for (id, bought) in purchases where bought.owner == user {
            for payment in bought.payments {
              if payment.isTrial {
                if payment.at >= saw.at { began = true }
              } else if payment.at < saw.at {
                before = true
              } else {
                let isRefunded = payment.refundedAt != nil
                if !isRefunded { paid = true }
                var sums = money[id == "1" ? "EUR" : "USD"] ?? [0, 0]
                sums[0] += payment.price
                if isRefunded { sums[1] += payment.price }
                money[id == "1" ? "EUR" : "USD"] = sums
              }
            }
          }
          if before { (began, paid, money) = (false, false, [:]) }
          let line = "\(experiment) \(saw.variant) "
          let own: [Int64] = [1, before ? 1 : 0, began ? 1 : 0, paid ? 1 : 0]
          figures[line] = zip(figures[line] ?? [0, 0, 0, 0], own).map(+)
          for (currency, sums) in money {
            figures[line + currency] = zip(figures[line + currency] ?? [0, 0], sums).map(+)
          }
        }
      }
      return figures
    }
  }
}
