import AppStore
import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// The end of a user's way to Apple. The raw values are a metric's.
package enum AccountTokenOutcome: String, Sendable, CaseIterable {
  case told
  /// Apple refuses the token for good.
  case refused
}

/// The job that tells Apple the users of purchases that name nobody, or somebody who no longer has them: one made by an offer code
/// or on the App Store page, one that support has moved (`policy.app_account_token: user_id`).
///
///     gained ─► due, in the same transaction ─► claimed ─► Apple takes it ─► gone
///                            ▲                               │ Apple is away
///                            └────── ever more rarely ◄──────┘
///
/// Apple names the user in every later answer, so that nobody else gets the purchase, wherever it is presented. A token that was
/// sent and not settled, as the process ended, is sent again; Apple takes the same one twice.
///
/// https://developer.apple.com/documentation/appstoreserverapi/set-app-account-token
struct AccountTokenTeller: LeasedJob {
  static let retry = Backoff(base: .seconds(30), cap: .seconds(3_600))
  static let width = 8
  static let pieces = "app account tokens"

  var serverAPI: ServerAPIClient
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  var pacer: Pacer
  var deadline: Duration
  var isAway: @Sendable (StoreEnvironment) -> Bool
  var pause: Duration
  var onEnd: @Sendable (AccountTokenOutcome) -> Void

  func claim(
    in environment: StoreEnvironment?, until lease: Date, limit: Int
  ) async throws(LedgerError) -> [AccountTokenTask] {
    try await ledger.claimAccountTokens(in: environment, dueAt: now(), until: lease, limit: limit)
  }

  func giveBack(_ tasks: [AccountTokenTask], claimedUntil lease: Date) async throws(LedgerError) {
    try await ledger.returnAccountTokens(tasks, claimedUntil: lease)
  }

  func follow(_ task: AccountTokenTask, claimedUntil lease: Date) async throws(LedgerError) -> Following {
    guard await pacer.turn(), now().advanced(by: deadline) < lease else { return .away }
    // A stop of the service does not break it off: Apple may have taken it by then.
    let failure = await Task { [serverAPI, deadline] () async -> AppStoreError? in
      do throws(AppStoreError) {
        try await serverAPI.setAccountToken(
          task.token, of: task.key.originalTransactionID, bundleIDs: [task.bundleID], in: task.key.environment,
          deadline: .now.advanced(by: deadline))
        return nil
      } catch { return error }
    }.value
    switch failure {
    case nil: try await end(task, .told)
    // No call was made.
    case .cancelled, .overloaded, .unavailable(_, _, .circuitOpen): return .away
    case .notFound: try await end(task, .refused, "Apple does not know the purchase")
    case .unexpected(let code, _): try await end(task, .refused, "Apple answers with the error \(code)")
    case let error?:
      try await ledger.settle(
        task, dueAgainAt: now().advanced(by: Self.retry.ceiling(after: task.attempts)))
      return error.mayConcernThisReceiptOnly ? .followed : .away
    }
    return .followed
  }

  private func end(
    _ task: AccountTokenTask, _ outcome: AccountTokenOutcome, _ problem: String? = nil
  ) async throws(LedgerError) {
    try await ledger.settle(task, dueAgainAt: nil)
    onEnd(outcome)
    var metadata: Logger.Metadata = [
      "original_transaction_id": "\(task.key.originalTransactionID)",
      "environment": "\(task.key.environment.rawValue)", "attempts": .stringConvertible(task.attempts),
    ]
    if let problem { metadata["problem"] = "\(problem)" }
    switch outcome {
    case .told: logger.info("Apple was told the user of a purchase", metadata: metadata)
    case .refused: logger.warning("Apple refuses the user of a purchase", metadata: metadata)
    }
  }
}
