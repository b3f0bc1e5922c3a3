package import Entitlements
package import struct FoundationEssentials.Date

/// The users whom Apple has to be told (Set App Account Token). A task is written with the gain of the purchase, in one transaction;
/// a purchase has one, for its newest user.
extension Ledger {
  /// Claims tasks that are due, the longest due first. One that is not settled is due again at `lease`.
  ///
  /// - Parameter environment: that of the claimed ones; `nil`: any.
  package func claimAccountTokens(
    in environment: StoreEnvironment?, dueAt now: Date, until lease: Date, limit: Int
  ) async throws(LedgerError) -> [AccountTokenTask] {
    guard try await read({ try $0.schedule.hasClaimable(in: "account_token_due", of: environment, at: now) }) else {
      return []
    }
    return try await engine.submit { tables in
      try tables.accountTokens.claim(in: environment, dueAt: now, until: lease, limit: limit)
    }
  }

  /// Ends a claimed task, or puts it off. A task for a user who has come to the purchase since is due.
  /// - Parameter moment: when it is due again; `nil`: it is done.
  package func settle(_ task: AccountTokenTask, dueAgainAt moment: Date?) async throws(LedgerError) {
    try await engine.submit { tables in try tables.accountTokens.settle(task, dueAgainAt: moment) }
  }

  /// Returns claimed tasks that were not settled.
  package func returnAccountTokens(_ tasks: [AccountTokenTask], claimedUntil lease: Date) async throws(LedgerError) {
    try await engine.submit { tables in
      for task in tasks {
        try tables.execute(
          """
          UPDATE account_token_due SET claimed_until = NULL
          WHERE environment = ? AND original_transaction_id = ? AND claimed_until = ?
          """, task.key, lease)
      }
    }
  }
}

/// The user whom Apple has to be told as that of a purchase.
package struct AccountTokenTask: Hashable, Sendable {
  package var key: SubscriptionKey
  package var bundleID: BundleID
  /// The user's ID, a lower-case UUID.
  package var token: String
  /// Attempts that failed.
  package var attempts: Int
}
