package import Access
internal import Entitlements
package import Ledger

/// Counts the users near a limit whose tier is another one than when a count was set.
///
/// The outcome is the number of users. Fewer than the limit: all are counted, or another replica counts.
package struct CountLimits: LedgerOperation {
  private let features: [Feature]
  private let limit: Int

  /// - Parameter features: of the catalog; those that are no limits are left out.
  package init(_ features: [Feature], limit: Int) {
    self.features = features.filter { $0.kind == .limit }
    self.limit = limit
  }

  package func run(_ tables: LedgerTables) throws -> Int {
    guard try tables.take(.limits) else { return 0 }
    let due = try tables.all(
      "SELECT user_id FROM limit_due ORDER BY user_id LIMIT ?", max(0, limit), as: String.self)
    for key in due {
      try tables.execute("DELETE FROM limit_due WHERE user_id = ?", key)
      let recorded = try tables.first("SELECT tier FROM account WHERE key = ?", key, as: Tier?.self).flatMap(\.self)
      for feature in features {
        // A user without a verdict has the lowest tier.
        guard let tier = recorded ?? feature.tiers.first else { continue }
        let count: Int? = try tables.first(
          "SELECT total FROM feature_total WHERE user_id = ? AND feature = ?", key, feature.name)
        let isNear = count.map { feature.isNear($0, limitOf: tier) } ?? false
        try tables.progress.markLimit(feature.name, of: UserID(key), near: isNear ? tier : nil)
      }
    }
    return due.count
  }
}

/// Reads whether there are users to be counted.
struct LimitsDue: LedgerOperation {
  func run(_ tables: LedgerTables) throws -> Bool { try tables.exists("SELECT 1 FROM limit_due LIMIT 1") }
}
