import Entitlements
import Foundation
import Ledger
import LedgerFixtures
import SeededRandom
import TestSupport
import Testing

/// Apple's reports of a few purchases, in answers, signed transactions and notifications, told to the ledger in random
/// order with duplicates and restarts between, by users who present proof and by Apple itself.
///
/// The invariants after every step: each purchase is somebody's or nobody's, never both, and the ledger's evidence of
/// it is the sum of all that the ledger was told of it. And at the end: whatever the order, the same.
@Suite struct RandomPartsTests {
  /// One telling, and who brings it.
  enum Step: Sendable {
    case post(UserID, SubscriptionEvidence)
    case tell(String, SubscriptionEvidence, claimant: UserID?)

    var evidence: SubscriptionEvidence {
      switch self {
      case .post(_, let evidence), .tell(_, let evidence, _): evidence
      }
    }
  }

  /// Two purchases that name nobody and are presented by one user each, one that names a user who never presents it, and
  /// one of nobody.
  private static func steps(_ random: inout SeededRandom) -> [Step] {
    var steps: [Step] = []
    for number in 0..<30 {
      let id = "\(Int.random(in: 1...4, using: &random))"
      let period = Int.random(in: 0...3, using: &random)
      let reported = Double(Int.random(in: 0...40, using: &random) * 10)
      let begin = Double(period * 100)
      let account: String? = id == "3" ? annasAccount : nil
      let info =
        Bool.random(using: &random)
        ? RenewalInfo(autoRenews: Bool.random(using: &random), periodEnd: at(begin + 100)) : nil
      let cancelled = Int.random(in: 0..<5, using: &random) == 0 ? begin + 50 : nil
      let one = part(
        id, "t\(id)-\(period)", reported: reported, begin: begin, expires: begin + 100, cancelled: cancelled,
        account: account,
        renewal: info)
      let isPresented = (id == "1" || id == "2") && Bool.random(using: &random)
      if isPresented {
        let user: UserID = id == "1" ? "anna" : "ben"
        let answer =
          Int.random(in: 0..<3, using: &random) == 0 ? evidence(id, time: reported, expires: begin + 100) : one
        steps.append(.post(user, answer))
      } else {
        steps.append(.tell("n\(number)", one, claimant: id == "3" ? UserID(annasAccount) : nil))
      }
    }
    return steps
  }

  /// PostgreSQL takes four times as long; `COUNTERSIGN_CASES=full` plays all there, too.
  @Test(arguments: 0..<(TestEngine.isPostgreSQL && !SeededRandom.triesAll ? 4 : 12))
  func `random evidence in random order ends in one state`(seed: Int) async throws {
    var random = SeededRandom(seed: UInt64(seed))
    let steps = Self.steps(&random)
    var ends: [[String]] = []
    for _ in 0..<3 {
      let order = (steps + steps.filter { _ in Bool.random(using: &random) }).shuffled(using: &random)
      ends.append(try await Self.end(of: order, random: &random))
    }
    #expect(ends[0] == ends[1] && ends[1] == ends[2])
    #expect(ends[0].count == 4)
  }

  private static func end(of order: [Step], random: inout SeededRandom) async throws -> [String] {
    let scratch = try Scratch()
    var ledger = try await scratch.open()
    var reported: [SubscriptionKey: SubscriptionEvidence] = [:]
    var taken: Set<String> = []
    for step in order {
      let evidence = step.evidence
      switch step {
      case .post(let user, let evidence):
        #expect(try await ledger.record(posted(user, [evidence], jws: "jws of \(user)")).recorded != nil)
      case .tell(let uuid, let evidence, let claimant):
        let outcome = try await ledger.run(notification(uuid, [evidence], for: claimant))
        #expect(outcome.isDuplicate == !taken.insert(uuid).inserted)
      }
      reported[evidence.key] = reported[evidence.key]?.merging(evidence) ?? evidence
      if Int.random(in: 0..<8, using: &random) == 0 {
        await ledger.close()
        ledger = try await scratch.open()
      }
      for user in ["anna", "ben", UserID(annasAccount)] {
        for known in try await ledger.profile(of: user)?.evidence ?? [] { #expect(known == reported[known.key]) }
      }
    }
    try await ledger.verifyIntegrity()
    let both = try await scratch.fetch(
      "SELECT count(*) FROM purchase JOIN unclaimed_evidence USING (environment, original_transaction_id)",
      as: Int.self)
    #expect(both == [0])
    let owners = try await scratch.fetch(
      "SELECT original_transaction_id || ' ' || user_id FROM purchase ORDER BY 1", as: String.self)
    #expect(Set(owners).isSubset(of: ["1 anna", "2 ben", "3 \(annasAccount)"]))
    await ledger.close()
    return try await scratch.fetch(
      """
      SELECT original_transaction_id || ' ' || evidence_at || ' ' || judged_at || ' ' || source || ' ' || evidence
      FROM purchase UNION ALL
      SELECT original_transaction_id || ' ' || evidence_at || ' ' || judged_at || ' ' || source || ' ' || evidence
      FROM unclaimed_evidence ORDER BY 1
      """, as: String.self)
  }
}
