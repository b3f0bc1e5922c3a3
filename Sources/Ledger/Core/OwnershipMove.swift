internal import Entitlements

/// Purchases that a user gains inside an open transaction, from other users or from nobody. Each user's line of the history,
/// verdict with its events, and version of the app's row are written in that transaction, the gaining user's first.
struct OwnershipMove {
  let tables: LedgerTables
  /// The rows of the purchases, already saved with their new owner; `from`: `nil` for a purchase of nobody's.
  let gained: [(purchase: Int64, from: UserID?)]
  /// Whether Apple is told the gaining user.
  var tellsAccountTokens = false
  let writer: (Account) throws -> VerdictWriter

  /// - Parameter save: stores the verdict on the gaining user; `nil`: the user is reevaluated.
  /// - Returns: the users who lost a purchase.
  @discardableResult func run(to winner: inout Account, save: ((inout Account) throws -> Void)? = nil) throws
    -> [UserID]
  {
    for (purchase, former) in gained {
      try tables.events.appendGain(of: purchase, from: former, to: &winner, writer(winner).head)
      if tellsAccountTokens {
        try tables.accountTokens.tell(ofPurchase: purchase, at: writer(winner).head.recordedAt)
      } else if former != nil {
        try tables.accountTokens.forget(tokenOfPurchase: purchase)
      }
    }
    if let save { try save(&winner) } else { try writer(winner).reevaluate(&winner) }
    let losers = Set(gained.compactMap(\.from)).sorted { $0.rawValue < $1.rawValue }
    for user in losers {
      guard var loser = try tables.accounts.account(of: user) else { throw StoredForm.Unstorable() }
      for (purchase, former) in gained where former == user {
        try tables.events.appendLoss(of: purchase, to: winner.user, from: &loser, writer(loser).head)
      }
      try writer(loser).reevaluate(&loser)
    }
    return losers
  }
}
