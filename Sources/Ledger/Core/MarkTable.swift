internal import Entitlements

/// Marks for the figures, which are counted a moment later.
package struct MarkTable: LedgerTable {
  package let tables: LedgerTables

  /// Added to the ID of one of the app's own trials, it makes its place among the purchases to be counted, far below theirs.
  package static let trialPlace: Int64 = -1 << 62

  private static func mark(_ key: String, in table: String, _ rows: String) -> SQL {
    SQL(
      """
      INSERT INTO \(table) (\(key), changes) \(rows)
      ON CONFLICT (\(key)) DO UPDATE SET changes = \(table).changes + 1
      """)
  }

  private static let trials = "SELECT id + (\(trialPlace)), 1 FROM trial WHERE"
  private static let markPurchase = mark("purchase_id", in: "figure_due", "VALUES (?, 1)")
  private static let markTrialByID = mark("purchase_id", in: "figure_due", "\(trials) id = ?")
  private static let markTrialsOfUser = mark("purchase_id", in: "figure_due", "\(trials) user_id = ?")
  private static let markLimitsOfUser = mark(
    "user_id", in: "limit_due", "SELECT user_id, 1 FROM feature_total WHERE user_id = ? LIMIT 1")
  private static let markExposuresOfUser = mark(
    "user_id", in: "exposure_due", "SELECT user_id, 1 FROM exposure WHERE user_id = ? LIMIT 1")

  /// Marks a purchase for recounting.
  func markFigures(of purchase: Int64) throws { try execute(Self.markPurchase, purchase) }

  /// Marks the app's own trial for recounting, if the given period is one.
  func markTrial(_ id: GivenPeriod.ID) throws { try execute(Self.markTrialByID, id) }

  /// Marks a user's trials of the app's own for recounting.
  package func markTrials(of key: String) throws { try execute(Self.markTrialsOfUser, key) }

  /// Marks a user for whom counts are kept, as the tier has other limits.
  func markLimits(of key: String) throws { try execute(Self.markLimitsOfUser, key) }

  /// Marks a user who saw a variant for recounting.
  package func markExposures(of key: String) throws { try execute(Self.markExposuresOfUser, key) }

  /// Adds to a count, a moment later: a row that every transaction changed would make each wait for the others.
  package func mark(_ change: Int64, to tally: Tally) throws {
    try execute(
      "INSERT INTO tally_change (name, day, label, detail, change) VALUES (?, ?, ?, ?, ?)", tally.name, tally.day,
      tally.label, tally.detail, change)
  }

  /// Moves a user from the count of one tier and status to another's.
  func countSubscriber(_ former: Account.Access?, replacedBy access: Account.Access) throws {
    guard former?.tier != access.tier || former?.status != access.status else { return }
    func tally(_ access: Account.Access) -> Tally {
      Tally(name: .subscribers, label: access.tier.rawValue, detail: access.status.rawValue)
    }
    if let former { try mark(-1, to: tally(former)) }
    try mark(1, to: tally(access))
  }
}
