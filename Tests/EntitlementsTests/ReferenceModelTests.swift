import Entitlements
import SeededRandom
import Testing

import struct FoundationEssentials.Date

@Suite(.computing) struct ReferenceModelTests {
  private static func wholeMilliseconds(_ duration: Duration) -> Int64 { Int64(duration / .milliseconds(1)) }

  private static func dates(of evidence: SubscriptionEvidence) -> [Date] {
    let dates: [Date?] =
      evidence.purchases.map(\.expiresDate)
      + evidence.purchases.map { $0.productID == season ? $0.purchaseDate?.advanced(by: .seconds(30 * 86_400)) : nil }
      + evidence.renewals.map(\.gracePeriodExpiresDate)
      + [
        evidence.grace?.until, evidence.grace?.runningAt?.advanced(by: .seconds(86_400)), evidence.grace?.overAt,
        evidence.evaluatedAt.advanced(by: .seconds(86_400)),
      ]
    return dates.compactMap { $0 }
  }

  @Test(arguments: 0..<2)
  func `the rules agree with a second, naive reading of the table`(half: Int) throws {
    let catalog = try makeCatalog()
    var reasons: [String: Int] = [:]
    var lines: [ReferenceModel.Line: Int] = [:]
    for seed in 0..<SeededRandom.cases(50_000) {
      var maker = RandomCustomer(seed: UInt64(1_000_000 * (half + 1) + seed))
      maker.buysSeasons = true
      let evidence = maker.subscription(1)
      let policy = maker.policy()
      // At the answer; and anywhere, with some luck just at one of the ends.
      var moments = [maker.random.moment(-25...70)]
      for end in Self.dates(of: evidence) {
        for step in [-1, 0, 1] as [Int64] {
          moments.append(end.advanced(by: .milliseconds(step)))
          moments.append(end.advanced(by: policy.billingRetryAccess + .milliseconds(step)))
          moments.append(end.advanced(by: policy.outageHold + .milliseconds(step)))
          moments.append(end.advanced(by: policy.lateRenewal + .milliseconds(step)))
          moments.append(end.advanced(by: .seconds(28 * 86_400) + .milliseconds(step)))
        }
      }
      let model = ReferenceModel(
        rows: evidence.purchases, renewal: evidence.renewals.first, terms: evidence.terms, grace: evidence.grace,
        isGone: evidence.isAccountGone,
        answered: evidence.evaluatedAt.millisecondsSince1970,
        retryAccess: Self.wholeMilliseconds(policy.billingRetryAccess),
        hold: Self.wholeMilliseconds(policy.outageHold), lateRenewal: Self.wholeMilliseconds(policy.lateRenewal))
      for now in [evidence.evaluatedAt] + moments.shuffled(using: &maker.random).prefix(2) {
        let verdict = Entitlement.evaluate([evidence], at: now, catalog: catalog, policy: policy)
        let reported = ReferenceModel.Verdict(
          status: verdict.status.rawValue, tier: verdict.tier.rawValue,
          reason: verdict.reason.rawValue, accessUntil: verdict.accessUntil?.millisecondsSince1970,
          isStale: verdict.isStale)
        let expected = model.verdict(at: now.millisecondsSince1970)
        #expect(reported == expected, "half \(half), seed \(seed), \(now.millisecondsSince1970)")
        reasons[expected.reason, default: 0] += 1
        for line in expected.lines { lines[line, default: 0] += 1 }
      }
    }
    // Every rule on purchases was compared, and none only by accident.
    for reason in EntitlementReason.allCases
    where ![.noPurchases, .granted, .trial, .originalPurchase].contains(reason) {
      #expect(reasons[reason.rawValue, default: 0] >= SeededRandom.cases(300), "\(reason)")
    }
    // Seasons have original IDs of their own: see below.
    for line in ReferenceModel.Line.allCases where ![.seasonAfterSeason, .refundedSeason].contains(line) {
      #expect(lines[line, default: 0] >= SeededRandom.cases(100), "\(line)")
    }
  }

  @Test(arguments: 0..<2)
  func `reports together agree with the naive reading, in any order and how often each came`(part: Int) throws {
    let catalog = try makeCatalog()
    var lines: [ReferenceReports.Line: Int] = [:]
    for seed in 0..<SeededRandom.cases(10_000) {
      var maker = RandomReports(seed: UInt64(20_000_000 * (part + 1) + seed))
      let reports = maker.subscription()
      guard let newest = reports.map(\.at).max() else { continue }
      let model = ReferenceReports(reports)
      let known = Self.merged(reports, &maker.random)
      for now in [newest, newest.advanced(by: .seconds(Int64.random(in: 0...(30 * 86_400), using: &maker.random)))] {
        let verdict = Entitlement.evaluate([known], at: now, catalog: catalog, policy: EntitlementPolicy())
        let label: Testing.Comment = "part \(part), seed \(seed), \(now.millisecondsSince1970)"
        guard let running = model.running(at: now) else {
          #expect(verdict.tier == "free" || verdict.isStale, label)
          continue
        }
        #expect(verdict.explanation.decidedBy == running.transactionID, label)
        #expect(verdict.tier.rawValue == ReferenceModel.tiers[running.productID], label)
        #expect(verdict.accessUntil == running.expiresDate && !verdict.isStale, label)
      }
      for line in model.lines { lines[line, default: 0] += 1 }
    }
    for line in ReferenceReports.Line.allCases {
      #expect(lines[line, default: 0] >= SeededRandom.cases(50), "\(line)")
    }
  }

  @Test func `a purchase for life is as the last report on any copy of it says, of a receipt as of its creation`()
    throws
  {
    let catalog = try makeCatalog()
    var found: [Bool: Int] = [:]
    for seed in 0..<SeededRandom.cases(10_000) {
      var maker = RandomReports(seed: UInt64(30_000_000 + seed))
      let reports = maker.lifetime()
      guard let newest = reports.flatMap(\.evidence).map(\.evaluatedAt).max() else { continue }
      let verdict = Entitlement.evaluate(
        [Self.merged(reports, &maker.random)], at: newest, catalog: catalog, policy: EntitlementPolicy())
      let isForLife = ReferenceReports.isForLife(reports)
      #expect(verdict.line == (isForLife ? "active premium lifetime" : "expired free refunded"), "seed \(seed)")
      let words = Set(reports.flatMap(\.rows).map { $0.cancellationDate == nil })
      if words.count == 2 { found[isForLife, default: 0] += 1 }
    }
    // Reports that contradict one another.
    #expect(found[true, default: 0] >= SeededRandom.cases(100) && found[false, default: 0] >= SeededRandom.cases(500))
  }

  /// The reports as the ledger joins them, in a random order and some of them again.
  private static func merged(
    _ reports: [RandomReports.Report], _ random: inout SeededRandom
  ) -> SubscriptionEvidence {
    let pieces = reports.flatMap(\.evidence)
    let again = pieces.filter { _ in random.chance(30) }
    let all = (pieces + again).shuffled(using: &random)
    return all.dropFirst().reduce(all[0]) { $0.merging($1) }
  }

  @Test func `the rules agree with the naive reading on seasons that follow one another, some of them restored`() throws
  {
    let catalog = try makeCatalog()
    var (running, prolonged) = (0, 0)
    var lines: [ReferenceModel.Line: Int] = [:]
    for seed in 0..<SeededRandom.cases(5_000) {
      var maker = RandomCustomer(seed: UInt64(8_000_000 + seed))
      let evidence = maker.seasons()
      let model = ReferenceModel(
        rows: evidence.flatMap(\.purchases), renewal: nil, isGone: false, answered: day(-40).millisecondsSince1970,
        retryAccess: 0, hold: 0)
      for _ in 0..<6 {
        let now = maker.random.moment(1...120)
        let verdict = Entitlement.evaluate(evidence, at: now, catalog: catalog, policy: maker.policy())
        let expected = model.verdict(at: now.millisecondsSince1970)
        #expect(verdict.tier.rawValue == expected.tier, "seed \(seed), \(now.millisecondsSince1970)")
        #expect(verdict.accessUntil?.millisecondsSince1970 == expected.accessUntil, "seed \(seed)")
        for line in expected.lines { lines[line, default: 0] += 1 }
        guard let until = verdict.accessUntil else { continue }
        running += 1
        // A month after the latest date of all is the most that one season gives.
        if until > day(36) { prolonged += 1 }
      }
    }
    #expect(running >= SeededRandom.cases(3_000) && prolonged >= SeededRandom.cases(500))
    for line: ReferenceModel.Line in [.seasonAfterSeason, .refundedSeason, .restoredSeason] {
      #expect(lines[line, default: 0] >= SeededRandom.cases(500), "\(line)")
    }
  }

  @Test func `the rules agree with the naive reading on a group that runs more than once`() throws {
    let catalog = try makeCatalog()
    var several = 0
    for seed in 0..<SeededRandom.cases(5_000) {
      var maker = RandomCustomer(seed: UInt64(5_000_000 + seed))
      let policy = maker.policy()
      let now = maker.random.moment(-25...20)
      let evidence = (1...3).map { number in
        var item = maker.subscription(number, groups: ["A"])
        item.evidenceTime = now
        item.evaluatedAt = now
        item.isAccountGone = false
        for index in item.purchases.indices { item.purchases[index].ownership = .purchased }
        return item
      }
      let models = evidence.map { one in
        ReferenceModel(
          rows: one.purchases, renewal: one.renewals.first, terms: one.terms, grace: one.grace, isGone: false,
          answered: now.millisecondsSince1970, retryAccess: Self.wholeMilliseconds(policy.billingRetryAccess),
          hold: Self.wholeMilliseconds(policy.outageHold),
          lateRenewal: Self.wholeMilliseconds(policy.lateRenewal))
      }
      guard let decidingRow = ReferenceModel.runningSpeaker(of: models, at: now.millisecondsSince1970) else { continue }
      let verdict = Entitlement.evaluate(evidence, at: now, catalog: catalog, policy: policy)
      #expect(verdict.explanation.decidedBy == decidingRow.transactionID, "seed \(seed)")
      #expect(verdict.tier.rawValue == ReferenceModel.tiers[decidingRow.productID], "seed \(seed)")
      let others = verdict.explanation.passedOver.filter { $0.cause == .otherSubscription }
      if !others.isEmpty { several += 1 }
    }
    #expect(several >= SeededRandom.cases(500))
  }
}
