package import Access
package import Entitlements
internal import JSON
package import Ledger

internal import struct FoundationEssentials.Date

/// Counts the purchases that changed, and adds the changes of the other counts to their sums. During a recount it marks the
/// next page instead.
///
/// The outcome is the number of purchases, or of other changes. Fewer than the limit: all are counted, another replica
/// counts, or a replica with other prices or rules began later, and its counts stay. The limit: a page of a recount was
/// marked, or purchases are left.
package struct CountPurchases: LedgerOperation {
  /// The purchases of a recount's page: a million are marked within minutes, and no receipt waits for long.
  private static let recountPage = 500

  /// The transactions of one count: 20,000 take 26 ms of CPU. A purchase may have thousands.
  private static let figureRows = 20_000

  private let terms: [ProductID: Plans.Terms]
  private let prices: PriceText
  private let limit: Int
  private let rows: Int
  private let page: Int

  /// - Parameters:
  ///   - terms: the prices of products whose receipts name none.
  ///   - limit: the most purchases, and the most other changes.
  package init(_ terms: [ProductID: Plans.Terms], limit: Int) {
    self.init(terms, limit: limit, rows: Self.figureRows)
  }

  /// - Parameters:
  ///   - rows: the number of transactions after which no other purchase is begun.
  ///   - page: the purchases of a page. They are only marked, so that there may be more than are counted.
  init(_ terms: [ProductID: Plans.Terms], limit: Int, rows: Int = figureRows, page: Int = recountPage) {
    self.terms = terms
    prices = PriceText(terms)
    self.limit = limit
    self.rows = rows
    self.page = page
  }

  package func run(_ tables: LedgerTables) throws -> Int {
    guard try tables.areFigures(by: prices), try tables.take(.purchases) else { return 0 }
    if let recount = try tables.recount() {
      try tables.mark(recount, page: max(1, page))
      return limit
    }
    let due = try tables.all(
      "SELECT purchase_id FROM figure_due ORDER BY purchase_id LIMIT ?", max(0, limit), as: Int64.self)
    var sums: [FigureKey: FigureCounts] = [:]
    var cohorts: [FigureCohort.Key: Int64] = [:]
    var periods: [ProductID: BillingPeriod] = [:]
    var read = 0
    for id in due {
      guard read < rows else { break }
      try tables.execute("DELETE FROM figure_due WHERE purchase_id = ?", id)
      let present: [FigureKey: FigureCounts]
      if id < LedgerTables.lastTrial {
        present = try tables.trialFigures(id)
      } else {
        guard let (evidence, owner) = try tables.countable(id) else { continue }
        read += evidence.purchases.count
        try tables.noteExposures(of: owner.key)
        try tables.noteTrials(of: owner.key)
        for (product, period) in evidence.billingPeriods { periods[product] = period }
        present = evidence.figures(terms)
        if evidence.key.environment == .production {
          try tables.note(progressOf: owner, by: present, isWhole: evidence.isKnownFromStart)
        }
      }
      let (former, text) = (try tables.countedAs(id), StoredFigures.text(present))
      guard former ?? "[]" != text else { continue }
      if let former = try former.map(StoredFigures.counts) {
        for (key, counts) in former { sums[key, default: FigureCounts()] -= counts }
        for (key, change) in former.cohort { cohorts[key, default: 0] -= change }
      }
      for (key, counts) in present { sums[key, default: FigureCounts()] += counts }
      for (key, change) in present.cohort { cohorts[key, default: 0] += change }
      try tables.execute(LedgerTables.upsertCounted, id, text)
    }
    for (product, period) in periods { try tables.keep(period.text, of: product) }
    try tables.add(sums)
    try tables.add(cohorts)
    return max(read < rows ? due.count : limit, try tables.addTallies(limit: limit))
  }
}

extension LedgerTables {
  /// Notes the first payment among the counts of a purchase for its owner.
  /// - Parameter isWhole: whether the first transaction is known. If it is not, the owner had paid before.
  fileprivate func note(progressOf owner: UserID, by counts: [FigureKey: FigureCounts], isWhole: Bool) throws {
    guard let seenAt: Date = try first("SELECT first_seen_at FROM account WHERE key = ?", owner.key) else { return }
    var paid = counts.lazy.filter { $0.value[.payments] > 0 }.map(\.key.day).min()
    if !isWhole { paid = paid.map { min($0, seenAt.utcDay - 1) } }
    try record(UserProgress(seen: seenAt.utcDay, paid: paid), of: owner)
  }

  fileprivate func countedAs(_ purchase: Int64) throws -> String? {
    try first("SELECT counts FROM counted_purchase WHERE purchase_id = ?", purchase)
  }

  fileprivate static let upsertCounted = SQL.upsert("counted_purchase", key: "purchase_id", "counts")
  private static let upsertPeriod = SQL.upsert("product_period", key: "product_id", "period")

  /// Keeps the length of a product's periods.
  fileprivate func keep(_ period: String, of product: ProductID) throws {
    let known = try first("SELECT period FROM product_period WHERE product_id = ?", product, as: String.self)
    if known != period { try execute(Self.upsertPeriod, product, period) }
  }

  /// The product under which a row has the sums of all products, so that a page reads one row instead of one of each.
  static let allProducts = ""

  private static let addFigures = SQL.upsert(
    "figure", key: "grain, day, product_id, currency", FigureCounts.columns.joined(separator: ", ")
  ) { "figure.\($0) + excluded.\($0)" }

  func add(_ changes: [FigureKey: FigureCounts]) throws {
    var sums = changes
    for (key, counts) in changes {
      var all = key
      all.product = Self.allProducts
      sums[all, default: FigureCounts()] += counts
    }
    var months: [FigureKey: FigureCounts] = [:]
    for (key, counts) in sums {
      var month = key
      month.day = CalendarDay.firstOfMonth(of: key.day)
      months[month, default: FigureCounts()] += counts
    }
    for (grain, sums) in [("day", sums), ("month", months)] {
      for (key, counts) in sums.sorted(by: { $0.key < $1.key }) where !counts.isZero {
        try execute(Self.addFigures, grain, key.day, key.product, key.currency, counts)
      }
    }
  }
}

/// The counts of a purchase as they are stored: a list of days, each with its product, its currency, and pairs of a
/// figure and a number. Equal counts have equal texts.
private enum StoredFigures {
  static func counts(_ text: String) throws -> [FigureKey: FigureCounts] {
    let rows = try JSONReader.readAtOnce(Array(text.utf8), root: .any, size: .whole) { list in
      list.elements.map { $0.elements.map(\.kind) }
    }
    var counts: [FigureKey: FigureCounts] = [:]
    for row in rows {
      guard row.count >= 3, row.count % 2 == 1, case .integer(let day) = row[0], case .string(let product) = row[1],
        case .string(let currency) = row[2]
      else { throw StoredForm.Unstorable() }
      let key = FigureKey(day: Int(day), product: product, currency: currency)
      for place in stride(from: 3, to: row.count, by: 2) {
        guard case .integer(let number) = row[place], let figure = Figure(rawValue: Int(number)),
          case .integer(let count) = row[place + 1]
        else { throw StoredForm.Unstorable() }
        counts[key, default: FigureCounts()][figure] = count
      }
    }
    return counts
  }

  static func text(_ counts: [FigureKey: FigureCounts]) -> String {
    var writer = JSONWriter()
    writer.array { writer in
      for key in counts.keys.sorted() {
        guard let counts = counts[key] else { continue }
        writer.array { writer in
          writer.value(Int64(key.day))
          writer.value(key.product)
          writer.value(key.currency)
          for figure in Figure.allCases where counts[figure] != 0 {
            writer.value(Int64(figure.rawValue))
            writer.value(counts[figure])
          }
        }
      }
    }
    return String(decoding: writer.bytes, as: UTF8.self)
  }
}
