import Entitlements
package import Foundation
package import Ledger
package import Logging
import Synchronization

/// The downgrade brake as the service's jobs share it: it survives a restart, and a person can release it.
package final class DowngradeBrakeService: Sendable {
  /// Under which the ledger keeps its state.
  static let memo = "downgrade_brake"

  private struct State {
    var brake: DowngradeBrake
    /// Somebody was told since it engaged.
    var isAnnounced = false
  }

  /// Guards the brake.
  private let state: Mutex<State>
  private let ledger: any Ledger
  private let now: @Sendable () -> Date

  /// Takes up where the process before left off.
  package static func restored(
    from ledger: any Ledger, share: Double, now: @escaping @Sendable () -> Date
  ) async throws(LedgerError) -> DowngradeBrakeService {
    let text = try await ledger.memo(memo)
    var snapshot = DowngradeBrake.Snapshot()
    if let text {
      if let kept = try? JSONDecoder().decode(DowngradeBrake.Snapshot.self, from: Data(text.utf8)) {
        snapshot = kept
      } else {
        // The brake may have been engaged. Asking a person once too often does less harm.
        snapshot.engagement = DowngradeBrake.Engagement(since: now(), lowered: 0, looked: 0, withheld: 0)
      }
    }
    return DowngradeBrakeService(DowngradeBrake(share: share, restoring: snapshot, at: .now), ledger: ledger, now: now)
  }

  private init(_ brake: DowngradeBrake, ledger: any Ledger, now: @escaping @Sendable () -> Date) {
    state = Mutex(State(brake: brake))
    self.ledger = ledger
    self.now = now
  }

  /// Why nobody is lowered; `nil` while verdicts pass.
  package var engagement: DowngradeBrake.Engagement? { state.withLock { $0.brake.engagement } }
  package var isEngaged: Bool { engagement != nil }

  /// Counts each verdict, and lets those pass that lower nobody, those that were announced, and others while they are not
  /// too many.
  ///
  /// Announced: the customer had turned renewal off, or was in a grace period, and the time of that is over. Such ends come
  /// every day, and no mistake of ours makes more of them. Or the verdict before ended so long ago that it counts no more
  /// for anybody who reads it, as after a long time without the service.
  func approval(of rules: EntitlementRules) -> Approval {
    { [self] before, after in
      state.withLock { $0.brake.looked(at: .now) }
      guard rules.isLowering(before, after), let before, !before.announcesEnd(by: after, hold: rules.policy.outageHold)
      else { return true }
      let date = now()
      return state.withLock { $0.brake.mayLower(at: .now, date: date) }
    }
  }

  /// Writes the state down. What is lost with a crash before it are counts of some seconds, never the engagement of which
  /// somebody was told.
  func keep(_ logger: Logger) async {
    let snapshot = state.withLock { $0.brake.snapshot(at: .now) }
    guard let text = try? JSONEncoder().encode(snapshot) else { return }
    do throws(LedgerError) {
      try await ledger.keepMemo(Self.memo, String(decoding: text, as: UTF8.self))
    } catch {
      logger.warning("the state of the downgrade brake cannot be written", metadata: ["error": "\(error)"])
    }
  }

  /// Wakes somebody, once for each time it engaged and once after each start.
  func announce(_ logger: Logger) async {
    let engagement = state.withLock { state -> DowngradeBrake.Engagement? in
      guard !state.isAnnounced, let engagement = state.brake.engagement else { return nil }
      state.isAnnounced = true
      return engagement
    }
    guard let engagement else { return }
    await keep(logger)
    logger.critical(
      "too many subscribers would be downgraded: the brake holds downgrades until it is released",
      metadata: [
        "looked_at": .stringConvertible(engagement.looked), "lowered": .stringConvertible(engagement.lowered),
      ])
  }

  /// A person has looked into it and wants what comes to pass.
  package func release(_ logger: Logger) async {
    state.withLock { state in
      state.brake.release(at: .now)
      state.isAnnounced = false
    }
    logger.notice("the downgrade brake is released for an hour")
    await keep(logger)
  }
}

extension Entitlement {
  /// Whether this verdict foretold the end that the next one finds.
  fileprivate func announcesEnd(by next: Entitlement, hold: Duration) -> Bool {
    guard next.status == .expired, let accessUntil, let evaluatedAt = next.explanation.evaluatedAt else { return false }
    let isForetold = status == .cancelled || status == .gracePeriod
    return (isForetold ? accessUntil : accessUntil.advanced(by: hold)) <= evaluatedAt
  }
}
