import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// Deletes notifications that Apple no longer repeats.
///
/// Their facts are in the evidence and in the history. The notifications themselves are kept to recognise repetitions
/// and for inspection; Apple can be asked for those of 180 days.
///
/// https://developer.apple.com/documentation/appstoreserverapi/get-notification-history
struct NotificationPruner: Service {
  static let age: Duration = .seconds(180 * 86_400)
  /// The most notifications deleted in one transaction.
  static let batch = 500

  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  var pause: Duration = .seconds(3600)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      await repeatUntilCancelled { await sweep() == Self.batch ? .milliseconds(100) : pause }
    }
  }

  /// - Returns: the number of deleted notifications.
  func sweep() async -> Int {
    do throws(LedgerError) {
      return try await ledger.pruneNotifications(before: now().advanced(by: .zero - Self.age), limit: Self.batch)
    } catch {
      logger.warning("old notifications cannot be removed", metadata: ["error": "\(error)"])
      return 0
    }
  }
}
