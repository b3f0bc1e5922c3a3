internal import Ledger

/// Reads the differences between a scan of all users and the counts of users by tier and status. A version without these
/// counts causes them. Every other version counts a user's change in the same transaction, so records leave the differences
/// as they are.
struct RecountSubscribers: LedgerOperation {
  func run(_ tables: LedgerTables) throws -> SubscriberRecount {
    var differences: [Tally: Int64] = [:]
    for row in try tables.all(
      """
      SELECT tier, status, count(*) FROM account WHERE tier IS NOT NULL GROUP BY tier, status
      UNION ALL SELECT label, detail, -count FROM tally WHERE name = ?
      UNION ALL SELECT label, detail, -change FROM tally_change WHERE name = ?
      """, Tally.Name.subscribers, Tally.Name.subscribers,
      read: {
        (
          tally: Tally(name: .subscribers, label: try $0.get(0), detail: try $0.get(1)),
          count: try $0.get(2, as: Int64.self)
        )
      })
    {
      differences[row.tally, default: 0] += row.count
    }
    return SubscriberRecount(
      differences: differences.filter { $0.value != 0 }, corrections: try tables.figures.corrections())
  }
}

struct SubscriberRecount: Sendable {
  var differences: [Tally: Int64]
  /// The number of corrections before the scan.
  var corrections: Int
}

/// Adds the differences to the counts, unless another replica has corrected these since the scan.
struct CorrectSubscribers: LedgerOperation {
  let recount: SubscriberRecount

  func run(_ tables: LedgerTables) throws {
    guard !recount.differences.isEmpty, try tables.figures.corrections() == recount.corrections else { return }
    for (tally, difference) in recount.differences.sorted(by: { $0.key < $1.key }) {
      try tables.marks.mark(difference, to: tally)
    }
    try tables.keepMemo(FigureTable.correctionMemo, "\(recount.corrections &+ 1)")
  }
}

extension FigureTable {
  fileprivate static let correctionMemo = "subscriber corrections"

  /// The number of corrections of the counts of users.
  fileprivate func corrections() throws -> Int { try tables.memo(Self.correctionMemo).flatMap { Int($0) } ?? 0 }
}
