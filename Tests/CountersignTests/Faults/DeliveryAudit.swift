import Foundation
import TestSupport

/// The audit of a profile store once the service had time to deliver.
struct DeliveryAudit: Sendable {
  /// Users whose row is not what the ledger says last.
  var behind: [String] = []
  /// Users to whom an older update was applied after a newer one.
  var disordered: [String] = []
  /// Requests that the store did not understand.
  var notUnderstood: [String] = []
  var applied = 0

  var isClean: Bool { behind.isEmpty && disordered.isEmpty && notUnderstood.isEmpty }

  var figures: String {
    "\(applied) updates applied, \(behind.count) rows behind, \(disordered.count) out of order, "
      + "\(notUnderstood.count) requests not understood"
  }

  /// - Parameter hasVersion: false where the rows have no column for it, and only what they say in the end is looked at.
  init(_ store: ProfileStoreDouble, ledger: LedgerAudit, hasVersion: Bool = true) {
    let rows = store.rows
    let updates = store.applied
    applied = updates.count
    notUnderstood = store.notUnderstood
    for (user, profile) in ledger.profiles.sorted(by: { $0.key < $1.key }) {
      guard let row = rows[user], row["subscription_tier"]?.text == profile.tier,
        row["subscription_status"]?.text == profile.status,
        !hasVersion || row["subscription_version"]?.integer == profile.update,
        Self.milliseconds(row["subscription_expires_at"]) == profile.end, !profile.isWaiting
      else {
        behind.append(user)
        continue
      }
    }
    for (user, updates) in Dictionary(grouping: updates, by: \.user).sorted(by: { $0.key < $1.key }) {
      let versions = updates.compactMap { $0.values["subscription_version"]?.integer }
      if zip(versions, versions.dropFirst()).contains(where: { $0 > $1 }) { disordered.append(user) }
    }
  }

  private static func milliseconds(_ cell: Cell?) -> Int64? {
    guard let text = cell?.text else { return nil }
    let date = try? Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    return date.map { Int64(($0.timeIntervalSince1970 * 1000).rounded()) }
  }
}
