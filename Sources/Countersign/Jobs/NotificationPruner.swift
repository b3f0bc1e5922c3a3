import Entitlements
import Ledger
import Logging
import ServiceLifecycle

import struct FoundationEssentials.Date

/// Forgets notifications that Apple sends no more.
///
/// What they told is in the evidence and in the history. They themselves are kept to know one that comes again, and to be
/// looked at; Apple can be asked for those of 180 days.
///
/// https://developer.apple.com/documentation/appstoreserverapi/get-notification-history
struct NotificationPruner: Service {
  static let age: Duration = .seconds(180 * 86_400)
  /// Notifications that go in one transaction.
  static let batch = 500

  var ledger: any Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  var pause: Duration = .seconds(3600)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        let isMore = await sweep() == Self.batch
        // Ended only by the shutdown.
        do { try await Task.sleep(for: isMore ? .milliseconds(100) : pause) } catch { return }
      }
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
