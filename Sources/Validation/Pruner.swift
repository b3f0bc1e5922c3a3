import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// Deletes what is older than it is kept: notifications, events, history. While the clock is not confirmed, nothing is old.
struct Pruner: Service {
  /// The time for which Apple can be asked for notifications again. Their facts are in the evidence and in the history; they
  /// themselves are kept to recognise repetitions, and for inspection.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/get-notification-history
  static let notificationAge: Duration = .seconds(180 * 86_400)

  let name: String
  let age: Duration
  /// The most rows of one transaction.
  let batch: Int
  let logger: Logger
  let now: @Sendable () -> Date
  let isClockConfirmed: @Sendable () -> Bool
  private let pause: Duration = .seconds(3600)
  /// Deletes some of the rows from before a moment, and returns their number.
  let prune: Prune

  typealias Prune = @Sendable (_ before: Date, _ limit: Int) async throws(LedgerError) -> Int

  func run() async throws {
    await cancelWhenGracefulShutdown {
      await repeatUntilCancelled { await turn() }
    }
  }

  /// - Returns: the pause until the next turn.
  func turn() async -> Duration {
    guard isClockConfirmed() else { return .seconds(10) }
    return await sweep() == batch ? .milliseconds(100) : pause
  }

  /// - Returns: the number of deleted rows.
  func sweep() async -> Int {
    do throws(LedgerError) {
      return try await prune(now().advanced(by: .zero - age), batch)
    } catch {
      logger.warning("old \(name) cannot be removed", metadata: ["error": "\(error)"])
      return 0
    }
  }
}
