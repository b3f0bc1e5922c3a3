import Entitlements
import SeededRandom
import Testing

import struct FoundationEssentials.Date

/// Properties that hold for every customer, tried on a few thousand made-up ones. The case number is the seed.
@Suite(.computing) struct PropertyTests {
  static let cases = 0..<SeededRandom.cases(3_000)

  /// One customer with everything needed to judge them.
  private struct Trial {
    var maker: RandomCustomer
    let evidence: [SubscriptionEvidence]
    let now: Date
    let policy: EntitlementPolicy
    let catalog: Catalog

    init(_ seed: Int, groups: [SubscriptionGroupID?] = [nil, nil, "A", "B"]) throws {
      maker = RandomCustomer(seed: UInt64(seed))
      maker.buysSeasons = true
      evidence = maker.customer(groups: groups)
      now = maker.random.moment(-25...70)
      policy = maker.policy()
      catalog = try makeCatalog()
    }

    func evaluate(
      _ evidence: [SubscriptionEvidence], among surroundings: PurchaseSurroundings? = nil, at now: Date? = nil
    ) -> Entitlement {
      Entitlement.evaluate(evidence, among: surroundings, at: now ?? self.now, catalog: catalog, policy: policy)
    }

    func rank(_ entitlement: Entitlement) -> Int { catalog.rank(of: entitlement.tier) }
  }

  @Test func `the order of rows, renewal info and evidence has no meaning`() throws {
    for seed in Self.cases {
      var trial = try Trial(seed)
      // Some rows are told twice, once with a refund, and some renewal info contradicts itself.
      var evidence = trial.evidence
      for index in evidence.indices where trial.maker.random.chance(30) {
        if var copy = evidence[index].purchases.first {
          copy.cancellationDate = noon
          evidence[index].purchases.append(copy)
        }
        evidence[index].renewals.append(
          trial.maker.renewalInfo(of: evidence[index].key.originalTransactionID, pro))
      }
      let verdict = trial.evaluate(evidence)
      for _ in 0..<3 {
        evidence.shuffle(using: &trial.maker.random)
        for index in evidence.indices {
          evidence[index].purchases.shuffle(using: &trial.maker.random)
          evidence[index].renewals.shuffle(using: &trial.maker.random)
        }
        #expect(trial.evaluate(evidence) == verdict, "seed \(seed)")
      }
    }
  }

  enum DeadRow: CaseIterable { case upgraded, cancelled, uncatalogued }

  @Test(arguments: DeadRow.allCases)
  func `a row that grants nothing never raises the tier`(kind: DeadRow) throws {
    for seed in Self.cases {
      var trial = try Trial(seed)
      guard let index = trial.evidence.indices.randomElement(using: &trial.maker.random) else { continue }
      var evidence = trial.evidence
      var dead = trial.maker.purchase(
        of: evidence[index].key.originalTransactionID, group: evidence[index].purchases.first?.subscriptionGroupID)
      switch kind {
      case .upgraded: dead.isUpgraded = true
      case .cancelled: dead.cancellationDate = trial.maker.random.moment(-40...0)
      case .uncatalogued: dead.productID = unheardOf
      }
      // One that was taken back takes what it replaced with it: another row may decide then.
      let replaces = evidence[index].purchases.contains { $0.productID != dead.productID }
      if dead.cancellationDate != nil, replaces { continue }
      // Apple's word that something was taken back is then of this row.
      if dead.cancellationDate != nil, evidence[index].renewals.contains(where: { $0.status == .revoked }) { continue }
      // The same where one that was taken back replaced this row: so it was an upgrade, of all that ran.
      let isReplaced = evidence[index].purchases.contains { other in
        other.cancellationDate != nil && other.productID != dead.productID
          && (dead.purchaseDate ?? .distantPast) < (other.purchaseDate ?? .distantPast)
      }
      if isReplaced { continue }
      evidence[index].purchases.append(dead)
      #expect(trial.rank(trial.evaluate(evidence)) <= trial.rank(trial.evaluate(trial.evidence)), "seed \(seed)")
    }
  }

  @Test func `time alone never raises the tier`() throws {
    for seed in Self.cases {
      var trial = try Trial(seed)
      var rank = Int.max
      let moments = (0..<12).map { _ in trial.maker.random.moment(-30...470) }.sorted()
      for moment in moments {
        let next = trial.rank(trial.evaluate(trial.evidence, at: moment))
        #expect(next <= rank, "seed \(seed), \(moment.millisecondsSince1970)")
        rank = next
      }
    }
  }

  @Test func `a subscription stands by itself: the whole is the best of its parts`() throws {
    for seed in Self.cases {
      // No groups: every key is a subscription of its own.
      let trial = try Trial(seed, groups: [nil])
      let whole = trial.evaluate(trial.evidence)
      // A season begins at the end of another.
      let surroundings = PurchaseSurroundings(of: trial.evidence, catalog: trial.catalog, policy: trial.policy)
      let parts = trial.evidence.map { trial.evaluate([$0], among: surroundings) }.filter { $0.productID != nil }
      guard !parts.isEmpty else {
        #expect(whole.productID == nil, "seed \(seed)")
        continue
      }
      #expect(trial.rank(whole) == parts.map(trial.rank).max(), "seed \(seed)")
      let decidingRow = parts.filter { $0.explanation.decidedBy == whole.explanation.decidedBy }
      #expect(
        decidingRow.contains {
          $0.tier == whole.tier && $0.status == whole.status && $0.reason == whole.reason
            && $0.accessUntil == whole.accessUntil && $0.expiresAt == whole.expiresAt
            && $0.willRenew == whole.willRenew && $0.isStale == whole.isStale
        }, "seed \(seed)")
    }
  }

  @Test func `surroundings change no verdict`() throws {
    for seed in Self.cases {
      let trial = try Trial(seed)
      for evidence in [trial.evidence] + trial.evidence.map({ [$0] }) {
        let surroundings = PurchaseSurroundings(of: evidence, catalog: trial.catalog, policy: trial.policy)
        #expect(trial.evaluate(evidence, among: surroundings) == trial.evaluate(evidence), "seed \(seed)")
      }
    }
  }

  @Test func `another subscription never lowers the tier`() throws {
    for seed in Self.cases {
      var trial = try Trial(seed)
      let more = trial.maker.subscription(99, groups: ["of its own"])
      let before = trial.rank(trial.evaluate(trial.evidence))
      #expect(trial.rank(trial.evaluate(trial.evidence + [more])) >= before, "seed \(seed)")
      let running = answer(at: trial.now, [row("higher", premium, of: "higher", until: day(900))])
      #expect(trial.evaluate(trial.evidence + running).tier == "premium", "seed \(seed)")
    }
  }

  @Test func `an answer without a named end never lowers the tier within late_renewal of the end`() throws {
    var (found, foundAfterEnd) = (0, 0)
    for seed in Self.cases {
      var trial = try Trial(seed)
      let known = trial.evidence.filter { !$0.isAccountGone }.randomElement(using: &trial.maker.random)
      guard let known, let index = trial.evidence.firstIndex(of: known) else { continue }
      // Soon after one of the ends, or at any time.
      let late = max(0, Int64(trial.policy.lateRenewal / .milliseconds(1)) - 1)
      let ended = known.purchases.compactMap(\.expiresDate).randomElement(using: &trial.maker.random) ?? trial.now
      let after = ended.advanced(by: .milliseconds(Int64.random(in: 0...late, using: &trial.maker.random)))
      let now = max(trial.maker.random.chance(70) ? after : trial.now, known.evaluatedAt).advanced(by: .milliseconds(1))
      let before = trial.evaluate(trial.evidence, at: now)
      guard let row = known.purchases.first(where: { $0.transactionID == before.explanation.decidedBy }),
        let end = before.expiresAt, now < end.advanced(by: trial.policy.lateRenewal)
      else { continue }
      // Apple shows the same rows, and that the subscription goes on.
      let goesOn = RenewalInfo(
        originalTransactionID: known.key.originalTransactionID, productID: row.productID, autoRenews: true,
        status: trial.maker.random.pick([nil, .active], or: nil))
      // Paid periods of one subscription do not overlap: of others a notification says that one replaced the other.
      let isAnswer = known.purchases.count > 1 || trial.maker.random.chance(30)
      let reported = answer(
        at: now, known.purchases, [goesOn], in: known.key.environment,
        source: isAnswer ? .verifyReceipt : .notification, isPart: !isAnswer)
      var evidence = trial.evidence
      evidence[index] = reported.reduce(known) { $0.merging($1) }
      let verdict = trial.evaluate(evidence, at: now)
      #expect(trial.rank(verdict) >= trial.rank(before), "seed \(seed)")
      if before.tier != "free" { found += 1 }
      if before.tier != "free", end <= now { foundAfterEnd += 1 }
    }
    #expect(found >= SeededRandom.cases(200) && foundAfterEnd >= SeededRandom.cases(20))
  }

  @Test func `status, tier and end of access always agree`() throws {
    var seen: Set<EntitlementReason> = []
    // The rarest reason needs all of them.
    for seed in 0..<5_000 {
      let trial = try Trial(seed)
      let verdict = trial.evaluate(trial.evidence)
      seen.insert(verdict.reason)
      let isEntitled = verdict.status != .expired && verdict.productID != nil
      #expect((verdict.tier != "free") == isEntitled, "seed \(seed)")
      #expect((verdict.accessUntil == nil) == (!isEntitled || verdict.reason == .lifetime), "seed \(seed)")
      if let until = verdict.accessUntil, !verdict.isStale, let evaluatedAt = verdict.explanation.evaluatedAt {
        #expect(evaluatedAt < until, "seed \(seed)")
      }
      if verdict.status == .expired, let end = verdict.expiresAt, let evaluatedAt = verdict.explanation.evaluatedAt {
        #expect(end <= evaluatedAt, "seed \(seed)")
      }
      #expect((verdict.explanation.decidedBy == nil) == (verdict.productID == nil), "seed \(seed)")
    }
    // The cases are worth something only if they reach every rule on purchases.
    #expect(seen == Set(EntitlementReason.allCases).subtracting([.granted, .trial, .originalPurchase]))
  }

  @Test func `every transaction either decides or is passed over, once`() throws {
    for seed in Self.cases {
      let trial = try Trial(seed)
      let verdict = trial.evaluate(trial.evidence)
      // A restored purchase is the one that it was first.
      var first: [TransactionID: String] = [:]
      for item in trial.evidence {
        let model = ReferenceModel(
          rows: item.purchases, renewal: nil, isGone: false, answered: 0, retryAccess: 0, hold: 0)
        for row in item.purchases {
          first[row.transactionID] = model.copies(of: row).map(\.transactionID.rawValue).min()
        }
      }
      let reported = verdict.explanation.passedOver.map(\.transactionID)
      let named = (reported + [verdict.explanation.decidedBy].compactMap { $0 }).compactMap { first[$0] }
      #expect(named.sorted() == Set(first.values).sorted(), "seed \(seed)")
      #expect(verdict.explanation.passedOverCount == reported.count, "seed \(seed)")
    }
  }

  @Test func `absurd dates and durations end in a verdict`() throws {
    let dates: [Date] = [
      .distantPast, .distantFuture, Date(millisecondsSince1970: .max), Date(millisecondsSince1970: .min), noon,
    ]
    let durations: [Duration] = [.zero, .seconds(-1), .seconds(Int64.max), .seconds(Int64.min)]
    for end in dates {
      for now in dates {
        for duration in durations {
          let evidence = answer(
            [row("1", from: end, until: end), row("2", until: end, cancelled: now)],
            [renewal(retry: true, grace: duration == .zero ? end : nil)])
          let verdict = try evaluate(evidence, at: now, retryAccess: duration, hold: duration)
          #expect((verdict.status == .expired) == (verdict.tier == "free"))
        }
      }
    }
  }

  @Test func `ten years of monthly renewals under as many IDs are judged`() throws {
    let rows = (0..<4_000).map { index in
      row(
        TransactionID("\(index)"), of: OriginalTransactionID("\(index)"), group: "G", from: day(Double(index - 3_999)),
        until: day(Double(index - 3_998)))
    }
    let verdict = try evaluate(answer(rows))
    #expect(verdict.line == "active pro renewing")
    #expect(verdict.explanation.passedOverCount == 3_999)
  }
}
