internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  // MARK: Exposures

  /// Keeps the variant that a user saw, unless the user saw one of the experiment's before.
  /// - Parameter user: as `name(of:)` has it.
  func keep(_ exposure: Exposure, of user: UserID) throws {
    guard !user.isErased else { return }
    try execute(
      """
      INSERT INTO exposure (user_id, experiment, variant, exposed_at) VALUES (?, ?, ?, ?)
      ON CONFLICT (user_id, experiment) DO NOTHING
      """, user.key, exposure.experiment, exposure.variant, exposure.at)
    guard changesCount == 1 else { return }
    changes.note(usageOf: user)
    try noteExposures(of: user.key)
  }

  func exposures(of key: String) throws -> [Exposure] {
    try all("SELECT experiment, variant, exposed_at FROM exposure WHERE user_id = ? ORDER BY experiment", key) { row in
      Exposure(experiment: try row.get(0), variant: try row.get(1), at: try row.get(2))
    }
  }

  /// Gives a user what an anonymous customer saw. Of an experiment of which both saw a variant, the user's own stays.
  func move(exposuresOf id: UserID, to user: UserID) throws {
    try noteExposures(of: id.key)
    try execute(
      """
      INSERT INTO exposure (user_id, experiment, variant, exposed_at)
        SELECT CAST(? AS TEXT), experiment, variant, exposed_at FROM exposure AS former WHERE former.user_id = ?
      ON CONFLICT (user_id, experiment) DO NOTHING
      """, user.key, id.key)
    try execute("DELETE FROM exposure WHERE user_id = ?", id.key)
    try noteExposures(of: user.key)
  }

  /// Deletes what names the user. The sums keep what was counted.
  func erase(exposuresOf key: String) throws {
    try execute("DELETE FROM exposure WHERE user_id = ?", key)
    try execute("DELETE FROM exposure_due WHERE user_id = ?", key)
    try execute("DELETE FROM counted_exposure WHERE user_id = ?", key)
  }

  // MARK: Counting

  /// Has a user counted anew who saw a variant.
  func noteExposures(of key: String) throws {
    try execute(
      """
      INSERT INTO exposure_due (user_id, changes) SELECT user_id, 1 FROM exposure WHERE user_id = ? LIMIT 1
      ON CONFLICT (user_id) DO UPDATE SET changes = exposure_due.changes + 1
      """, key)
  }

  /// How many users wait to be counted, up to a limit.
  func exposuresDue(limit: Int) throws -> Int {
    try first("SELECT count(*) FROM (SELECT user_id FROM exposure_due LIMIT ?) AS due", limit) { try $0.get(0) } ?? 0
  }

  /// Counts users whose exposures, purchases or trials changed.
  /// - Returns: how many; zero too while another replica counts.
  func countExposures(_ terms: [ProductID: Plans.Terms], limit: Int) throws -> Int {
    if connection.isShared, try !exists("SELECT 1 WHERE pg_try_advisory_xact_lock(1129531217)") { return 0 }
    let due = try all("SELECT user_id FROM exposure_due ORDER BY user_id LIMIT ?", max(0, limit)) {
      try $0.get(0, as: String.self)
    }
    var sums: [VariantKey: VariantCounts] = [:]
    for key in due {
      try execute("DELETE FROM exposure_due WHERE user_id = ?", key)
      let former = try countedExposures(of: key)
      let present = try presentCounts(of: key, terms)
      guard former != present else { continue }
      for (key, counts) in former { sums[key, default: VariantCounts()] -= counts }
      for (key, counts) in present { sums[key, default: VariantCounts()] += counts }
      guard !present.isEmpty else {
        try execute("DELETE FROM counted_exposure WHERE user_id = ?", key)
        continue
      }
      try execute(
        """
        INSERT INTO counted_exposure (user_id, counts) VALUES (?, ?)
        ON CONFLICT (user_id) DO UPDATE SET counts = excluded.counts
        """, key, StoredForm.encoded(StoredVariantCounts(present)))
    }
    try add(sums)
    return due.count
  }

  private func countedExposures(of key: String) throws -> [VariantKey: VariantCounts] {
    try first("SELECT counts FROM counted_exposure WHERE user_id = ?", key) {
      try StoredForm.decoded(StoredVariantCounts.self, $0.get(0)).counts
    } ?? [:]
  }

  private func presentCounts(
    of key: String, _ terms: [ProductID: Plans.Terms]
  ) throws -> [VariantKey: VariantCounts] {
    let exposures = try exposures(of: key)
    guard !exposures.isEmpty else { return [:] }
    let evidence = try (account(withKey: key)?.purchases ?? []).compactMap { try countable($0)?.evidence }
    let trials = try all("SELECT starts_at FROM given_period WHERE user_id = ? AND kind = 'trial'", key) {
      try $0.get(0, as: Date.self)
    }
    var counts: [VariantKey: VariantCounts] = [:]
    for exposure in exposures {
      counts.merge(exposure.counts(evidence, trials: trials, terms)) { one, _ in one }
    }
    return counts
  }

  /// The day under which a row has the sums of all days.
  private static let allDays = Int(Int32.min)

  private func add(_ changes: [VariantKey: VariantCounts]) throws {
    var sums = changes
    for (key, counts) in changes {
      var all = key
      all.day = Self.allDays
      sums[all, default: VariantCounts()] += counts
    }
    for (key, counts) in sums.sorted(by: { $0.key < $1.key }) where !counts.isZero {
      try execute(
        """
        INSERT INTO variant_figure
          (experiment, day, variant, currency, exposed, paid_before, trials, paid, revenue, refunds)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (experiment, day, variant, currency) DO UPDATE SET
          exposed = variant_figure.exposed + excluded.exposed,
          paid_before = variant_figure.paid_before + excluded.paid_before,
          trials = variant_figure.trials + excluded.trials, paid = variant_figure.paid + excluded.paid,
          revenue = variant_figure.revenue + excluded.revenue, refunds = variant_figure.refunds + excluded.refunds
        """, key.experiment, key.day, key.variant, key.currency, counts.exposed, counts.paidBefore, counts.trials,
        counts.paid, counts.revenue, counts.refunds)
    }
  }

  /// Adds up the days of every variant, anew.
  func addUpVariants() throws {
    try execute("DELETE FROM variant_figure WHERE day = ?", Self.allDays)
    try execute(
      """
      INSERT INTO variant_figure
        (experiment, day, variant, currency, exposed, paid_before, trials, paid, revenue, refunds)
      SELECT experiment, ?, variant, currency, sum(exposed), sum(paid_before), sum(trials), sum(paid), sum(revenue),
        sum(refunds)
      FROM variant_figure GROUP BY experiment, variant, currency
      """, Self.allDays)
  }

  // MARK: Reading

  /// The names of the experiments of which somebody saw a variant.
  func countedExperiments(limit: Int) throws -> [String] {
    var names: [String] = []
    while names.count < limit,
      let next = try first(
        "SELECT experiment FROM variant_figure WHERE experiment > ? ORDER BY experiment LIMIT 1", names.last ?? "",
        read: { try $0.get(0, as: String.self) })
    {
      names.append(next)
    }
    return names
  }

  /// The sums of an experiment by variant and currency.
  /// - Parameter days: those of the exposures that count; all without any.
  func variantFigures(of experiment: String, _ days: Range<Int>?) throws -> [String: [String: VariantCounts]] {
    let days = days?.clamped(to: Self.allDays + 1..<Int.max) ?? Self.allDays..<Self.allDays + 1
    let rows = try all(
      """
      SELECT variant, currency, sum(exposed), sum(paid_before), sum(trials), sum(paid), sum(revenue), sum(refunds)
      FROM variant_figure WHERE experiment = ? AND day >= ? AND day < ? GROUP BY variant, currency
      """, experiment, days.lowerBound, days.upperBound
    ) { row in
      var counts = VariantCounts()
      for (column, count) in VariantCounts.all.enumerated() { counts[keyPath: count] = try row.get(2 + column) }
      return (variant: try row.get(0, as: String.self), currency: try row.get(1, as: String.self), counts: counts)
    }
    var figures: [String: [String: VariantCounts]] = [:]
    for row in rows where !row.counts.isZero { figures[row.variant, default: [:]][row.currency] = row.counts }
    return figures
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
