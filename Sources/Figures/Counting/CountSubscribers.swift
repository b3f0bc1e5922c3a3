internal import Ledger

/// Reads the differences between a scan of all users and the counts of users by tier and status. A version without these
/// counts causes them. Every other version counts a user's change in the same transaction, so records leave the differences
/// as they are.
struct RecountSubscribers: LedgerOperation {
  func run(_ tables: LedgerTables) throws -> CorrectSubscribers {
    let rows = try tables.all(
      """
      SELECT tier, status, count(*) FROM account WHERE tier IS NOT NULL GROUP BY tier, status
      UNION ALL SELECT label, detail, -count FROM tally WHERE name = ?
      UNION ALL SELECT label, detail, -change FROM tally_change WHERE name = ?
      """, Tally.Name.subscribers, Tally.Name.subscribers, as: (String, String, Int64).self)
    var differences: [Tally: Int64] = [:]
    for (tier, status, count) in rows {
      differences[Tally(name: .subscribers, label: tier, detail: status), default: 0] += count
    }
    return CorrectSubscribers(
      differences: differences.filter { $0.value != 0 }, corrections: try tables.figures.corrections())
  }
}

/// Adds the differences to the counts, unless another replica has corrected these since the scan.
struct CorrectSubscribers: LedgerOperation {
  let differences: [Tally: Int64]
  /// The number of corrections before the scan.
  let corrections: Int

  func run(_ tables: LedgerTables) throws {
    guard !differences.isEmpty, try tables.figures.corrections() == corrections else { return }
    for (tally, difference) in differences.sorted(by: { $0.key < $1.key }) {
      try tables.marks.mark(difference, to: tally)
    }
    try tables.keepMemo(FigureTable.correctionMemo, "\(corrections &+ 1)")
  }
}

extension FigureTable {
  fileprivate static let correctionMemo = "subscriber corrections"

  /// The number of corrections of the counts of users.
  fileprivate func corrections() throws -> Int { try tables.memo(Self.correctionMemo).flatMap { Int($0) } ?? 0 }
}
