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
struct AccountTokenTeller: Service {
  /// The pauses between attempts at one purchase.
  static let retry = Backoff(base: .seconds(30), cap: .seconds(3_600))
  static let longestPause: Duration = .seconds(10)
  static let width = 8

  var serverAPI: ServerAPIClient
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  var pacer: Pacer
  var deadline: Duration
  var pause: Duration
  /// Called with each end.
  var onEnd: @Sendable (AccountTokenOutcome) -> Void

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var failures = 0
      await repeatUntilCancelled {
        let claimed = await sweep(limit: failures > 0 ? 1 : Self.width)
        guard claimed != Self.width else { return nil }
        failures = claimed == nil ? failures + 1 : 0
        return Backoff(base: pause, cap: Self.longestPause).ceiling(after: failures)
      }
    }
  }

  /// - Returns: the number of claimed tasks; `nil` if Apple or the ledger is unavailable.
  func sweep(limit: Int) async -> Int? {
    // Twice the time of a call, as each waits for its turn.
    let lease = now().advanced(by: deadline * 2 + .seconds(30))
    do throws(LedgerError) {
      let due = try await ledger.claimAccountTokens(dueAt: now(), until: lease, limit: limit)
      let outcomes = await mapConcurrently(due, width: Self.width, while: { $0 }) { task -> Bool in
        do throws(LedgerError) { return try await tell(task, claimedUntil: lease) } catch {
          log(error)
          return false
        }
      }
      guard outcomes.contains(false) || outcomes.count < due.count else { return due.count }
      try await ledger.returnAccountTokens(due, claimedUntil: lease)
    } catch { log(error) }
    return nil
  }

  private func log(_ error: LedgerError) {
    logger.warning("app account tokens cannot be read or recorded", metadata: ["error": "\(error)"])
  }

  /// - Returns: whether Apple is available.
  private func tell(_ task: AccountTokenTask, claimedUntil lease: Date) async throws(LedgerError) -> Bool {
    guard await pacer.turn(), now().advanced(by: deadline) < lease else { return false }
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
    case .cancelled, .overloaded, .unavailable(_, _, .circuitOpen): return false
    case .notFound: try await end(task, .refused, "Apple does not know the purchase")
    case .unexpected(let code, _): try await end(task, .refused, "Apple answers with the error \(code)")
    case let error?:
      try await ledger.settle(
        task, dueAgainAt: now().advanced(by: Self.retry.ceiling(after: task.attempts)))
      return error.mayConcernThisReceiptOnly
    }
    return true
  }

  private func end(
    _ task: AccountTokenTask, _ outcome: AccountTokenOutcome, _ problem: String? = nil
  ) async throws(LedgerError) {
    try await ledger.settle(task, dueAgainAt: nil)
    onEnd(outcome)
    var metadata: Logger.Metadata = [
      "original_transaction_id": "\(task.key.originalTransactionID)",
      "environment": "\(task.key.environment.rawValue)", "attempts": "\(task.attempts)",
    ]
    if let problem { metadata["problem"] = "\(problem)" }
    switch outcome {
    case .told: logger.info("Apple was told the user of a purchase", metadata: metadata)
    case .refused: logger.warning("Apple refuses the user of a purchase", metadata: metadata)
    }
  }
}
