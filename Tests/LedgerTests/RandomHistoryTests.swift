import Entitlements
import Foundation
import Ledger
import LedgerFixtures
import SeededRandom
import TestSupport
import Testing

/// Random histories of a few users who share a few purchases, against a model of what each has been told.
///
/// The invariants after every step:
/// - the version of a user's update grows with each verdict, and never runs behind Apple's clock on what it came of;
/// - a verdict that changed waits until its own version, or a later one, was settled;
/// - a user's verdicts are numbered 1, 2, 3 …, and the newest is the one that is read;
/// - a purchase is granted to one user at most, and never while another owns it;
/// - nothing that was granted counts beyond the time that its first grant named.
@Suite struct RandomHistoryTests {
  /// PostgreSQL takes four times as long; `COUNTERSIGN_CASES=full` plays all there, too.
  @Test(arguments: 0..<(TestEngine.isPostgreSQL && !SeededRandom.triesAll ? 4 : 12))
  func `any history keeps the invariants of updates, verdicts and grants`(seed: Int) async throws {
    let scratch = try Scratch()
    var run = try await Run(seed: UInt64(seed), scratch: scratch)
    for _ in 0..<150 { try await run.step() }
    try await run.ledger.verifyIntegrity()
    await run.ledger.close()
    #expect(run.done.count == Run.Kind.allCases.count, "a step of each kind was made: \(run.done)")
    try await run.expectNoSecondGrant()
  }

  struct Run {
    enum Kind: CaseIterable {
      case record, postpone, settle, endProvisional, claimUpdates, settleUpdate, retryUpdate, claimRechecks, release,
        reopen
    }

    /// The known state of a user's row.
    struct ReportedRow {
      var version: Int64 = 0
      var history = 0
      var entitlement: Entitlement?
      /// The newest version that was settled.
      var settled: Int64 = 0
      var evidenceAt: Int64 = 0
    }

    static let users: [UserID] = ["anna", "ben", "cleo"]
    static let ids = ["1", "2", "3", "4"]

    let scratch: Scratch
    var ledger: Ledger
    var random: SeededRandom
    var now = 0.0
    var reported: [UserID: ReportedRow] = [:]
    /// Updates that were handed out, old ones too.
    var claimed: [WaitingUpdate] = []
    var done: Set<Kind> = []
    var receipts = 0

    init(seed: UInt64, scratch: Scratch) async throws {
      self.scratch = scratch
      ledger = try await scratch.open()
      random = SeededRandom(seed: seed)
    }

    mutating func step() async throws {
      now += Double(Int.random(in: 0...40, using: &random))
      // Records are what most of it is about.
      let kind = Bool.random(using: &random) ? Kind.record : pick(Kind.allCases)
      done.insert(kind)
      switch kind {
      case .record: try await record()
      case .postpone: try await postpone()
      case .settle:
        guard
          let receipt = try await ledger.pendingReceipts(dueAt: clock(1e9), limit: 100).randomElement(using: &random)
        else { break }
        try await ledger.run(SettlePending(receipt.id, reevaluated(at: now)))
      case .endProvisional: try await endProvisional()
      case .claimUpdates:
        claimed += try await ledger.claimUpdates(
          dueAt: clock(now), until: at(now + 30), limit: Int.random(in: 1...3, using: &random))
      case .settleUpdate:
        guard let update = claimed.randomElement(using: &random) else { break }
        if pick([true, false, false, false]) {
          try await ledger.missUpdate(of: update.user, version: update.version, retryAt: at(now + 60))
        } else {
          try await ledger.settleUpdate(
            of: update.user, version: update.version, isDoubtful: false, confirmingAt: pick([nil, at(now + 60)]))
        }
        if reported[update.user]?.version == update.version { reported[update.user]?.settled = update.version }
      case .retryUpdate:
        guard let update = claimed.randomElement(using: &random) else { break }
        // A failure of what was settled meanwhile puts off the next look at it, no more.
        try await ledger.retryUpdate(
          of: update.user, version: update.version, at: at(now + 60), problem: "timeout",
          isDoubtful: pick([true, false]))
      case .claimRechecks:
        for recheck in try await ledger.claimRechecks(dueAt: clock(now), limit: 2) {
          #expect(recheck.scheduledAt <= at(now))
          #expect(try await ledger.keys(of: recheck.owner).contains(recheck.key))
        }
      case .release: try await ledger.releaseClaims()
      case .reopen:
        await ledger.close()
        ledger = try await scratch.open()
      }
      for user in Self.users { try await expectConsistency(of: user) }
      try await expectOneHolderEach()
    }

    private mutating func record() async throws {
      let user = pick(Self.users)
      // Late answers too, about periods that are over and that are not.
      let time = now - pick([0, 0, 0, 30, 200])
      let about = Self.ids.shuffled(using: &random).prefix(Int.random(in: 0...2, using: &random))
      let answer = about.map { evidence($0, time: time, expires: (time + pick([-20, 5, 60, 400])).rounded()) }
      receipts += 1
      let outcome = try await ledger.record(
        entry(
          user, answer, receipt: "receipt\(receipts)", ownership: pick([.keep, .transfer, .transferIfInactive]),
          evaluatedAt: time, rules: checkedRules
        ).with { $0.recordedAt = clock(now) })
      guard let recorded = outcome.recorded, !answer.isEmpty else { return }
      let changed = try await ledger.profile(of: user)?.version ?? 0
      if changed > reported[user, default: ReportedRow()].history {
        reported[user, default: ReportedRow()].evidenceAt = Int64(((1_750_000_000 + time) * 1_000).rounded())
      }
      #expect(!recorded.losers.contains(user))
    }

    private mutating func postpone() async throws {
      let user = pick(Self.users)
      let about = Self.ids.shuffled(using: &random).prefix(Int.random(in: 1...2, using: &random))
      let grants = about.map { signed($0, time: now - pick([0, 50]), expires: now + 500, now: now, until: now + 100) }
      // Few receipts, so that some are presented again.
      let receipt = pending("receipt-\(Int.random(in: 0..<6, using: &random))", of: user, at: now)
      let before = try await Self.grants(scratch)
      _ = try await ledger.run(Postpone(receipt, provisional: grants, reevaluated(at: now)))
      let after = try await Self.grants(scratch)
      for (key, until) in before { #expect(after[key] == until, "a grant was prolonged") }
    }

    private mutating func endProvisional() async throws {
      _ = try await ledger.endProvisional(reevaluated(at: now))
      for user in Self.users {
        guard let profile = try await ledger.profile(of: user) else { continue }
        #expect(profile.evidence.allSatisfy { $0.provisionalUntil.map { at(now) < $0 } ?? true })
        if profile.entitlement.isProvisional { #expect(profile.entitlement.accessUntil.map { at(now) < $0 } == true) }
      }
    }

    private mutating func expectConsistency(of user: UserID) async throws {
      guard let profile = try await ledger.profile(of: user) else { return }
      var known = reported[user, default: ReportedRow()]
      let history = try await ledger.wholeHistory(of: user)
      #expect(Int(profile.version) == history.count)
      #expect(history.first?.entitlement == profile.entitlement)
      let update = try await ledger.waitingUpdate(of: user)
      if history.count > known.history {
        let waiting = try #require(update, "a new verdict has to wait")
        #expect(waiting.version > known.version)
        #expect(waiting.version - known.version >= Int64(history.count - known.history))
        #expect(waiting.version >= known.evidenceAt)
        known.version = waiting.version
      } else {
        #expect(profile.entitlement == known.entitlement)
      }
      #expect(
        (profile.write == .waiting) == (known.settled != known.version),
        "\(user) waits until its newest version is settled")
      #expect((update?.state ?? .written) == profile.write)
      if let update {
        #expect(update.version == known.version)
        #expect(update.entitlement == profile.entitlement)
      }
      known.history = history.count
      known.entitlement = profile.entitlement
      reported[user] = known
    }

    private func expectOneHolderEach() async throws {
      var holders: [SubscriptionKey: Set<UserID>] = [:]
      for user in Self.users {
        for key in try await ledger.keys(of: user) { holders[key, default: []].insert(user) }
      }
      for (key, users) in holders { #expect(users.count == 1, "\(key) is of \(users)") }
    }

    /// The granted purchases with the time that each grant ends.
    private static func grants(_ scratch: Scratch) async throws -> [String: Int64] {
      let rows = try await scratch.rows("SELECT original_transaction_id, until FROM provisional_grant")
      return Dictionary(rows.map { ($0[0] ?? "", $0[1].flatMap(Int64.init) ?? 0) }) { one, _ in one }
    }

    /// The history of each purchase's grants, from the file.
    func expectNoSecondGrant() async throws {
      let rows = try await scratch.rows(
        """
        SELECT count(*) FROM provisional_grant AS g JOIN purchase AS s USING (environment, original_transaction_id)
        WHERE g.user_id <> s.user_id
        """)
      #expect(rows == [["0"]], "a grant on a purchase that somebody else owns")
    }

    private mutating func pick<Element>(_ choices: [Element]) -> Element {
      choices[Int.random(in: 0..<choices.count, using: &random)]
    }
  }
}
