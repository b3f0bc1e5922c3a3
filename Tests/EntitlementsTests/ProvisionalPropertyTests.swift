import Entitlements
import SeededRandom
import Testing

import struct FoundationEssentials.Date

/// Properties that provisional evidence has, whatever else is known. The case number is the seed.
@Suite(.computing) struct ProvisionalPropertyTests {
  /// A customer of whom something is proven and something is only signed, partly of the same subscriptions.
  private struct Trial {
    var maker: RandomCustomer
    let proven: [SubscriptionEvidence]
    let signed: [SubscriptionEvidence]
    let now: Date
    let policy: EntitlementPolicy
    let catalog: Catalog

    init(_ seed: Int) throws {
      maker = RandomCustomer(seed: UInt64(9_000_000 + seed))
      proven = maker.customer()
      now = maker.random.moment(-25...20)
      policy = maker.policy()
      catalog = try makeCatalog()
      var signed: [SubscriptionEvidence] = []
      // Also rows that no honest receipt would carry, and rows that proof has already told.
      for number in 0..<Int.random(in: 1...4, using: &maker.random) {
        var item = maker.subscription(number, groups: [nil, "A", "B"])
        if maker.random.chance(30), let known = proven.randomElement(using: &maker.random) {
          item.key = known.key
          item.purchases += known.purchases
        }
        item.source = .signature
        item.provisionalUntil = maker.random.moment(-10...20)
        signed.append(item)
      }
      self.signed = signed
    }

    func evaluate(_ evidence: [SubscriptionEvidence], at now: Date? = nil) -> Entitlement {
      Entitlement.evaluate(evidence, at: now ?? self.now, catalog: catalog, policy: policy)
    }

    func rank(_ verdict: Entitlement) -> Int { catalog.rank(of: verdict.tier) }
  }

  @Test func `each piece added never lowers the tier, so each removed never raises it`() throws {
    var granted = 0
    for seed in PropertyTests.cases {
      let trial = try Trial(seed)
      var evidence = trial.proven
      var verdict = trial.evaluate(evidence)
      for item in trial.signed {
        evidence.append(item)
        let next = trial.evaluate(evidence)
        #expect(trial.rank(next) >= trial.rank(verdict), "seed \(seed)")
        verdict = next
      }
      if verdict.isProvisional { granted += 1 }
    }
    #expect(granted >= SeededRandom.cases(500))
  }

  @Test func `a provisional grant decides, or the verdict is as if it were not there`() throws {
    for seed in PropertyTests.cases {
      let trial = try Trial(seed)
      let alone = trial.evaluate(trial.proven)
      let verdict = trial.evaluate(trial.proven + trial.signed)
      if verdict.isProvisional {
        #expect(verdict.status == .active && !verdict.isStale && verdict.willRenew == nil, "seed \(seed)")
        #expect([.lifetime, .renewing, .nonRenewing].contains(verdict.reason), "seed \(seed)")
        let moment = try #require(verdict.explanation.evaluatedAt)
        #expect(try moment < #require(verdict.accessUntil), "seed \(seed)")
        let until = try #require(trial.signed.compactMap(\.provisionalUntil).max())
        #expect(try #require(verdict.accessUntil) <= until, "seed \(seed)")
      } else {
        var same = verdict
        same.explanation.passedOver = alone.explanation.passedOver
        same.explanation.passedOverCount = alone.explanation.passedOverCount
        #expect(same == alone, "seed \(seed)")
      }
    }
  }

  @Test func `after its time the verdict is the one without it`() throws {
    for seed in PropertyTests.cases {
      let trial = try Trial(seed)
      let until = try #require(trial.signed.compactMap(\.provisionalUntil).max())
      for moment in [until, until.advanced(by: .milliseconds(1)), until.advanced(by: .seconds(86_400 * 30))] {
        #expect(
          trial.evaluate(trial.proven + trial.signed, at: moment) == trial.evaluate(trial.proven, at: moment),
          "seed \(seed)")
      }
    }
  }

  @Test func `proof of the same key that is as new always wins`() throws {
    for seed in PropertyTests.cases {
      var trial = try Trial(seed)
      let answers = trial.signed.map { item in
        var answer = trial.maker.subscription(1)
        answer.key = item.key
        answer.evidenceTime = item.evidenceTime.advanced(by: .milliseconds(trial.maker.random.pick([0, 1], or: 0)))
        return answer
      }
      // Two pieces of one key may come up; the newest answer of it is newer than both.
      let newest = answers.map { answer in
        var answer = answer
        answer.evidenceTime = answers.filter { $0.key == answer.key }.map(\.evidenceTime).max() ?? answer.evidenceTime
        return answer
      }
      #expect(trial.evaluate(newest + trial.signed) == trial.evaluate(newest), "seed \(seed)")
    }
  }

  @Test func `a refund stands above all, however old its proof`() throws {
    for seed in PropertyTests.cases {
      let trial = try Trial(seed)
      let refunds = trial.signed.map { item in
        var refund = item
        refund.provisionalUntil = nil
        refund.evidenceTime = item.evidenceTime.advanced(by: .seconds(-86_400))
        for index in refund.purchases.indices { refund.purchases[index].cancellationDate = day(-30) }
        return refund
      }
      let verdict = trial.evaluate(refunds + trial.signed)
      #expect(verdict.tier == "free" && !verdict.isProvisional, "seed \(seed)")
      #expect(verdict == trial.evaluate(refunds), "seed \(seed)")
    }
  }

  @Test func `the order of the evidence has no meaning`() throws {
    for seed in PropertyTests.cases {
      var trial = try Trial(seed)
      var evidence = trial.proven + trial.signed + trial.signed.prefix(1)
      let verdict = trial.evaluate(evidence)
      for _ in 0..<3 {
        evidence.shuffle(using: &trial.maker.random)
        for index in evidence.indices { evidence[index].purchases.shuffle(using: &trial.maker.random) }
        #expect(trial.evaluate(evidence) == verdict, "seed \(seed)")
      }
    }
  }

  @Test func `the rules agree with a second, naive reading`() throws {
    var granted = 0
    for seed in PropertyTests.cases {
      let trial = try Trial(seed)
      // All that is granted, a row at a time, judged at the end the whole would have.
      var best = trial.evaluate(trial.proven).tier == "premium" ? 2 : trial.evaluate(trial.proven).tier == "pro" ? 1 : 0
      for item in trial.signed {
        let isOutdated = trial.proven.contains { $0.key == item.key && $0.evidenceTime >= item.evidenceTime }
        if isOutdated || item.isAccountGone { continue }
        func model(_ rows: [Purchase], at now: Int64 = 0) -> ReferenceModel {
          ReferenceModel(rows: rows, renewal: nil, isGone: false, answered: now, retryAccess: 0, hold: 0)
        }
        let ended = trial.proven.filter { $0.key.environment == item.key.environment }.flatMap { proof in
          proof.purchases.filter { $0.cancellationDate != nil || model(proof.purchases).isReplaced($0) }
        }
        let now = max(trial.now, item.evaluatedAt)
        guard let until = item.provisionalUntil, now < until else { continue }
        let present = model(
          item.purchases.filter { row in
            !ended.contains { other in
              // A restored purchase has another transaction ID.
              let isRestored = row.expiresDate == nil && other.expiresDate == nil && row.productID == other.productID
              return other.transactionID == row.transactionID
                || isRestored && other.originalTransactionID == row.originalTransactionID
            }
          })
        let live = present.counted.filter { !present.isReplaced($0) && $0.cancellationDate == nil }
        // The model knows no groups and no subscriptions side by side; rows of one group, and live ones of one subscription.
        guard Set(item.purchases.map { "\($0.subscriptionGroupID?.rawValue ?? "") \($0.ownership)" }).count == 1,
          Set(live.map(\.originalTransactionID)).count < 2
        else {
          best = -1
          break
        }
        let reported = model(live, at: now.millisecondsSince1970).verdict(at: now.millisecondsSince1970)
        guard reported.isEntitled else { continue }
        best = max(best, reported.tier == "premium" ? 2 : 1)
      }
      guard best >= 0 else { continue }
      let verdict = trial.evaluate(trial.proven + trial.signed)
      #expect(trial.rank(verdict) == best, "seed \(seed)")
      if verdict.isProvisional { granted += 1 }
    }
    #expect(granted >= SeededRandom.cases(100))
  }
}
