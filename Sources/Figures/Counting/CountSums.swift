internal import Entitlements
internal import Ledger

/// The counts of purchases, added up by day and product, and those of their cohorts.
struct CountSums: Sendable {
  private(set) var figures: [FigureKey: FigureCounts] = [:]
  private(set) var cohorts: [FigureCohort.Key: Int64] = [:]

  /// Adds the counts of one purchase.
  mutating func add(_ counts: [FigureKey: FigureCounts]) {
    for (key, counts) in counts { figures[key, default: FigureCounts()] += counts }
    for (key, change) in counts.cohort { cohorts[key, default: 0] += change }
  }

  mutating func subtract(_ counts: [FigureKey: FigureCounts]) {
    for (key, counts) in counts { figures[key, default: FigureCounts()] -= counts }
    for (key, change) in counts.cohort { cohorts[key, default: 0] -= change }
  }

  mutating func add(_ other: CountSums) {
    for (key, counts) in other.figures { figures[key, default: FigureCounts()] += counts }
    cohorts.merge(other.cohorts, uniquingKeysWith: +)
  }

  /// The rows of the figures, by the grain of their days: also those of all products.
  var rows: [(grain: String, sums: [FigureKey: FigureCounts])] {
    var sums = figures
    for (key, counts) in figures {
      var all = key
      all.product = FigureTable.allProducts
      sums[all, default: FigureCounts()] += counts
    }
    var months: [FigureKey: FigureCounts] = [:]
    for (key, counts) in sums {
      var month = key
      month.day = CalendarDay.firstOfMonth(of: key.day)
      months[month, default: FigureCounts()] += counts
    }
    return [("day", sums), ("month", months)].map { ($0, $1.filter { !$0.value.isZero }) }
  }

  var cohortRows: [FigureCohort.Key: Int64] {
    var sums = cohorts
    for (key, change) in cohorts {
      sums[FigureCohort.Key(month: key.month, product: FigureTable.allProducts, since: key.since), default: 0] +=
        change
    }
    return sums.filter { $0.value != 0 }
  }
}

extension FigureTable {
  /// The product under which a row has the sums of all products, so that a page reads one row instead of one of each.
  static let allProducts = ""

  private static let figureKey = "grain, day, product_id, currency"
  private static let counts = FigureCounts.columns.joined(separator: ", ")
  private static let addFigures = SQL.upsert("figure", key: figureKey, counts) { "figure.\($0) + excluded.\($0)" }
  private static let setFigures = SQL.upsert("figure", key: figureKey, counts)
  private static let allFigures = SQL("SELECT day, product_id, currency, \(counts) FROM figure WHERE grain = ?")
  private static let cohortKey = "month, product_id, since"
  private static let addCohort = SQL.upsert("figure_cohort", key: cohortKey, "change") {
    "figure_cohort.\($0) + excluded.\($0)"
  }
  private static let setCohort = SQL.upsert("figure_cohort", key: cohortKey, "change")

  func add(_ sums: CountSums) throws {
    for (grain, sums) in sums.rows {
      for (key, counts) in sums.sorted(by: { $0.key < $1.key }) {
        try execute(Self.addFigures, grain, key.day, key.product, key.currency, counts)
      }
    }
    for (key, change) in sums.cohortRows.sorted(by: { $0.key < $1.key }) {
      try execute(Self.addCohort, key.month, key.product, key.since, change)
    }
  }

  /// Sets a row; without counts there is none.
  func set(_ row: SumRow) throws {
    switch row {
    case .figure(let grain, let key, let counts?):
      try execute(Self.setFigures, grain, key.day, key.product, key.currency, counts)
    case .figure(let grain, let key, nil):
      try execute(
        "DELETE FROM figure WHERE grain = ? AND day = ? AND product_id = ? AND currency = ?", grain, key.day,
        key.product, key.currency)
    case .cohort(let key, let change?): try execute(Self.setCohort, key.month, key.product, key.since, change)
    case .cohort(let key, nil):
      try execute(
        "DELETE FROM figure_cohort WHERE month = ? AND product_id = ? AND since = ?", key.month, key.product, key.since)
    }
  }

  /// The rows by which the sums have to be replaced.
  func rows(differingFrom sums: CountSums) throws -> [SumRow] {
    var rows: [SumRow] = []
    for (grain, present) in sums.rows {
      let former = try all(Self.allFigures, grain, read: Self.figures(_:))
      rows += former.filter { present[$0.0] == nil }.map { .figure(grain, $0.0, nil) }
      let known = Dictionary(former) { one, _ in one }
      rows += present.filter { known[$0.key] != $0.value }.map { .figure(grain, $0.key, $0.value) }
    }
    let (former, present) = (try cohorts(), sums.cohortRows)
    rows += former.keys.filter { present[$0] == nil }.map { .cohort($0, nil) }
    rows += present.filter { former[$0.key] != $0.value }.map { .cohort($0.key, $0.value) }
    return rows
  }
}

/// A row of the tables of figures or of cohorts.
enum SumRow: Sendable {
  case figure(String, FigureKey, FigureCounts?)
  case cohort(FigureCohort.Key, Int64?)
}
