import Entitlements
import Ledger
import Logging
import Profiles
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// The job that delivers updates of the app's own rows which did not get through in line with their request.
///
/// While the store answers, many at once; after a failure one at a time and ever more rarely, until one gets through:
///
///     failed sweeps   0     1     2     3     4 …
///     pause          1 s   2 s   4 s   8 s  10 s
///     claimed        200   1     1     1     1
///
/// A row that the store refuses is no such failure: it waits for its own time, and the others go on.
struct UpdateDeliverer: Service {
  var writeBack: ProfileWriteBack
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  /// The pause after a sweep without failure that left nothing.
  var pause: Duration = .seconds(1)

  static let longestPause: Duration = .seconds(10)
  static let batch = 200
  static let width = 8
  static let lease: Duration = .seconds(30)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var hasAnswered = await probe()
      var failedSweeps = 0
      var isReleased = false
      await repeatUntilCancelled {
        if !isReleased { isReleased = await release() }
        let claimed = await sweep(limit: failedSweeps > 0 ? 1 : Self.batch)
        // The store was away at the start. It is asked until it answers, so that its state is right with nothing to write.
        if !hasAnswered, claimed != nil { hasAnswered = await probe(again: true) }
        guard claimed != Self.batch else { return nil }
        if failedSweeps > 0, claimed == 1 {
          // The store is back: the others follow without a pause.
          failedSweeps = 0
          return nil
        }
        failedSweeps = claimed == nil || claimed == 0 && !hasAnswered ? failedSweeps + 1 : 0
        return Backoff(base: pause, cap: Self.longestPause).ceiling(after: failedSweeps)
      }
    }
  }

  /// Logs at the start what is wrong with the store, while somebody is looking.
  ///
  /// - Parameter again: it is logged already that the store is away.
  /// - Returns: whether the store answered.
  private func probe(again: Bool = false) async -> Bool {
    let check = await writeBack.store.check(deadline: .now.advanced(by: writeBack.deadline))
    writeBack.health.note(check)
    switch check {
    case .ok:
      logger.info("the profile store accepts updates")
      return true
    case .misconfigured(let trouble):
      logger.critical(
        "the profile store refuses updates from this service",
        metadata: ["code": "\(trouble.code)", "cause": "\(trouble)"])
      return true
    case .unavailable(let trouble):
      logger.log(
        level: again ? .debug : .warning, "the profile store is away",
        metadata: ["code": "\(trouble.code)", "cause": "\(trouble)"])
      return false
    }
  }

  /// Makes due what an earlier process has put off.
  ///
  /// - Returns: whether the ledger did so.
  func release() async -> Bool {
    let claims = Self.lease + writeBack.deadline * 2
    do throws(LedgerError) {
      try await ledger.releaseUpdates(putOffBeyond: now().advanced(by: claims))
      return true
    } catch {
      logger.warning("profile updates cannot be read", metadata: ["error": "\(error)"])
      return false
    }
  }

  /// Delivers the updates that are due.
  ///
  /// - Returns: the number of claimed updates; `nil` if one of them failed, or the ledger did.
  func sweep(limit: Int) async -> Int? {
    let due: [WaitingUpdate]
    let lease = now().advanced(by: Self.lease)
    do throws(LedgerError) {
      due = try await ledger.claimUpdates(dueAt: now(), until: lease, limit: limit) { users in
        logger.error(
          "profile updates in the ledger cannot be read, and wait",
          metadata: ["users": "\(users.map(\.rawValue).joined(separator: " "))"])
      }
    } catch {
      logger.warning("profile updates cannot be read", metadata: ["error": "\(error)"])
      return nil
    }
    let outcomes = await mapConcurrently(due, width: Self.width, while: { $0 != .failed }) { update in
      await writeBack.write(
        update.user, confirming: update.state == .written ? update.version : nil, logger: logger)
    }
    guard outcomes.contains(.failed) else { return due.count }
    do throws(LedgerError) {
      try await ledger.returnUpdates(of: due.map(\.user), claimedUntil: lease)
    } catch {
      logger.warning("claimed profile updates cannot be returned", metadata: ["error": "\(error)"])
    }
    return nil
  }
}
