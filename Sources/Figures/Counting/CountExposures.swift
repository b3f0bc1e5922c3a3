internal import Access
internal import Entitlements
internal import Ledger

internal import struct FoundationEssentials.Date

/// Counts the users in experiments who have new exposures, purchases or trials.
///
/// The outcome is the number of users. Fewer than the limit: all are counted, another replica counts, or a replica with
/// other prices or rules began later.
struct CountExposures: LedgerOperation {
  let terms: [ProductID: Plans.Terms]
  let prices: PriceText
  let limit: Int

  init(_ terms: [ProductID: Plans.Terms], limit: Int) {
    self.terms = terms
    prices = PriceText(terms)
    self.limit = limit
  }

  func run(_ tables: LedgerTables) throws -> Int {
    guard try tables.figures.areFigures(by: prices), try tables.take(.exposures) else { return 0 }
    let due = try tables.all(
      "SELECT user_id FROM exposure_due ORDER BY user_id LIMIT ?", max(0, limit), as: String.self)
    var sums: [VariantKey: VariantCounts] = [:]
    for key in due {
      try tables.execute("DELETE FROM exposure_due WHERE user_id = ?", key)
      let former = try tables.figures.countedExposures(of: key)
      let present = try tables.figures.presentCounts(of: key, terms)
      guard former != present else { continue }
      for (key, counts) in former { sums[key, default: VariantCounts()] -= counts }
      for (key, counts) in present { sums[key, default: VariantCounts()] += counts }
      guard !present.isEmpty else {
        try tables.execute("DELETE FROM counted_exposure WHERE user_id = ?", key)
        continue
      }
      try tables.execute(FigureTable.upsertCounted, key, StoredForm.encoded(StoredVariantCounts(present)))
    }
    try tables.figures.add(sums)
    return due.count
  }
}

/// Reads whether there are users to be counted.
struct ExposuresDue: LedgerOperation {
  func run(_ tables: LedgerTables) throws -> Bool { try tables.figures.exposuresDue(limit: 1) > 0 }
}

extension FigureTable {
  /// The number of users to be counted, up to a limit.
  func exposuresDue(limit: Int) throws -> Int {
    try first("SELECT count(*) FROM (SELECT user_id FROM exposure_due LIMIT ?) AS due", limit) ?? 0
  }

  fileprivate func countedExposures(of key: String) throws -> [VariantKey: VariantCounts] {
    try first("SELECT counts FROM counted_exposure WHERE user_id = ?", key) {
      try StoredForm.decoded(StoredVariantCounts.self, $0.get(0)).counts
    } ?? [:]
  }

  fileprivate func presentCounts(
    of key: String, _ terms: [ProductID: Plans.Terms]
  ) throws -> [VariantKey: VariantCounts] {
    let exposures = try tables.exposures.exposures(of: key)
    guard !exposures.isEmpty else { return [:] }
    let evidence = try tables.accounts.purchaseIDs(ofKey: key).compactMap {
      try tables.otherStores.countable($0)?.evidence
    }
    let trials = try all("SELECT starts_at FROM given_period WHERE user_id = ? AND kind = 'trial'", key, as: Date.self)
    var counts: [VariantKey: VariantCounts] = [:]
    for exposure in exposures {
      counts.merge(exposure.counts(evidence, trials: trials, terms)) { one, _ in one }
    }
    return counts
  }

  /// The day under which a row has the sums of all days.
  static let allDays = Int(Int32.min)

  fileprivate static let upsertCounted = SQL.upsert("counted_exposure", key: "user_id", "counts")
  private static let addVariants = SQL.upsert(
    "variant_figure", key: "experiment, day, variant, currency", VariantCounts.columns.joined(separator: ", ")
  ) { "variant_figure.\($0) + excluded.\($0)" }
  private static let addUpVariants = SQL(
    """
    INSERT INTO variant_figure (experiment, day, variant, currency, \(VariantCounts.columns.joined(separator: ", ")))
    SELECT experiment, ?, variant, currency, \(VariantCounts.sums)
    FROM variant_figure GROUP BY experiment, variant, currency
    """)

  fileprivate func add(_ changes: [VariantKey: VariantCounts]) throws {
    var sums = changes
    for (key, counts) in changes {
      var all = key
      all.day = Self.allDays
      sums[all, default: VariantCounts()] += counts
    }
    for (key, counts) in sums.sorted(by: { $0.key < $1.key }) where !counts.isZero {
      try execute(Self.addVariants, key.experiment, key.day, key.variant, key.currency, counts)
    }
  }

  /// Replaces the sum of every variant by that of its days.
  func addUpVariants() throws {
    try execute("DELETE FROM variant_figure WHERE day = ?", Self.allDays)
    try execute(Self.addUpVariants, Self.allDays)
  }
}

/// The counts of a user as they are stored: a list of lists, each the key and then the numbers.
private struct StoredVariantCounts: Codable {
  let counts: [VariantKey: VariantCounts]

  init(_ counts: [VariantKey: VariantCounts]) { self.counts = counts }

  init(from decoder: any Decoder) throws {
    var list = try decoder.unkeyedContainer()
    var read: [VariantKey: VariantCounts] = [:]
    while !list.isAtEnd {
      var row = try list.nestedUnkeyedContainer()
      let key = try VariantKey(
        experiment: row.decode(String.self), variant: row.decode(String.self), day: row.decode(Int.self),
        currency: row.decode(String.self))
      var counts = VariantCounts()
      for count in VariantCounts.all { counts[keyPath: count] = try row.decode(Int64.self) }
      read[key] = counts
    }
    counts = read
  }

  func encode(to encoder: any Encoder) throws {
    var list = encoder.unkeyedContainer()
    for (key, counts) in counts.sorted(by: { $0.key < $1.key }) {
      var row = list.nestedUnkeyedContainer()
      try row.encode(key.experiment)
      try row.encode(key.variant)
      try row.encode(key.day)
      try row.encode(key.currency)
      for count in VariantCounts.all { try row.encode(counts[keyPath: count]) }
    }
  }
}
