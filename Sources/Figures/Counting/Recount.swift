internal import Access
internal import Entitlements
internal import Ledger

/// Begins a recount of every purchase, unless the last one began with these prices. Other rules begin from nothing.
struct BeginRecount: LedgerOperation {
  let prices: PriceText

  func run(_ tables: LedgerTables) throws {
    let isByTheseRules = try tables.memo(LedgerTables.rulesMemo) == LedgerTables.rules
    guard try !isByTheseRules || tables.memo(LedgerTables.pricesMemo) != prices.text else { return }
    let isFromNothing = try !isByTheseRules || tables.recount()?.isFromNothing == true
    if isFromNothing {
      try tables.execute("DELETE FROM figure")
      try tables.execute("DELETE FROM figure_cohort")
      try tables.addUpMonths()
      try tables.addUpVariants()
    }
    try tables.keep(Recount(after: .min, isFromNothing: isFromNothing))
    try tables.keepMemo(LedgerTables.pricesMemo, prices.text)
    try tables.keepMemo(LedgerTables.rulesMemo, LedgerTables.rules)
  }
}

/// The catalog's prices and periods as a text, by which two catalogs are compared.
struct PriceText: Sendable {
  let text: String

  init(_ terms: [ProductID: Plans.Terms]) {
    let prices = terms.map { product, terms in
      "\(product) \(terms.period?.text ?? ""): "
        + terms.prices.map { "\($0.value.text) \($0.key)" }.sorted().joined(separator: ", ")
    }
    text = "prices " + prices.sorted().joined(separator: "; ")
  }
}

/// The place of a recount that is under way. Nothing is counted until its last page is marked: the sums may be empty
/// already, and the former counts of later pages would be subtracted from them.
struct Recount: Hashable {
  /// The ID of the last purchase that was marked.
  var after: Int64
  /// Whether the former counts of purchases are forgotten.
  var isFromNothing: Bool
}

extension LedgerTables {
  private static let recountMemo = "figure recount"
  fileprivate static let pricesMemo = "figures"
  fileprivate static let rulesMemo = "figure rules"

  /// The number of the rules by which purchases are counted: another one has every purchase counted anew.
  fileprivate static let rules = "1"

  func recount() throws -> Recount? {
    guard let words = try memo(Self.recountMemo)?.split(separator: " "), words.count == 2, let after = Int64(words[1])
    else { return nil }
    return Recount(after: after, isFromNothing: words[0] == "all")
  }

  fileprivate func keep(_ recount: Recount?) throws {
    try keepMemo(Self.recountMemo, recount.map { "\($0.isFromNothing ? "all" : "prices") \($0.after)" })
  }

  /// Marks the next page of a recount: the app's own trials, then the purchases. Records mark their own meanwhile.
  func mark(_ recount: Recount, page: Int) throws {
    let isAtTrials = recount.after < Self.lastTrial
    let place = isAtTrials ? Self.trialPlace : 0
    let ids =
      isAtTrials ? "SELECT id FROM trial" : "SELECT id FROM purchase UNION ALL SELECT id FROM revenuecat_purchase"
    let after = max(recount.after, Self.trialPlace) - place
    let last = try first(
      SQL("SELECT max(id) FROM (SELECT id FROM (\(ids)) AS one WHERE id > ? ORDER BY id LIMIT ?) AS page"), after, page,
      as: Int64?.self)
    let end = last.flatMap(\.self).map { $0 + place } ?? (isAtTrials ? Self.lastTrial : nil)
    if recount.isFromNothing {
      try execute("DELETE FROM counted_purchase WHERE purchase_id > ? AND purchase_id <= ?", recount.after, end ?? .max)
    }
    guard let end else { return try keep(nil) }
    try execute(
      SQL(
        """
        INSERT INTO figure_due (purchase_id, changes) SELECT id + (\(place)), 1 FROM (\(ids)) AS one WHERE id > ? AND id <= ?
        ON CONFLICT DO NOTHING
        """), after, end - place)
    try keep(Recount(after: end, isFromNothing: recount.isFromNothing))
  }

  /// Whether purchases are counted with these prices and by these rules: no replica with others began later.
  func areFigures(by prices: PriceText) throws -> Bool {
    guard let known = try memo(Self.pricesMemo) else { return true }
    return try known == prices.text && memo(Self.rulesMemo) == Self.rules
  }
}
