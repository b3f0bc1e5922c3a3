internal import Entitlements
internal import Ledger

internal import struct FoundationEssentials.Date

extension FigureTable {
  /// Above the places of the app's own trials among the purchases to be counted, and below those of purchases.
  static let lastTrial = MarkTable.trialPlace / 2

  /// The counts of the app's own trial; none of one that was taken back.
  func trialFigures(_ place: Int64) throws -> [FigureKey: FigureCounts] {
    let trial = try first(
      """
      SELECT trial.user_id, name, starts_at, ends_at, ended_at, is_over
      FROM trial JOIN given_period ON given_period.id = trial.id WHERE trial.id = ?
      """, place - MarkTable.trialPlace
    ) { row in
      let (endsAt, endedAt) = (try row.get(3, as: Date.self), try row.get(4, as: Date?.self))
      return (
        user: try row.get(0, as: String.self),
        trial: AppTrial(
          name: try row.get(1), startsAt: try row.get(2), endsAt: min(endsAt, endedAt ?? endsAt),
          isRunning: try !row.get(5, as: Bool.self))
      )
    }
    guard let (user, trial) = trial else { return [:] }
    return trial.figures(
      try tables.accounts.purchaseIDs(ofKey: user).compactMap { try tables.otherStores.countable($0)?.evidence })
  }
}
