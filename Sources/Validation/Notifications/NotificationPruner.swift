import Entitlements
package import Ledger
package import Logging
import Resilience
import ServiceLifecycle

package import struct FoundationEssentials.Date

/// Forgets notifications that Apple sends no more.
///
/// What they told is in the evidence and in the history. They themselves are kept to know one that comes again, and to be
/// looked at; Apple can be asked for those of 180 days.
///
/// https://developer.apple.com/documentation/appstoreserverapi/get-notification-history
package struct NotificationPruner: Service {
  static let age: Duration = .seconds(180 * 86_400)
  /// Notifications that go in one transaction.
  static let batch = 500

  package var ledger: any Ledger
  package var logger: Logger
  package var now: @Sendable () -> Date
  package var pause: Duration = .seconds(3600)

  package init(
    ledger: any Ledger, logger: Logger, now: @escaping @Sendable () -> Date, pause: Duration = .seconds(3600)
  ) {
    self.ledger = ledger
    self.logger = logger
    self.now = now
    self.pause = pause
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      await repeatUntilCancelled { await sweep() == Self.batch ? .milliseconds(100) : pause }
    }
  }

  /// - Returns: how many went.
  func sweep() async -> Int {
    do throws(LedgerError) {
      return try await ledger.pruneNotifications(before: now().advanced(by: .zero - Self.age), limit: Self.batch)
    } catch {
      logger.warning("old notifications cannot be removed", metadata: ["error": "\(error)"])
      return 0
    }
  }
}
