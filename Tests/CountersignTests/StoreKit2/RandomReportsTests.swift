import Entitlements
import SeededRandom
import Testing

import struct FoundationEssentials.Date

@testable import AppStoreSimulator

/// Customers of whom everything is made up, told by random mixtures of Apple's ways, with losses and duplicates, in random
/// order: what is known of them has to agree with what a fresh answer of verifyReceipt would say.
@Suite(.computing) struct RandomReportsTests {
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

    /// The lines of the contract that decide, or have to be withstood.
    var lines: Set<Line> {
      let customer = reporter.customer
      let state = customer.state(at: now)
      var lines: Set<Line> = []
      func note(_ line: Line, _ isThere: Bool) { if isThere { lines.insert(line) } }
      note(.lateRenewal, truth.reason == .renewalDue)
      let statuses = reporter.snapshot(.statuses, at: now).evidence.flatMap(\.renewals).compactMap(\.status)
      note(.activeStatus, statuses.contains(.active) && truth.reason == .renewalDue)
      note(.expiredStatus, statuses.contains(.expired))
      note(.retryStatus, statuses.contains(.billingRetry))
      note(.graceStatus, statuses.contains(.billingGracePeriod))
      note(.revokedStatus, statuses.contains(.revoked))
      note(.undatedGrace, isInUndatedGrace)
      note(.graceOver, arrived.contains { $0.name.hasPrefix("GRACE_PERIOD_EXPIRED") })
      note(.retryDespiteIntent, state.renewals.contains { $0.intent == 1 && $0.isInRetry })
      note(.season, truth.reason == .nonRenewing)
      note(.seasonOver, truth.reason == .periodOver)
      let seasons = state.rows.filter { $0.product == .proSeason }
      note(.seasonAfterSeason, truth.reason == .nonRenewing && seasons.count > 1)
      note(.seasonRefunded, seasons.contains { $0.cancelledAt != nil })
      let upgraded = state.rows.filter { row in
        row.expiresAt.map { now < $0 } ?? false
          && customer.timeline.subscriptions.contains { run in
            run.slot == row.slot && run.product == row.product && run.upgradedAt.map { $0 <= now } ?? false
          }
          && state.rows.contains { $0.slot == row.slot && $0.number == row.number + 1 && $0.cancelledAt != nil }
      }
      note(.upgradeRefunded, upgraded.contains(where: \.isUpgraded))
      note(.unmarkedUpgradeRefunded, upgraded.contains { !$0.isUpgraded })
      note(.restored, reporter.isRestored)
      note(.refundReversed, customer.reversals.values.contains { $0 <= now })
      return lines
    }

    /// verifyReceipt has nothing to say of it.
    var isInUndatedGrace: Bool {
      reporter.customer.state(at: now).renewals.contains { $0.phase == .grace && $0.graceUntil == nil }
    }

    var description: String {
      "seed \(seed), truth \(RandomReportsTests.state(truth)), told: \((arrived + others).map(\.text))"
    }
  }

  private enum Line: CaseIterable {
    case lateRenewal, undatedGrace, graceOver, retryDespiteIntent
    case activeStatus, expiredStatus, retryStatus, graceStatus, revokedStatus
    case season, seasonOver, seasonAfterSeason, seasonRefunded
    case upgradeRefunded, unmarkedUpgradeRefunded, restored, refundReversed
  }

  private typealias Known = [SubscriptionKey: SubscriptionEvidence]

  private static func scenes(of seed: Int, _ chance: inout SeededRandom) throws -> [Scene] {
    let customer = MadeUpCustomer(&chance, isAtTheEdges: chance.percent(75))
    var reporter = EvidenceReporter(customer: customer)
    reporter.tellsStatus = chance.percent(70)
    reporter.isRestored = customer.isAtTheEdges && chance.percent(15)
    let moments = customer.timeline
      .moments(after: Timestamp(milliseconds: 0), through: MadeUpCustomer.end)
    guard let first = moments.first else { return [] }
    let renewals = moments.map { (moment: $0, all: customer.timeline.state(at: $0).renewals) }
    let late = renewals.filter { $0.all.contains { $0.phase == .due } }.map(\.moment)
    let inGrace = renewals.filter { $0.all.contains { $0.phase == .grace } }.map(\.moment)
    return try (0..<3).compactMap { number in
      // At the very moment of something, or after it.
      var now = chance.pick(moments)
      if number == 0, let moment = late.randomElement(using: &chance) {
        now.milliseconds = moment.milliseconds + Int64(chance.within(0...customer.longestDelay - 1))
      } else if number == 1, let moment = inGrace.randomElement(using: &chance) {
        now.milliseconds = moment.milliseconds + Int64(chance.within(0...5 * 86_400_000))
      } else if chance.percent(60) {
        now.milliseconds += Int64(chance.within(0...(customer.timeline.subscriptions.isEmpty ? 100 : 20) * 86_400_000))
      }
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
        ProductID(Product.proSeason.id): .init(
          tier: "pro", kind: .nonRenewing, period: BillingPeriod(count: 1, unit: .month)),
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

  /// The state that has to be the same, whoever told it. Of two subscriptions alike the greater transaction ID speaks, which a
  /// restored one has anew.
  private static func state(_ verdict: Entitlement, of scene: Scene? = nil) -> [String] {
    func text(_ date: Date?) -> String { date.map { "\($0.millisecondsSince1970)" } ?? "-" }
    return [
      verdict.tier.rawValue, verdict.status.rawValue, verdict.reason.rawValue, "stale: \(verdict.isStale)",
      "expires: \(text(verdict.expiresAt))", "until: \(text(verdict.accessUntil))",
      "product: \(verdict.productID?.rawValue ?? "-")",
      "of: \(scene?.reporter.isRestored == true ? "-" : verdict.originalTransactionID?.rawValue ?? "-")",
      "trial: \(verdict.isTrial)", "\(verdict.ownership?.rawValue ?? "-")",
      "renews: \(verdict.willRenew.map(String.init) ?? "-")", "next: \(verdict.nextProductID?.rawValue ?? "-")",
    ]
  }

  private static func rank(_ verdict: Entitlement) -> Int {
    ["free", "pro", "premium"].firstIndex(of: verdict.tier.rawValue) ?? -1
  }

  private static let batches = 0..<4
  /// The customers of a batch.
  private static let seeds = SeededRandom.triesAll ? 1_000 : 50

  private func check(_ batch: Int, _ body: (Scene, inout SeededRandom) throws -> Void) throws {
    var scenes = 0
    for seed in (batch * Self.seeds)..<((batch + 1) * Self.seeds) {
      var chance = SeededRandom(seed: UInt64(seed))
      for scene in try Self.scenes(of: seed, &chance) {
        try body(scene, &chance)
        scenes += 1
      }
    }
    #expect(scenes > 2 * Self.seeds)
  }

  @Test(arguments: batches)
  func `an answer of now decides, whatever else was told`(batch: Int) throws {
    try check(batch) { scene, chance in
      for answer in EvidenceReporter.Answer.allCases {
        let reported = scene.arrived + scene.others + [scene.reporter.snapshot(answer, at: scene.now)]
        let verdict = try Self.verdict(Self.merged(reported.shuffled(using: &chance)), at: scene.now)
        let truth = try Self.truth(of: scene, told: reported)
        #expect(Self.state(verdict, of: scene) == Self.state(truth, of: scene), "\(answer), \(scene)")
      }
    }
  }

  @Test(arguments: batches)
  func `notifications together say what an answer would, whatever else was told`(batch: Int) throws {
    try check(batch) { scene, chance in
      let reported = (scene.notifications + scene.others).shuffled(using: &chance)
      let verdict = try Self.verdict(Self.merged(reported), at: scene.now)
      let truth = try Self.truth(of: scene, told: reported)
      // No notification says that a renewal is late, nor, after the first day, that a grace period without a date goes on:
      // what was known stands.
      if truth.reason == .renewalDue || scene.isInUndatedGrace,
        Self.state(verdict, of: scene) != Self.state(truth, of: scene)
      {
        #expect(verdict.isStale && Self.rank(verdict) >= Self.rank(truth), "\(Self.state(verdict)), \(scene)")
      } else {
        #expect(Self.state(verdict, of: scene) == Self.state(truth, of: scene), "\(scene)")
      }
    }
  }

  @Test func `each line of the contract is among the scenes, and none only by accident`() throws {
    var found: [Line: Int] = [:]
    for batch in Self.batches {
      try check(batch) { scene, _ in for line in scene.lines { found[line, default: 0] += 1 } }
    }
    for line in Line.allCases { #expect(found[line, default: 0] >= Self.seeds / 20, "\(line)") }
  }

  @Test(arguments: batches)
  func `a purchase that an answer lacks counts for an hour, and no longer`(batch: Int) throws {
    var found: [Bool: Int] = [:]
    try check(batch) { scene, chance in
      let reporter = scene.reporter
      guard let row = reporter.newPurchase(at: scene.now, &chance) else { return }
      let signed = Timestamp(milliseconds: row.shownAt.milliseconds + Int64(chance.within(0...30_000)))
      let now = Timestamp(
        milliseconds: row.purchasedAt.milliseconds
          + chance.pick([Int64(chance.within(40_000...3_600_000)), 3_600_000, 3_600_001, 7_200_000]))
      guard signed < now, reporter.isAlone(row, until: now) else { return }
      let answer = chance.pick(EvidenceReporter.Answer.allCases)
      let lagging = reporter.snapshot(answer, at: now, knowing: row.shownAt.before)
      let before = (scene.notifications + scene.others).filter { $0.at < row.shownAt && chance.percent(50) }
      let reported = before + [reporter.transaction(row, at: signed), lagging]
      let verdict = try Self.verdict(Self.merged(reported.shuffled(using: &chance)), at: now)
      let isKnown = lagging.evidence.contains { $0.key.originalTransactionID == reporter.originalID(row.slot) }
      // An answer says nothing about a subscription of which it has no transaction.
      let isNew = !isKnown || now.milliseconds - row.purchasedAt.milliseconds <= 3_600_000
      let answers = isNew ? reporter.snapshot(.verifyReceipt, at: now) : lagging
      var other = scene
      (other.now, other.answer) = (now, answers)
      let truth = try Self.truth(of: other, told: reported)
      // The answer says nothing of the time after the purchase.
      func told(_ verdict: Entitlement) -> [String] { Self.state(verdict, of: scene).dropLast(isNew ? 2 : 0) }
      #expect(told(verdict) == told(truth), "\(row), \(answer) at \(now), \(scene)")
      if isKnown { found[isNew, default: 0] += 1 }
    }
    #expect(found[true, default: 0] >= Self.seeds / 20 && found[false, default: 0] >= Self.seeds / 20)
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
      // One season prolongs another.
      if verdict.reason == .nonRenewing { return }
      let alone = try reported.map { Self.rank(try Self.verdict(Self.merged([$0]), at: scene.now)) }.max() ?? 0
      #expect(Self.rank(verdict) <= alone, "\(Self.state(verdict)), \(scene)")
    }
  }

  @Test(arguments: batches)
  func `a period that runs counts once it was told, whatever was told before it and after`(batch: Int) throws {
    try check(batch) { scene, chance in
      let reported = scene.arrived + scene.others
      // A refund that was taken back is told by one notification, which may be the one that was lost; and one season prolongs
      // another, which may be unknown.
      guard scene.reporter.customer.reversals.isEmpty, [.active, .cancelled].contains(scene.truth.status),
        scene.truth.reason != .nonRenewing,
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
