package import Access
package import Entitlements

/// The first days of each user: seen, tried, paid.
package struct ProgressTable: LedgerTable {
  package let tables: LedgerTables

  /// Records how far a user has come, and counts the user in the steps that follow.
  package func record(_ progress: UserProgress, of user: UserID) throws {
    let key = try tables.accounts.key(of: user)
    let former = try self.progress(ofKey: key)
    let present = former?.merged(with: progress) ?? progress
    guard present != former else { return }
    try execute(Self.upsertProgress, key, present.seen, present.viewed, present.paid)
    try count(former?.steps ?? [:], replacedBy: present.steps)
  }

  private static let upsertProgress = SQL.upsert("user_progress", key: "user_id", "seen, viewed, paid")

  /// Forgets how far a user has come, and takes the user out of the counts.
  func take(ofKey key: String) throws -> UserProgress? {
    guard let progress = try progress(ofKey: key) else { return nil }
    try execute("DELETE FROM user_progress WHERE user_id = ?", key)
    try count(progress.steps, replacedBy: [:])
    return progress
  }

  /// Renames an erased user, or forgets the one of whom nothing else stays. The counts stay as they are.
  func erase(progressOf key: String, as pseudonym: UserID?) throws {
    if let pseudonym {
      try execute("UPDATE user_progress SET user_id = ? WHERE user_id = ?", pseudonym, key)
    } else {
      try execute("DELETE FROM user_progress WHERE user_id = ?", key)
    }
  }

  package func progress(ofKey key: String) throws -> UserProgress? {
    try first(
      "SELECT seen, viewed, paid FROM user_progress WHERE user_id = ?", key, into: UserProgress.init(seen:viewed:paid:))
  }

  private func count(_ former: [UserProgress.Step: Int], replacedBy present: [UserProgress.Step: Int]) throws {
    for step in UserProgress.Step.allCases where former[step] != present[step] {
      if let day = former[step] { try tables.marks.mark(-1, to: Tally(name: .funnel, day: day, label: step.rawValue)) }
      if let day = present[step] { try tables.marks.mark(1, to: Tally(name: .funnel, day: day, label: step.rawValue)) }
    }
  }

  // MARK: Limits

  /// Marks a user who is near a limit of a tier; `nil`: not any more.
  package func markLimit(_ feature: FeatureName, of user: UserID, near tier: Tier?) throws {
    let former = try first(
      "SELECT tier FROM near_limit WHERE user_id = ? AND feature = ?", user.key, feature, as: Tier.self)
    guard former != tier else { return }
    if let former { try leaveLimit(feature, near: former, ofKey: user.key) }
    guard let tier else { return }
    try execute("INSERT INTO near_limit (user_id, feature, tier) VALUES (?, ?, ?)", user.key, feature, tier)
    try tables.marks.mark(1, to: Tally(name: .nearLimit, label: feature.rawValue, detail: tier.rawValue))
  }

  /// Takes a user out of the counts of limits.
  func leaveLimits(ofKey key: String) throws {
    let near = try all(
      "SELECT feature, tier FROM near_limit WHERE user_id = ? ORDER BY feature", key, as: (FeatureName, Tier).self)
    for (feature, tier) in near { try leaveLimit(feature, near: tier, ofKey: key) }
  }

  private func leaveLimit(_ feature: FeatureName, near tier: Tier, ofKey key: String) throws {
    try execute("DELETE FROM near_limit WHERE user_id = ? AND feature = ?", key, feature)
    try tables.marks.mark(-1, to: Tally(name: .nearLimit, label: feature.rawValue, detail: tier.rawValue))
  }
}
