internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date
internal import JSON

extension LedgerTables {
  // MARK: Counting

  /// Marks a purchase for recounting.
  func noteFigures(of purchase: Int64) throws {
    try execute(
      """
      INSERT INTO figure_due (purchase_id, changes) VALUES (?, 1)
      ON CONFLICT (purchase_id) DO UPDATE SET changes = figure_due.changes + 1
      """, purchase)
  }

  /// Begins to have every purchase counted anew, unless that was begun with these prices already; by other rules from nothing.
  func beginRecount(_ prices: String, rules: Int) throws {
    let isByTheseRules = try memo("figure rules") == "\(rules)"
    guard try !isByTheseRules || memo("figures") != prices else { return }
    let isFromNothing = try !isByTheseRules || recount()?.isFromNothing == true
    if isFromNothing {
      try execute("DELETE FROM figure")
      try execute("DELETE FROM figure_cohort")
      try addUpMonths()
      try addUpVariants()
    }
    try keep(Recount(after: .min, isFromNothing: isFromNothing))
    try keepMemo("figures", prices)
    try keepMemo("figure rules", "\(rules)")
  }

  /// The place of a recount that is under way. Nothing is counted until its last page is marked: the sums may be empty
  /// already, and the former counts of later pages would be subtracted from them.
  struct Recount: Hashable {
    /// The ID of the last purchase that was marked.
    var after: Int64
    /// Whether the former counts of purchases are forgotten.
    var isFromNothing: Bool
  }

  private static let recountMemo = "figure recount"

  func recount() throws -> Recount? {
    guard let words = try memo(Self.recountMemo)?.split(separator: " "), words.count == 2, let after = Int64(words[1])
    else { return nil }
    return Recount(after: after, isFromNothing: words[0] == "all")
  }

  private func keep(_ recount: Recount?) throws {
    try keepMemo(Self.recountMemo, recount.map { "\($0.isFromNothing ? "all" : "prices") \($0.after)" })
  }

  /// Marks the next page of a recount. A purchase that is recorded in between is marked besides.
  private func mark(_ recount: Recount, page: Int) throws {
    let last = try first(
      """
      SELECT max(id) FROM (SELECT id FROM (SELECT id FROM purchase UNION ALL SELECT id FROM revenuecat_purchase) AS one
        WHERE id > ? ORDER BY id LIMIT ?) AS page
      """, recount.after, page, read: { try $0.get(0, as: Int64?.self) })
    let end = last.flatMap(\.self)
    if recount.isFromNothing {
      try execute(
        "DELETE FROM counted_purchase WHERE purchase_id > ? AND purchase_id <= ?", recount.after, end ?? .max)
    }
    guard let end else { return try keep(nil) }
    try execute(
      """
      INSERT INTO figure_due (purchase_id, changes)
        SELECT id, 1 FROM (SELECT id FROM purchase UNION ALL SELECT id FROM revenuecat_purchase) AS one WHERE id > ? AND id <= ?
        ON CONFLICT DO NOTHING
      """, recount.after, end)
    try keep(Recount(after: end, isFromNothing: recount.isFromNothing))
  }

  /// Whether purchases are counted with these prices and by these rules: no replica with others began later.
  func areFigures(by prices: String, rules: Int) throws -> Bool {
    guard let known = try memo("figures") else { return true }
    return try known == prices && memo("figure rules") == "\(rules)"
  }

  /// Counts purchases that changed, and adds up what else was noted; during a recount marks its next page.
  /// - Parameters:
  ///   - rows: the transactions of the purchases, after which no other one is begun.
  ///   - page: the purchases of a page. They are only marked, so that there may be more than are counted.
  /// - Returns: how many of one or the other, the limit for a page and where purchases are left; zero too while another
  ///   replica counts.
  func countFigures(_ terms: [ProductID: Plans.Terms], limit: Int, rows: Int, page: Int) throws -> Int {
    if connection.isShared, try !exists("SELECT 1 WHERE pg_try_advisory_xact_lock(1129531216)") { return 0 }
    if let recount = try recount() {
      try mark(recount, page: max(1, page))
      return limit
    }
    let due = try all("SELECT purchase_id FROM figure_due ORDER BY purchase_id LIMIT ?", max(0, limit)) {
      try $0.get(0, as: Int64.self)
    }
    var sums: [FigureKey: FigureCounts] = [:]
    var cohorts: [FigureCohort.Key: Int64] = [:]
    var read = 0
    for id in due {
      guard read < rows else { break }
      try execute("DELETE FROM figure_due WHERE purchase_id = ?", id)
      guard let (evidence, owner) = try countable(id) else { continue }
      read += evidence.purchases.count
      try noteExposures(of: owner.key)
      for (product, period) in evidence.billingPeriods { try keep(period.text, of: product) }
      let former = try countedAs(id)
      let present = evidence.figures(terms)
      if evidence.key.environment == .production {
        try note(progressOf: owner, by: present, isWhole: evidence.isKnownFromStart)
      }
      guard former != present else { continue }
      for (key, counts) in former { sums[key, default: FigureCounts()] -= counts }
      for (key, counts) in present { sums[key, default: FigureCounts()] += counts }
      for (key, change) in former.cohort { cohorts[key, default: 0] -= change }
      for (key, change) in present.cohort { cohorts[key, default: 0] += change }
      try execute(
        """
        INSERT INTO counted_purchase (purchase_id, counts) VALUES (?, ?)
        ON CONFLICT (purchase_id) DO UPDATE SET counts = excluded.counts
        """, id, StoredFigures.text(present))
    }
    try add(sums)
    try add(cohorts)
    return max(read < rows ? due.count : limit, try addTallies(limit: limit))
  }

  /// A purchase at whichever store, with its owner and with the transactions that its evidence no longer has; `nil` for
  /// one that is gone.
  func countable(_ id: Int64) throws -> (evidence: SubscriptionEvidence, owner: UserID)? {
    guard id < 0 else {
      let purchase = try purchase(id: id)
      return (purchase.evidence.including(past: try pastTransactions(of: id)), purchase.owner)
    }
    return try revenueCatPurchase(id: id).map { ($0.evidence, $0.owner) }
  }

  /// Keeps the earlier transactions of a purchase for the figures: an answer of the Server API has the last one alone.
  func keepPast(of former: SubscriptionEvidence, replacedBy evidence: SubscriptionEvidence, of purchase: Int64) throws {
    guard evidence.source == .serverAPI, evidence.key.environment == .production else { return }
    let newest = evidence.purchases.compactMap(\.purchaseDate).max() ?? .distantPast
    let left = former.purchases.filter { one in
      one.ownership == .purchased && one.purchaseDate.map { $0 < newest } ?? false
        && !evidence.purchases.contains { $0.transactionID == one.transactionID }
    }
    guard !left.isEmpty else { return }
    var past = evidence
    past.renewals = []
    past.purchases = left
    past.purchases += try pastTransactions(of: purchase).filter { one in
      !left.contains { $0.transactionID == one.transactionID }
    }
    past.purchases.sort { ($0.purchaseDate ?? .distantPast) > ($1.purchaseDate ?? .distantPast) }
    past.purchases = Array(past.purchases.prefix(SubscriptionEvidence.partLimit))
    try execute(
      """
      INSERT INTO past_evidence (purchase_id, evidence) VALUES (?, ?)
      ON CONFLICT (purchase_id) DO UPDATE SET evidence = excluded.evidence
      """, purchase, StoredForm.text(past.withoutAccounts { _ in true }))
  }

  func pastTransactions(of purchase: Int64) throws -> [Purchase] {
    let key = SubscriptionKey(environment: .production, originalTransactionID: "")
    return try first("SELECT evidence FROM past_evidence WHERE purchase_id = ?", purchase) {
      try StoredForm.rows($0.get(0), of: key).purchases
    } ?? []
  }

  /// Notes the first payment among the counts of a purchase for its owner.
  /// - Parameter isWhole: whether the first transaction is known. If it is not, the owner had paid before.
  private func note(progressOf owner: UserID, by counts: [FigureKey: FigureCounts], isWhole: Bool) throws {
    let seenAt = try first("SELECT first_seen_at FROM account WHERE key = ?", owner.key) {
      try $0.get(0, as: Date.self)
    }
    guard let seenAt else { return }
    var paid = counts.filter { $0.value[.payments] > 0 }.keys.map(\.day).min()
    if !isWhole { paid = paid.map { min($0, seenAt.utcDay - 1) } }
    try note(UserProgress(seen: seenAt.utcDay, paid: paid), of: owner)
  }

  private func countedAs(_ purchase: Int64) throws -> [FigureKey: FigureCounts] {
    try first("SELECT counts FROM counted_purchase WHERE purchase_id = ?", purchase) {
      try StoredForm.decoded(StoredFigures.self, $0.get(0)).counts
    } ?? [:]
  }

  /// The product under which a row has the sums of all products, so that a page reads one row instead of one of each.
  static let allProducts = ""

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
        try execute(
          """
          INSERT INTO figure
            (grain, day, product_id, currency,
             active, trials, grace, mrr, new_subscriptions, new_mrr, ended, resubscribed, payments,
             refunded_payments, revenue, refunds, trial_starts, trial_conversions, trials_pending, existing, existing_mrr)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT (grain, day, product_id, currency) DO UPDATE SET
            active = figure.active + excluded.active, trials = figure.trials + excluded.trials,
            grace = figure.grace + excluded.grace, mrr = figure.mrr + excluded.mrr,
            new_subscriptions = figure.new_subscriptions + excluded.new_subscriptions,
            new_mrr = figure.new_mrr + excluded.new_mrr, ended = figure.ended + excluded.ended,
            resubscribed = figure.resubscribed + excluded.resubscribed,
            payments = figure.payments + excluded.payments,
            refunded_payments = figure.refunded_payments + excluded.refunded_payments,
            revenue = figure.revenue + excluded.revenue, refunds = figure.refunds + excluded.refunds,
            trial_starts = figure.trial_starts + excluded.trial_starts,
            trial_conversions = figure.trial_conversions + excluded.trial_conversions,
            trials_pending = figure.trials_pending + excluded.trials_pending,
            existing = figure.existing + excluded.existing,
            existing_mrr = figure.existing_mrr + excluded.existing_mrr
          """, grain, key.day, key.product, key.currency,
          counts[.active], counts[.trials], counts[.grace], counts[.mrr], counts[.new], counts[.newMRR],
          counts[.ended], counts[.resubscribed], counts[.payments], counts[.refundedPayments], counts[.revenue],
          counts[.refunds], counts[.trialStarts], counts[.trialConversions], counts[.trialsPending],
          counts[.existing], counts[.existingMRR])
      }
    }
  }

  // MARK: Reading

  /// How many purchases wait to be counted, up to a limit; as many as that during a recount.
  func figuresDue(limit: Int) throws -> Int {
    guard try recount() == nil else { return limit }
    return try first("SELECT count(*) FROM (SELECT purchase_id FROM figure_due LIMIT ?) AS due", limit) {
      try $0.get(0)
    } ?? 0
  }

  /// The sums of the days, or of the months by their first days, in a range: by day, or by product. SQL adds up, so that few
  /// rows leave it, and only what is asked for: levels alone are half of the work.
  func figures(
    _ grain: FigureGrain, _ days: Range<Int>, _ grouping: FigureGrouping, of product: String? = nil
  ) throws -> [FigureKey: FigureCounts] {
    let (grain, first, end) = (grain.rawValue, days.lowerBound, days.upperBound)
    let rows =
      if product == nil, grouping == .levels {
        try all(
          """
          SELECT 0, product_id, currency, sum(active), sum(trials), sum(grace), sum(mrr),
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
          FROM figure WHERE grain = ? AND day >= ? AND day < ? AND product_id <> ? GROUP BY product_id, currency
          """, grain, first, end, Self.allProducts, read: Self.figures)
      } else if product != nil || grouping == .day {
        try all(
          """
          SELECT day, product_id, currency,
            active, trials, grace, mrr, new_subscriptions, new_mrr, ended, resubscribed, payments, refunded_payments,
            revenue, refunds, trial_starts, trial_conversions, trials_pending, existing, existing_mrr
          FROM figure WHERE grain = ? AND day >= ? AND day < ? AND product_id = ?
          """, grain, first, end, product ?? Self.allProducts, read: Self.figures)
      } else {
        try all(
          """
          SELECT 0, product_id, currency,
            sum(active), sum(trials), sum(grace), sum(mrr),
            sum(new_subscriptions), sum(new_mrr), sum(ended),
            sum(resubscribed), sum(payments), sum(refunded_payments),
            sum(revenue), sum(refunds), sum(trial_starts),
            sum(trial_conversions), sum(trials_pending), sum(existing), sum(existing_mrr)
          FROM figure WHERE grain = ? AND day >= ? AND day < ? AND product_id <> ? GROUP BY product_id, currency
          """, grain, first, end, Self.allProducts, read: Self.figures)
      }
    return Dictionary(rows) { one, _ in one }
  }

  private static func figures(_ row: SQLRow) throws -> (FigureKey, FigureCounts) {
    var counts = FigureCounts()
    for figure in Figure.allCases { counts[figure] = try row.get(3 + figure.rawValue) }
    return (FigureKey(day: try row.get(0), product: try row.get(1), currency: try row.get(2)), counts)
  }
}

/// The counts of a purchase as they are stored: a list of days, each with its product, its currency, and pairs of a
/// figure and a number.
private struct StoredFigures: Decodable {
  let counts: [FigureKey: FigureCounts]

  init(from decoder: any Decoder) throws {
    var list = try decoder.unkeyedContainer()
    var counts: [FigureKey: FigureCounts] = [:]
    while !list.isAtEnd {
      var row = try list.nestedUnkeyedContainer()
      let key = try FigureKey(
        day: row.decode(Int.self), product: row.decode(String.self), currency: row.decode(String.self))
      while !row.isAtEnd {
        guard let figure = Figure(rawValue: try row.decode(Int.self)) else { throw StoredForm.Unstorable() }
        counts[key, default: FigureCounts()][figure] = try row.decode(Int64.self)
      }
    }
    self.counts = counts
  }

  static func text(_ counts: [FigureKey: FigureCounts]) -> String {
    var writer = JSONWriter()
    writer.array { writer in
      for (key, counts) in counts.sorted(by: { $0.key < $1.key }) {
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
