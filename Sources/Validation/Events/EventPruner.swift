import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// Deletes events that are older than the operator keeps them (`events.keep`).
struct EventPruner: Service {
  /// The most events deleted in one transaction.
  static let batch = 500

  var ledger: Ledger
  /// How long events are kept.
  var age: Duration
  var logger: Logger
  var now: @Sendable () -> Date
  var pause: Duration = .seconds(3600)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      await repeatUntilCancelled { await sweep() == Self.batch ? .milliseconds(100) : pause }
    }
  }

  /// - Returns: the number of deleted events.
  func sweep() async -> Int {
    do throws(LedgerError) {
      return try await ledger.pruneChangeEvents(before: now().advanced(by: .zero - age), limit: Self.batch)
    } catch {
      logger.warning("old events cannot be removed", metadata: ["error": "\(error)"])
      return 0
    }
  }
}
