import Entitlements

import struct FoundationEssentials.Date

/// The decision table once more, for one subscription, written as naively as it reads and sharing nothing with the
/// product but the input types: whole milliseconds, full scans, no sorting, no early returns out of shared helpers.
struct ReferenceModel {
  struct Verdict: Equatable, CustomStringConvertible {
    var line: Int?
    var status: String
    var tier: String
    var reason: String
    var accessUntil: Int64?
    var isStale = false
    var isEntitled: Bool { accessUntil != nil || reason == "lifetime" }
    var description: String {
      "\(line ?? 0) \(status) \(tier) \(reason) \(accessUntil ?? -1)\(isStale ? " stale" : "")"
    }
  }

  static let tiers: [ProductID: String] = [pro: "pro", proYearly: "pro", premium: "premium", forever: "premium"]

  let rows: [Purchase]
  let renewal: RenewalInfo?
  let isGone: Bool
  let answered: Int64
  let retryAccess: Int64
  let hold: Int64

  private static func ms(_ date: Date?) -> Int64? { date?.millisecondsSince1970 }

  /// When a row ended; `nil` is never.
  private func end(_ row: Purchase) -> Int64? {
    let begin = Self.ms(row.purchaseDate)
    let cancelled = Self.ms(row.cancellationDate)
    if row.productID == forever { return cancelled }
    let expires = Self.ms(row.expiresDate) ?? Self.ms(.distantPast) ?? 0
    guard let cancelled else { return expires }
    return min(expires, max(cancelled, begin ?? cancelled))
  }

  /// Whether `a` ended after `b`; of two that ended together, the later purchase, the higher tier, the greater ID.
  private func isLater(_ a: Purchase, _ b: Purchase) -> Bool {
    func place(_ row: Purchase) -> [Int64] {
      [
        end(row) ?? .max, Self.ms(row.purchaseDate) ?? .min, Self.tiers[row.productID] == "premium" ? 1 : 0,
      ]
    }
    let (x, y) = (place(a), place(b))
    return x == y ? a.transactionID.rawValue > b.transactionID.rawValue : y.lexicographicallyPrecedes(x)
  }

  private func latest(_ rows: [Purchase]) -> Purchase? {
    rows.first { row in rows.allSatisfy { $0 == row || isLater(row, $0) } }
  }

  private func table(at now: Int64) -> Verdict {
    let known = rows.filter { Self.tiers[$0.productID] != nil }
    if known.isEmpty {
      return Verdict(status: "active", tier: "free", reason: rows.isEmpty ? "no_purchases" : "no_known_product")
    }
    if isGone { return Verdict(status: "expired", tier: "free", reason: "account_gone") }
    let live = known.filter {
      !$0.isUpgraded && $0.cancellationDate == nil && ($0.productID == forever || $0.expiresDate != nil)
    }
    let last = latest(live)
    let tier = last.flatMap { Self.tiers[$0.productID] } ?? "free"
    if live.contains(where: { $0.productID == forever }) {
      return Verdict(line: 1, status: "active", tier: "premium", reason: "lifetime")
    }
    if let last, let end = end(last), now < end {
      if renewal?.autoRenews == false {
        return Verdict(line: 3, status: "cancelled", tier: tier, reason: "renewal_off", accessUntil: end)
      }
      return Verdict(line: 2, status: "active", tier: tier, reason: "renewing", accessUntil: end)
    }
    if let newest = latest(known.filter { !$0.isUpgraded }), newest.cancellationDate != nil {
      return Verdict(
        line: 4, status: "expired", tier: "free",
        reason: newest.ownership == .familyShared ? "revoked" : "refunded")
    }
    if let last, let end = end(last) {
      let grace = Self.ms(renewal?.gracePeriodExpiresDate)
      if let grace, now < grace {
        return Verdict(line: 5, status: "grace_period", tier: tier, reason: "billing_grace", accessUntil: grace)
      }
      if grace == nil, renewal?.isInBillingRetry == true, now < end + retryAccess {
        return Verdict(
          line: 6, status: "grace_period", tier: tier, reason: "billing_retry", accessUntil: end + retryAccess)
      }
    }
    let intents = [1: "voluntary", 2: "billing_error", 3: "price_increase", 4: "product_unavailable"]
    return Verdict(
      line: 7, status: "expired", tier: "free", reason: renewal?.expirationIntent.flatMap { intents[$0] } ?? "unknown")
  }

  /// The verdict, with the hold: looks for the last millisecond of access that the answer foretold.
  func verdict(at now: Int64) -> Verdict {
    let now = max(now, answered)
    let verdict = table(at: now)
    guard verdict.line == 7, table(at: answered).isEntitled else { return verdict }
    // Access ends at one of these or never.
    var ends = rows.compactMap(end)
    ends += ends.map { $0 + retryAccess }
    ends += [Self.ms(renewal?.gracePeriodExpiresDate)].compactMap { $0 }
    let foretold = ends.filter { $0 > answered && $0 <= now && table(at: $0 - 1).isEntitled }.max()
    guard let foretold else { return verdict }
    if now < foretold + hold {
      var held = table(at: foretold - 1)
      held.isStale = true
      return held
    }
    return Verdict(status: "expired", tier: "free", reason: "unproven", isStale: true)
  }

  /// Who speaks for several original transaction IDs of one group, all told of by an answer of this moment: of the last
  /// live row of each, those that run; of these the highest tier, then the one that ends last, then the greatest ID. `nil`
  /// where none runs.
  func runningSpeaker(at now: Int64) -> Purchase? {
    let live = rows.filter {
      Self.tiers[$0.productID] != nil && !$0.isUpgraded && $0.cancellationDate == nil
        && ($0.productID == forever || $0.expiresDate != nil)
    }
    let last = live.filter { row in
      latest(live.filter { $0.originalTransactionID == row.originalTransactionID }) == row
    }
    let running = last.filter { row in end(row).map { now < $0 } ?? true }
    let highest = running.filter { Self.tiers[$0.productID] == "premium" }
    return (highest.isEmpty ? running : highest).max { a, b in
      let ends = (end(a) ?? .max, end(b) ?? .max)
      return ends.0 == ends.1 ? a.transactionID.rawValue < b.transactionID.rawValue : ends.0 < ends.1
    }
  }
}
