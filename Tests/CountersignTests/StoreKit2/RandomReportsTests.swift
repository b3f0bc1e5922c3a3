import Entitlements
import SeededRandom
import Testing

import struct FoundationEssentials.Date

@testable import AppStoreSimulator

/// Customers of whom everything is made up, told by random mixtures of Apple's ways, with losses and duplicates, in random
/// order: what is known of them has to agree with what a fresh answer of verifyReceipt would say.
@Suite struct RandomReportsTests {
  /// One moment of one customer.
  private struct Scene: CustomStringConvertible {
    var seed: Int
    var now: Timestamp
    var reporter: EvidenceReporter
    var truth: Entitlement
    /// The answer of now.
    var answer: EvidenceReporter.Report
    var notifications: [EvidenceReporter.Report]
    /// Those that were not lost.
    var arrived: [EvidenceReporter.Report]
    /// Signed transactions of any age, and answers of earlier moments.
    var others: [EvidenceReporter.Report]

    var description: String {
      "seed \(seed), truth \(RandomReportsTests.state(truth)), told: \((arrived + others).map(\.text))"
    }
  }

  private typealias Known = [SubscriptionKey: SubscriptionEvidence]

  private static func scenes(of seed: Int, _ chance: inout SeededRandom) throws -> [Scene] {
    let customer = MadeUpCustomer(&chance)
    let reporter = EvidenceReporter(customer: customer)
    let moments = customer.timeline
      .moments(after: Timestamp(milliseconds: 0), through: MadeUpCustomer.end)
    guard let first = moments.first else { return [] }
    return try (0..<3).compactMap { _ in
      // At the very moment of something, or after it.
      var now = chance.pick(moments)
      if chance.percent(60) { now.milliseconds += Int64(chance.within(0...20 * 86_400_000)) }
      let answer = reporter.snapshot(.verifyReceipt, at: now)
      guard !answer.evidence.isEmpty else { return nil }
      func earlier() -> Timestamp {
        Timestamp(milliseconds: Int64.random(in: first.milliseconds...now.milliseconds, using: &chance))
      }
      var others = (0..<chance.within(0...4)).compactMap { _ in reporter.transaction(at: earlier(), &chance) }
      for _ in 0..<chance.within(0...2) {
        others.append(reporter.snapshot(chance.pick(EvidenceReporter.Answer.allCases), at: earlier()))
      }
      let notifications = reporter.notifications(through: now)
      return Scene(
        seed: seed, now: now, reporter: reporter, truth: try verdict(merged([answer]), at: now),
        answer: answer,
        notifications: notifications, arrived: notifications.filter { _ in chance.percent(60) }, others: others)
    }
  }

  private static func merged(_ reports: [EvidenceReporter.Report]) -> Known {
    reports.flatMap(\.evidence).reduce(into: [:]) { known, item in
      known[item.key] = known[item.key]?.merging(item) ?? item
    }
  }

  private static func verdict(_ known: Known, at now: Timestamp) throws -> Entitlement {
    let catalog = try Catalog(
      tiers: ["free", "pro", "premium"],
      products: [
        ProductID(Product.proMonthly.id): .init(tier: "pro"), ProductID(Product.proYearly.id): .init(tier: "pro"),
        ProductID(Product.premiumMonthly.id): .init(tier: "premium"),
        ProductID(Product.forever.id): .init(tier: "premium", kind: .lifetime),
      ])
    return Entitlement.evaluate(
      Array(known.values), at: known.values.map(\.evaluatedAt).reduce(now.date, max), catalog: catalog,
      policy: EntitlementPolicy())
  }

  /// The truth where reports have told of grace periods: no answer names one that is over, and it stays known.
  private static func truth(of scene: Scene, told reports: [EvidenceReporter.Report]) throws -> Entitlement {
    var known = merged([scene.answer])
    for item in reports.flatMap(\.evidence) {
      known[item.key] = known[item.key]?.keepingGrace(of: item)
    }
    return try verdict(known, at: scene.now)
  }

  /// The state that has to be the same, whoever told it.
  private static func state(_ verdict: Entitlement) -> [String] {
    func text(_ date: Date?) -> String { date.map { "\($0.millisecondsSince1970)" } ?? "-" }
    return [
      verdict.tier.rawValue, verdict.status.rawValue, verdict.reason.rawValue, "stale: \(verdict.isStale)",
      "expires: \(text(verdict.expiresAt))", "until: \(text(verdict.accessUntil))",
      "product: \(verdict.productID?.rawValue ?? "-")", "of: \(verdict.originalTransactionID?.rawValue ?? "-")",
      "trial: \(verdict.isTrial)", "\(verdict.ownership?.rawValue ?? "-")",
      "renews: \(verdict.willRenew.map(String.init) ?? "-")", "next: \(verdict.nextProductID?.rawValue ?? "-")",
    ]
  }

  private static func rank(_ verdict: Entitlement) -> Int {
    ["free", "pro", "premium"].firstIndex(of: verdict.tier.rawValue) ?? -1
  }

  private static let batches = 0..<4

  private func check(_ batch: Int, _ body: (Scene, inout SeededRandom) throws -> Void) throws {
    var scenes = 0
    let seeds = SeededRandom.cases(200)
    for seed in (batch * seeds)..<((batch + 1) * seeds) {
      var chance = SeededRandom(seed: UInt64(seed))
      for scene in try Self.scenes(of: seed, &chance) {
        try body(scene, &chance)
        scenes += 1
      }
    }
    #expect(scenes > 2 * seeds)
  }

  @Test(arguments: batches)
  func `an answer of now decides, whatever else was told`(batch: Int) throws {
    try check(batch) { scene, chance in
      for answer in EvidenceReporter.Answer.allCases {
        let reported = scene.arrived + scene.others + [scene.reporter.snapshot(answer, at: scene.now)]
        let verdict = try Self.verdict(Self.merged(reported.shuffled(using: &chance)), at: scene.now)
        let truth = try Self.truth(of: scene, told: reported)
        #expect(Self.state(verdict) == Self.state(truth), "\(answer), \(scene)")
      }
    }
  }

  @Test(arguments: batches)
  func `notifications together say what an answer would, whatever else was told`(batch: Int) throws {
    try check(batch) { scene, chance in
      let reported = (scene.notifications + scene.others).shuffled(using: &chance)
      let verdict = try Self.verdict(Self.merged(reported), at: scene.now)
      let truth = try Self.truth(of: scene, told: reported)
      #expect(Self.state(verdict) == Self.state(truth), "\(scene)")
    }
  }

  @Test(arguments: batches)
  func `the order of arrival decides nothing, nor how often each came`(batch: Int) throws {
    try check(batch) { scene, chance in
      let reported = scene.arrived + scene.others
      let twice = reported.filter { _ in chance.percent(30) }
      let known = Self.merged(reported.shuffled(using: &chance))
      let again = Self.merged((reported + twice).shuffled(using: &chance))
      #expect(known == again, "\(scene)")
    }
  }

  @Test(arguments: batches)
  func `reports together grant no more than one of them does alone`(batch: Int) throws {
    try check(batch) { scene, chance in
      let reported = scene.arrived + scene.others
      let verdict = try Self.verdict(Self.merged(reported.shuffled(using: &chance)), at: scene.now)
      let alone = try reported.map { Self.rank(try Self.verdict(Self.merged([$0]), at: scene.now)) }.max() ?? 0
      #expect(Self.rank(verdict) <= alone, "\(Self.state(verdict)), \(scene)")
    }
  }

  @Test(arguments: batches)
  func `a period that runs counts once it was told, whatever was told before it and after`(batch: Int) throws {
    try check(batch) { scene, chance in
      let reported = scene.arrived + scene.others
      // A refund that was taken back is told by one notification, which may be the one that was lost.
      guard scene.reporter.customer.reversals.isEmpty, [.active, .cancelled].contains(scene.truth.status),
        let period = scene.truth.explanation.decidedBy,
        reported.contains(where: { $0.evidence.contains { $0.purchases.contains { $0.transactionID == period } } })
      else { return }
      let verdict = try Self.verdict(Self.merged(reported.shuffled(using: &chance)), at: scene.now)
      #expect(Self.rank(verdict) >= Self.rank(scene.truth), "\(Self.state(verdict)), \(scene)")
    }
  }

  @Test(arguments: batches)
  func `a purchase taken back while it ran does not come back by an older word`(batch: Int) throws {
    try check(batch) { scene, chance in
      guard scene.reporter.customer.reversals.isEmpty else { return }
      let reported = scene.arrived + scene.others
      let rows = reported.flatMap(\.evidence).flatMap(\.purchases)
      let refunded = rows.filter { row in
        row.cancellationDate.map { $0 < row.expiresDate ?? .distantFuture } ?? false
      }
      let verdict = try Self.verdict(Self.merged(reported.shuffled(using: &chance)), at: scene.now)
      guard Self.rank(verdict) > 0, verdict.explanation.periodKnownBy == nil else { return }
      #expect(
        !refunded.contains { $0.transactionID == verdict.explanation.decidedBy }, "\(Self.state(verdict)), \(scene)")
    }
  }
}
