package import Access
package import Entitlements
package import Foundation

package import Ledger
import TestSupport

/// 2025-06-15T15:06:40Z, from which tests count in seconds.
package func at(_ seconds: Double) -> Date { Date(timeIntervalSince1970: 1_750_000_000 + seconds) }

/// The same by our own clock, which has nanoseconds. Apple's dates and what the ledger stores are whole milliseconds.
package func clock(_ seconds: Double) -> Date { at(seconds).withNanoseconds }

package let pro: ProductID = "com.example.app.pro.monthly"

package func key(_ id: String, _ environment: StoreEnvironment = .production) -> SubscriptionKey {
  SubscriptionKey(environment: environment, originalTransactionID: OriginalTransactionID(id))
}

/// Evidence of one row that runs until `expires`, as proven at `time`.
/// - Parameter order: differs in answers of which each is to be a line of the history.
package func evidence(
  _ id: String, time: Double = 0, begin: Double = -100, expires: Double = 1_000, cancelled: Double? = nil,
  product: ProductID = pro, account: String? = nil, environment: StoreEnvironment = .production,
  evaluatedAt: Double? = nil, order: Int? = nil
) -> SubscriptionEvidence {
  var purchase = Purchase(
    productID: product, transactionID: TransactionID("t-\(id)-\(expires)"),
    originalTransactionID: OriginalTransactionID(id), purchaseDate: at(begin), expiresDate: at(expires),
    cancellationDate: cancelled.map(at), isFirst: true, appAccountToken: account)
  purchase.webOrderLineItemID = order.map { "\($0)" }
  return SubscriptionEvidence(
    key: key(id, environment), source: .verifyReceipt, evidenceTime: at(time), evaluatedAt: at(evaluatedAt ?? time),
    purchases: [purchase],
    renewals: [RenewalInfo(originalTransactionID: OriginalTransactionID(id), autoRenews: true)])
}

/// Evidence of a season that was bought on a day after `at(0)`, 15 June, as proven on another.
package func ticket(_ id: String, bought day: Double, time: Double, cancelled: Double? = nil) -> SubscriptionEvidence {
  var evidence = evidence(
    id, time: time * 86_400, begin: day * 86_400, cancelled: cancelled.map { $0 * 86_400 }, product: season)
  evidence.renewals = []
  evidence.purchases[0].expiresDate = nil
  return evidence
}

/// Rules that a test makes up.
package struct StandInRules: VerdictRules {
  package typealias Evaluate =
    @Sendable (_ user: UserID, _ evidence: [SubscriptionEvidence], _ given: [GivenPeriod], _ now: Date) -> Entitlement

  private let evaluate: Evaluate
  /// Nothing is checked again, unless a test says so.
  package var nextCheck: NextCheck = { _, _ in nil }

  package init(_ evaluate: @escaping Evaluate) { self.evaluate = evaluate }

  package func callAsFunction(
    _ user: UserID, _ evidence: [SubscriptionEvidence], _ given: [GivenPeriod], _ now: Date
  ) -> Entitlement { evaluate(user, evidence, given, now) }

  package func surroundings(of evidence: [SubscriptionEvidence]) -> PurchaseSurroundings {
    checkedRules.surroundings(of: evidence)
  }

  package func evaluate(
    _ user: UserID, _ evidence: [SubscriptionEvidence], among _: PurchaseSurroundings?, given: [GivenPeriod],
    at now: Date
  ) -> Entitlement { evaluate(user, evidence, given, now) }

  package func nextCheck(
    of evidence: SubscriptionEvidence, among _: PurchaseSurroundings, at now: Date
  ) -> Date? { nextCheck(evidence, now) }
}

/// A small stand-in for the rules: the row of a known product that ends last decides.
package let standIn = StandInRules { _, evidence, _, now in
  let rows = evidence.flatMap { one in one.purchases.map { (one, $0) } }.filter { $0.1.productID == pro }
  let explanation = Explanation(decidedBy: nil, passedOver: [], evaluatedAt: now)
  guard let (from, last) = rows.max(by: { ($0.1.expiresDate ?? .distantPast) < ($1.1.expiresDate ?? .distantPast) })
  else {
    return .none(
      tier: "free", reason: evidence.isEmpty ? .noPurchases : .noKnownProduct, explanation: explanation)
  }
  let runs = last.expiresDate.map { now < $0 } ?? true
  var verdict = Entitlement.none(
    tier: runs ? "pro" : "free", reason: runs ? .renewing : .voluntary, explanation: explanation)
  verdict.status = runs ? .active : .expired
  verdict.expiresAt = last.expiresDate
  verdict.accessUntil = runs ? last.expiresDate : nil
  verdict.originalTransactionID = last.originalTransactionID
  verdict.evidenceTime = from.evidenceTime
  return verdict
}

package func entry(
  _ user: UserID, _ evidence: [SubscriptionEvidence], contested: Set<SubscriptionKey>? = nil,
  receipt: String = "cmVjZWlwdA==",
  ownership: OwnershipPolicy = .keep, evaluatedAt: Double? = nil, request: String = "request",
  rules: any VerdictRules = standIn
) -> LedgerEntry {
  let known = Set(evidence.filter { $0.purchases.contains { $0.productID == pro } }.map(\.key))
  let newest = evidence.map(\.evaluatedAt).max() ?? at(0)
  return LedgerEntry(
    user: user, evidence: evidence, contestedKeys: contested ?? known,
    receipt: KeptReceipt(
      base64: receipt, environment: evidence.first?.key.environment ?? .production, bundleID: "com.example.app"),
    origin: .presented(ownership), evaluatedAt: evaluatedAt.map(at) ?? newest, recordedAt: clock(5_000),
    requestID: request, rules: rules)
}

extension RecordOutcome {
  package var recorded: Recorded? { if case .recorded(let recorded) = self { recorded } else { nil } }
  package var isRefused: Bool { if case .ownedByAnotherUser = self { true } else { false } }
}

package let evaluationContext = EvaluationContext(evaluatedAt: clock(0), recordedAt: clock(5_000), rules: standIn)

extension Ledger {
  /// Keeps a receipt without granting anything.
  package func postpone(_ receipt: PendingReceipt) async throws -> Postpone.Outcome {
    try await run(Postpone(receipt, provisional: [], evaluationContext))
  }

  package func settlePending(_ id: Int64) async throws { try await run(SettlePending(id, evaluationContext)) }

  package func keep(_ device: Device, of user: UserID, at now: Date) async throws {
    _ = try await run(
      KeepDevice(
        device, of: user, requestID: "keep", EvaluationContext(evaluatedAt: now, recordedAt: now, rules: rules)))
  }
}

// MARK: The real rules, for what a stand-in would have to repeat

/// Two tiers to buy, one for a subscription or a season and one for life.
package let forever: ProductID = "com.example.app.forever"
/// A month that does not renew.
package let season: ProductID = "com.example.app.pro.season"
package let catalog: Catalog = {
  do throws(Catalog.Invalid) {
    return try Catalog(
      tiers: ["free", "pro", "premium"],
      products: [
        pro: .init(tier: "pro"), forever: .init(tier: "premium", kind: .lifetime),
        season: .init(tier: "pro", kind: .nonRenewing, period: BillingPeriod(count: 1, unit: .month)),
      ])
  } catch {
    preconditionFailure("\(error)")
  }
}()

/// A purchase that ended has ended at once: the ledger's cases need not wait for late renewals.
private let policy = EntitlementPolicy(lateRenewal: .zero)

package let checkedRules = EntitlementRules(catalog: catalog, policy: policy, sandbox: .accept)

/// The real rules, by which nothing is checked again.
package let rules = StandInRules { user, evidence, given, now in
  checkedRules.evaluate(user, evidence, given: given, at: now)
}

extension LedgerEntry {
  /// As it is but for what the closure changes.
  package func with(_ change: (inout LedgerEntry) -> Void) -> LedgerEntry {
    var copy = self
    change(&copy)
    return copy
  }
}

/// The proof of a receipt's signature for one purchase, made at `time`, presented at `now` and granted for 100 s from
/// then.
package func signed(
  _ id: String, time: Double = 0, expires: Double = 10_000, now: Double? = nil, until: Double? = nil,
  environment: StoreEnvironment = .production
) -> SubscriptionEvidence {
  let now = now ?? time
  var evidence = evidence(id, time: time, expires: expires, environment: environment, evaluatedAt: now)
  evidence.source = .signature
  evidence.renewals = []
  evidence.provisionalUntil = at(until ?? now + 100)
  return evidence
}

package func pending(_ base64: String, of user: UserID, at seconds: Double = 0) -> PendingReceipt {
  PendingReceipt(user: user, base64: base64, requestID: "request-\(base64)", receivedAt: clock(seconds))
}

package func reevaluated(at seconds: Double) -> EvaluationContext {
  EvaluationContext(evaluatedAt: clock(seconds), recordedAt: clock(seconds), rules: rules)
}

/// Support moves a purchase to another user.
package func moving(
  _ id: String, to user: UserID, at seconds: Double, text: String = "why", request: String = "move"
) -> TransferPurchase {
  TransferPurchase(
    key: key(id), to: user, note: Note(author: "desk", text: text, requestID: request, recordedAt: clock(seconds)),
    evaluationContext: reevaluated(at: seconds))
}

/// One is consumed, in a zone that a server names or in the usual one.
package func consuming(
  _ feature: Feature, by user: UserID = "anna", with tier: Tier = "free", at seconds: Double = 0, zone: Zone? = nil,
  key: String? = nil
) -> Consume {
  Consume(
    user: user, feature: feature, tier: tier, amount: 1, now: clock(seconds),
    zone: ZoneChoice(usual: .utc, named: zone, isTrusted: zone != nil), idempotencyKey: key, request: "1")
}

/// Milliseconds since 1970 of `at(_:)`.
package func milliseconds(_ seconds: Double) -> Int64 { 1_750_000_000_000 + Int64(seconds * 1_000) }
