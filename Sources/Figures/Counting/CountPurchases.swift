internal import Access
internal import Entitlements
package import Ledger

internal import struct FoundationEssentials.Date

/// Counts the purchases that changed, and adds the changes of the other counts to their sums.
///
/// The outcome is the number of purchases, or of other changes. Fewer than the limit: all are counted, another replica
/// counts, a recount is under way, or a replica with other prices or rules began later, and its counts stay. The limit:
/// purchases are left.
package struct CountPurchases: LedgerOperation {
  /// After it no other purchase is begun, so that no receipt waits for long.
  static let time = Duration.milliseconds(8)

  /// The rows of sums after which no other purchase is begun: they take as long again.
  private static let sumRows = 300

  private let terms: [ProductID: Plans.Terms]
  private let prices: PriceText
  private let limit: Int
  private let time: Duration

  /// - Parameters:
  ///   - terms: the prices of products whose receipts name none.
  ///   - limit: the most purchases, and the most other changes.
  init(_ terms: [ProductID: Plans.Terms], limit: Int, time: Duration = CountPurchases.time) {
    self.terms = terms
    prices = PriceText(terms)
    self.limit = limit
    self.time = time
  }

  package func run(_ tables: LedgerTables) throws -> Int {
    guard try tables.figures.areFigures(by: prices), try tables.take(.purchases), try tables.figures.recount() == nil
    else { return 0 }
    let due = try tables.all(
      """
      SELECT figure_due.purchase_id, counts FROM figure_due
      LEFT JOIN counted_purchase ON counted_purchase.purchase_id = figure_due.purchase_id
      ORDER BY figure_due.purchase_id LIMIT ?
      """, max(0, limit), as: (Int64, String?).self)
    var sums = CountSums()
    var periods: [ProductID: BillingPeriod] = [:]
    let start = ContinuousClock.now
    var owners: Set<String> = []
    var last: Int64?
    for (id, former) in due {
      guard last == nil || ContinuousClock.now - start < time && sums.figures.count < Self.sumRows else { break }
      last = id
      let counted = try tables.figures.counted(id, terms)
      if counted == nil, id >= FigureTable.lastTrial { continue }
      for (product, period) in counted?.periods ?? [] { periods[product] = period }
      if let owner = counted?.owner {
        owners.insert(owner.key)
        if let progress = try tables.figures.progress(of: owner, by: counted) {
          try tables.progress.record(progress, of: owner)
        }
      }
      let present = counted?.figures ?? [:]
      let text = StoredFigures.text(present)
      guard former ?? "[]" != text else { continue }
      if let former { sums.subtract(try StoredFigures.counts(former)) }
      sums.add(present)
      try tables.figures.keepCounts(text, of: id)
    }
    if let first = due.first?.0, let last {
      try tables.execute("DELETE FROM figure_due WHERE purchase_id >= ? AND purchase_id <= ?", first, last)
    }
    // The owners' trials may be in that range, and are marked after it.
    if !owners.isEmpty, try tables.exists("SELECT 1 FROM trial LIMIT 1") {
      for owner in owners.sorted() { try tables.marks.markTrials(of: owner) }
    }
    if !owners.isEmpty, try tables.exists("SELECT 1 FROM exposure LIMIT 1") {
      for owner in owners.sorted() { try tables.marks.markExposures(of: owner) }
    }
    for (product, period) in periods { try tables.figures.keep(period.text, of: product) }
    try tables.figures.add(sums)
    return max(last == due.last?.0 ? due.count : limit, try tables.figures.addTallies(limit: limit))
  }
}

/// A purchase, or a trial of the app's own, as it is counted.
struct CountedPurchase {
  var figures: [FigureKey: FigureCounts]
  /// The user who has the purchase; `nil` for an app's own trial.
  var owner: UserID?
  var periods: [(product: ProductID, period: BillingPeriod)] = []
  /// Whether the first transaction is known, or nothing of the purchase counts for its owner.
  var isWhole = true
  var isInProduction = false
}

extension FigureTable {
  /// - Returns: `nil` for a purchase that is gone.
  func counted(_ id: Int64, _ terms: [ProductID: Plans.Terms]) throws -> CountedPurchase? {
    guard id >= Self.lastTrial else { return CountedPurchase(figures: try trialFigures(id)) }
    guard let (evidence, owner) = try tables.otherStores.countable(id) else { return nil }
    let bought = evidence.counted
    return CountedPurchase(
      figures: evidence.figures(terms, of: bought), owner: owner, periods: evidence.billingPeriods,
      isWhole: evidence.isKnownFromStart(by: bought), isInProduction: evidence.key.environment == .production)
  }

  /// The progress of an owner by the first payment of a purchase. An owner of a purchase whose first transaction is not known
  /// had paid before.
  func progress(of owner: UserID, by counted: CountedPurchase?) throws -> UserProgress? {
    guard let counted, counted.isInProduction,
      let seenAt: Date = try first("SELECT first_seen_at FROM account WHERE key = ?", owner.key)
    else { return nil }
    var paid = counted.figures.lazy.filter { $0.value[.payments] > 0 }.map(\.key.day).min()
    if !counted.isWhole { paid = paid.map { min($0, seenAt.utcDay - 1) } }
    return UserProgress(seen: seenAt.utcDay, paid: paid)
  }

  private static let upsertCounted = SQL.upsert("counted_purchase", key: "purchase_id", "counts")

  func keepCounts(_ text: String, of purchase: Int64) throws { try execute(Self.upsertCounted, purchase, text) }

  private static let upsertPeriod = SQL.upsert("product_period", key: "product_id", "period")

  /// Keeps the length of a product's periods.
  func keep(_ period: String, of product: ProductID) throws {
    let known = try first("SELECT period FROM product_period WHERE product_id = ?", product, as: String.self)
    if known != period { try execute(Self.upsertPeriod, product, period) }
  }
}
