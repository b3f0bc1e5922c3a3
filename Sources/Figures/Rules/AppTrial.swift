package import Entitlements
package import struct FoundationEssentials.Date

/// A trial of the app's own, as the figures count it: as one of the App Store's, under a name in place of a product.
package struct AppTrial: Hashable, Sendable {
  package var name: String
  package var startsAt: Date
  /// The end, early or not.
  package var endsAt: Date
  /// Whether the end is still to come.
  package var isRunning: Bool

  /// The name among the products, as no store has one: `$trial:week`.
  package static let prefix = "$trial:"

  /// The counts by day. The first payment of its user since the start ends it, but for renewals of what ran then, and payments
  /// that were given back. A subscription without a known first transaction converts none: its user had paid before.
  /// - Parameter evidence: the user's purchases.
  package func figures(_ evidence: [SubscriptionEvidence]) -> [FigureKey: FigureCounts] {
    let payments = evidence.filter { $0.isKnownFromStart }.flatMap { $0.counted.bought(since: startsAt) }
      .filter(\.isPayment)
    let start = startsAt.utcDay
    let end = min(endsAt, payments.compactMap(\.purchaseDate).min() ?? endsAt).utcDay
    var figures: [FigureKey: FigureCounts] = [:]
    func add(_ figure: Figure, _ count: Int64 = 1, on day: Int) {
      let key = FigureKey(day: day, product: Self.prefix + name, currency: "")
      figures[key, default: FigureCounts()][figure] += count
    }
    if start < end {
      add(.trials, on: start)
      add(.trials, -1, on: end)
    }
    add(.trialStarts, on: start)
    if !payments.isEmpty {
      add(.trialConversions, on: start)
    } else if isRunning {
      add(.trialsPending, on: start)
    }
    return figures
  }
}
