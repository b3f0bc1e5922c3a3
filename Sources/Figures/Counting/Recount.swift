internal import Access
internal import Entitlements
internal import Ledger

/// Begins a recount of every purchase, unless the last one began with these prices and rules.
struct BeginRecount: LedgerOperation {
  let prices: PriceText

  func run(_ tables: LedgerTables) throws {
    let isByTheseRules = try tables.memo(FigureTable.rulesMemo) == FigureTable.rules
    guard try !isByTheseRules || tables.memo(FigureTable.pricesMemo) != prices.text else { return }
    if !isByTheseRules {
      try tables.figures.addUpMonths()
      try tables.figures.addUpVariants()
    }
    try tables.figures.keep(.purchases(after: .min))
    try tables.keepMemo(FigureTable.pricesMemo, prices.text)
    try tables.keepMemo(FigureTable.rulesMemo, FigureTable.rules)
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

/// A recount that is under way. Nothing else is counted until it is over: it makes the sums anew from the counts of purchases,
/// which are as they were read until then. What changed meanwhile is counted afterwards.
///
///     counts of purchases    a page at a time is read and counted beside the writer, which writes what differs
///     sums                   are added up beside the writer, which writes what differs, a few rows at a time
///
/// Both continue after a restart, the sums from their beginning: each row is set, not changed, so that it may be written twice.
enum Recount: Hashable {
  /// After the last purchase that was counted.
  case purchases(after: Int64)
  case sums
}

/// Reads the recount that is under way.
struct ReadRecount: LedgerOperation {
  func run(_ tables: LedgerTables) throws -> Recount? { try tables.figures.recount() }
}

/// Some purchases as they are to be counted, where that differs from how they were.
struct RecountPage: Sendable {
  struct Row: Sendable {
    let id: Int64
    /// `nil`: as before.
    var text: String?
    /// The owner, if that changes what is counted of users.
    var owner: UserID?
    var progress: UserProgress?
    /// No purchase has the ID any more.
    var isGone = false
  }

  let after: Int64
  var rows: [Row] = []
  var periods: [ProductID: BillingPeriod] = [:]
  /// The last of the page; `nil`: there are no more.
  var end: Int64?
}

/// Counts the next purchases of a recount.
struct ReadRecountPage: LedgerOperation {
  let after: Int64
  let terms: [ProductID: Plans.Terms]
  let limit: Int

  func run(_ tables: LedgerTables) throws -> RecountPage {
    let ids = try tables.figures.countedIDs(after: after, limit: limit)
    var page = RecountPage(
      after: after, end: ids.last ?? (after < FigureTable.lastTrial ? FigureTable.lastTrial : nil))
    var former = try tables.figures.counts(after: after, through: page.end ?? .max)
    for id in ids {
      let counted = try tables.figures.counted(id, terms)
      for (product, period) in counted?.periods ?? [] { page.periods[product] = period }
      let text = StoredFigures.text(counted?.figures ?? [:])
      var row = RecountPage.Row(id: id, text: former.removeValue(forKey: id) == text ? nil : text)
      if let owner = counted?.owner {
        let (progress, known) = (
          try tables.figures.progress(of: owner, by: counted), try tables.progress.progress(ofKey: owner.key)
        )
        row.progress = progress.flatMap { (known?.merged(with: $0) ?? $0) == known ? nil : $0 }
        if try row.progress != nil || tables.figures.hasExposures(owner) { row.owner = owner }
      }
      page.rows.append(row)
    }
    page.rows += former.keys.map { RecountPage.Row(id: $0, isGone: true) }
    page.rows.sort { $0.id < $1.id }
    return page
  }
}

/// Writes what differs in a page of a recount, as much as it can in some time.
///
/// The outcome is the recount's place; `nil` where it is at another page.
struct KeepRecountPage: LedgerOperation {
  let page: RecountPage
  let prices: PriceText
  let time: Duration

  func run(_ tables: LedgerTables) throws -> Recount? {
    guard try tables.figures.areFigures(by: prices), try tables.take(.purchases),
      try tables.figures.recount() == .purchases(after: page.after)
    else { return nil }
    let start = ContinuousClock.now
    for (product, period) in page.periods { try tables.figures.keep(period.text, of: product) }
    for row in page.rows {
      if row.isGone { try tables.execute("DELETE FROM counted_purchase WHERE purchase_id = ?", row.id) }
      if let text = row.text { try tables.figures.keepCounts(text, of: row.id) }
      if let owner = row.owner { try tables.marks.markExposures(of: owner.key) }
      if let owner = row.owner, let progress = row.progress { try tables.progress.record(progress, of: owner) }
      if ContinuousClock.now - start >= time, row.id != page.end {
        return try tables.figures.keep(.purchases(after: row.id))
      }
    }
    return try tables.figures.keep(page.end.map { .purchases(after: $0) } ?? .sums)
  }
}

/// Reads the sums of some purchases' counts.
struct ReadCountSums: LedgerOperation {
  let after: Int64
  let limit: Int

  func run(_ tables: LedgerTables) throws -> (sums: CountSums, last: Int64?) {
    let rows = try tables.all(
      "SELECT purchase_id, counts FROM counted_purchase WHERE purchase_id > ? ORDER BY purchase_id LIMIT ?", after,
      limit,
      as: (Int64, String).self)
    var sums = CountSums()
    for (_, text) in rows { try sums.add(StoredFigures.counts(text)) }
    return (sums, rows.last?.0)
  }
}

/// Reads the rows by which the sums have to be replaced.
struct ReadSumRows: LedgerOperation {
  let sums: CountSums

  func run(_ tables: LedgerTables) throws -> [SumRow] { try tables.figures.rows(differingFrom: sums) }
}

/// Sets sums, as many as it can in some time; with the last ones the recount is over.
///
/// The outcome is the number of rows; `nil` where the recount is over, or another one began.
struct KeepSums: LedgerOperation {
  let rows: ArraySlice<SumRow>
  let prices: PriceText
  let time: Duration

  func run(_ tables: LedgerTables) throws -> Int? {
    guard try tables.figures.areFigures(by: prices), try tables.take(.purchases), try tables.figures.recount() == .sums
    else {
      return nil
    }
    let start = ContinuousClock.now
    for (place, row) in rows.enumerated() {
      try tables.figures.set(row)
      if ContinuousClock.now - start >= time, place + 1 < rows.count { return place + 1 }
    }
    try tables.figures.keep(nil)
    return rows.count
  }
}

extension FigureTable {
  private static let recountMemo = "figure recount"
  fileprivate static let pricesMemo = "figures"
  fileprivate static let rulesMemo = "figure rules"

  /// The number of the rules by which purchases are counted: another one has every purchase counted anew.
  fileprivate static let rules = "1"

  func recount() throws -> Recount? {
    guard let text = try tables.memo(Self.recountMemo) else { return nil }
    return Int64(text).map { .purchases(after: $0) } ?? .sums
  }

  @discardableResult
  fileprivate func keep(_ recount: Recount?) throws -> Recount? {
    let text: String? =
      switch recount {
      case .purchases(let after): "\(after)"
      case .sums: "sums"
      case nil: nil
      }
    try tables.keepMemo(Self.recountMemo, text)
    return recount
  }

  /// The app's own trials, then the purchases.
  fileprivate func countedIDs(after: Int64, limit: Int) throws -> [Int64] {
    guard after < Self.lastTrial else {
      return try all(
        """
        SELECT id FROM (SELECT id FROM purchase UNION ALL SELECT id FROM revenuecat_purchase) AS one
        WHERE id > ? ORDER BY id LIMIT ?
        """, after, limit, as: Int64.self)
    }
    return try all(
      "SELECT id FROM trial WHERE id > ? ORDER BY id LIMIT ?", max(after, MarkTable.trialPlace) - MarkTable.trialPlace,
      limit,
      as: Int64.self
    ).map { $0 + MarkTable.trialPlace }
  }

  fileprivate func counts(after: Int64, through end: Int64) throws -> [Int64: String] {
    let rows = try all(
      "SELECT purchase_id, counts FROM counted_purchase WHERE purchase_id > ? AND purchase_id <= ?", after, end,
      as: (Int64, String).self)
    return Dictionary(rows) { one, _ in one }
  }

  fileprivate func hasExposures(_ user: UserID) throws -> Bool {
    try exists("SELECT 1 FROM exposure WHERE user_id = ? LIMIT 1", user.key)
  }

  /// Whether purchases are counted with these prices and by these rules: no replica with others began later.
  func areFigures(by prices: PriceText) throws -> Bool {
    guard let known = try tables.memo(Self.pricesMemo) else { return true }
    return try known == prices.text && tables.memo(Self.rulesMemo) == Self.rules
  }
}
