import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// Deletes what is older than it is kept: notifications, events, history.
struct Pruner: Service {
  /// The time for which Apple can be asked for notifications again. Their facts are in the evidence and in the history; they
  /// themselves are kept to recognise repetitions, and for inspection.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/get-notification-history
  static let notificationAge: Duration = .seconds(180 * 86_400)

  /// The name of the rows, for the log.
  private let name: String
  private let age: Duration
  /// The most rows of one transaction.
  private let batch: Int
  private let logger: Logger
  private let now: @Sendable () -> Date
  private let pause: Duration = .seconds(3600)
  private let prune: @Sendable (_ before: Date, _ limit: Int) async throws(LedgerError) -> Int

  /// - Parameter prune: deletes some of the rows from before a moment, and returns their number.
  init(
    of name: String, olderThan age: Duration, batch: Int = 500, logger: Logger, now: @escaping @Sendable () -> Date,
    prune: @escaping @Sendable (_ before: Date, _ limit: Int) async throws(LedgerError) -> Int
  ) {
    self.name = name
    self.age = age
    self.batch = batch
    self.logger = logger
    self.now = now
    self.prune = prune
  }

  func run() async throws {
    await cancelWhenGracefulShutdown {
      await repeatUntilCancelled { await sweep() == batch ? .milliseconds(100) : pause }
    }
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
