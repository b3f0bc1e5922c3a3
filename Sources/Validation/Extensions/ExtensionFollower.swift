import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// The job that asks Apple for extensions whose answer is not known, and for the status of those of a product.
struct ExtensionFollower: Service {
  static let longestPause: Duration = .seconds(10)
  static let width = 4

  var extensions: RenewalExtensions
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  var pacer: Pacer
  var pause: Duration

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var failures = 0
      await repeatUntilCancelled {
        // While Apple is away one is tried at a time, ever more rarely.
        let claimed = await sweep(limit: failures > 0 ? 1 : Self.width)
        failures = claimed == nil ? failures + 1 : 0
        return claimed.map { $0 > 0 } ?? false
          ? nil : Backoff(base: pause, cap: Self.longestPause).ceiling(after: failures)
      }
    }
  }

  /// - Returns: the number of claimed extensions; `nil` if Apple or the ledger is unavailable.
  func sweep(limit: Int) async -> Int? {
    let lease = extensions.lease()
    do throws(LedgerError) {
      let due = try await ledger.claimExtensions(dueAt: now(), until: lease, limit: limit)
      let outcomes = await mapConcurrently(due, width: Self.width, while: { $0 == .followed }) {
        one -> RenewalExtensions.Outcome in
        guard await pacer.turn(), now() < lease else { return .away }
        // A stop of the service does not break it off: Apple may have taken it by then.
        return await Task {
          do throws(LedgerError) { return try await extensions.follow(one, logger: logger) } catch {
            log(error)
            return .away
          }
        }.value
      }
      guard outcomes.contains(.away) || outcomes.count < due.count else { return due.count }
      try await ledger.returnExtensions(due, claimedUntil: lease)
    } catch { log(error) }
    return nil
  }

  private func log(_ error: LedgerError) {
    logger.warning("extensions of renewal dates cannot be read or recorded", metadata: ["error": "\(error)"])
  }
}
