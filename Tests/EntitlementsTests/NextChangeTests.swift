import Entitlements
import Foundation
import SeededRandom
import Testing

/// Reads are answered with what was said before until `nextChange`: until then, time alone must change nothing.
@Suite struct NextChangeTests {
  @Test func `a standing is the same at every moment before the next change`() throws {
    var random = Generator(random: SeededRandom(seed: 7))
    let catalog = try Catalog(
      tiers: ["free", "pro", "premium"],
      products: [
        "pro": .init(tier: "pro"), "premium": .init(tier: "premium"), "ever": .init(tier: "premium", kind: .lifetime),
      ])
    var changes = 0
    for _ in 0..<SeededRandom.cases(4_000) {
      let rules = EntitlementRules(
        catalog: catalog,
        policy: EntitlementPolicy(
          billingRetryAccess: .seconds(random.below(3) * 40 * 86_400), outageHold: .seconds(random.below(3) * 86_400),
          provisional: .seconds(86_400)),
        sandbox: .accept)
      let evidence = (0..<random.below(3)).map { random.evidence("\($0)") }
      let former = EntitlementRules(
        catalog: random.below(4) == 0
          ? try Catalog(tiers: ["free", "best"], products: ["pro": .init(tier: "best")]) : catalog,
        policy: rules.policy, sandbox: .accept)
      let recorded = evidence.isEmpty ? nil : former.evaluate("anna", evidence, at: random.moment())
      let now = random.moment()
      let standing = words(rules.standing(of: "anna", evidence, recorded: recorded, at: now))
      let next = rules.nextChange(of: evidence, recorded: recorded, after: now)
      let end = next ?? now.addingTimeInterval(400 * 86_400)
      #expect(end > now)
      let length = end.timeIntervalSince(now)
      for part in [0.001, 0.1, 0.5, 0.9, 0.999] {
        let moment = now.addingTimeInterval(length * part)
        #expect(words(rules.standing(of: "anna", evidence, recorded: recorded, at: moment)) == standing)
      }
      let last = end.addingTimeInterval(-0.001)
      if last > now { #expect(words(rules.standing(of: "anna", evidence, recorded: recorded, at: last)) == standing) }
      if words(rules.standing(of: "anna", evidence, recorded: recorded, at: end)) != standing { changes += 1 }
    }
    // The moments named are those at which something happens.
    #expect(changes >= SeededRandom.cases(20))
  }

  /// All of a standing but the moment of its evaluation.
  private func words(_ standing: Entitlement) -> Entitlement {
    var standing = standing
    standing.explanation.evaluatedAt = nil
    return standing
  }

  private struct Generator {
    var random: SeededRandom

    mutating func below(_ limit: Int) -> Int { random.below(limit) }

    /// Some moment of four months, often on a whole day.
    mutating func moment() -> Date {
      let day = Double(below(120)) * 86_400
      return Date(timeIntervalSince1970: 1_750_000_000 + day + (below(2) == 0 ? 0 : Double(below(86_400_000)) / 1_000))
    }

    mutating func maybe<Value>(_ make: (inout Generator) -> Value) -> Value? { below(2) == 0 ? make(&self) : nil }

    mutating func evidence(_ id: String) -> SubscriptionEvidence {
      let at = moment()
      let products: [ProductID] = ["pro", "premium", "ever", "unknown"]
      let rows = (0..<1 + below(3)).map { row in
        Purchase(
          productID: products[below(products.count)], transactionID: TransactionID("\(id)-\(row)"),
          originalTransactionID: OriginalTransactionID(id), purchaseDate: moment(),
          expiresDate: below(8) == 0 ? nil : moment(), cancellationDate: below(6) == 0 ? moment() : nil,
          isUpgraded: below(8) == 0)
      }
      let renewal = RenewalInfo(
        originalTransactionID: OriginalTransactionID(id), autoRenews: maybe { $0.below(2) == 0 },
        expirationIntent: maybe { $0.below(5) }, isInBillingRetry: maybe { $0.below(2) == 0 },
        gracePeriodExpiresDate: maybe { $0.moment() }, periodEnd: below(4) == 0 ? moment() : nil)
      var evidence = SubscriptionEvidence(
        key: SubscriptionKey(environment: .production, originalTransactionID: OriginalTransactionID(id)),
        source: .verifyReceipt, evidenceTime: at, evaluatedAt: at, purchases: rows, renewals: [renewal],
        isAccountGone: below(20) == 0)
      if below(6) == 0 {
        evidence.source = .signature
        evidence.provisionalUntil = moment()
      }
      return evidence
    }
  }
}
