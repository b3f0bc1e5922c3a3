import Entitlements
package import FoundationEssentials
package import Ledger
package import Logging
import Synchronization

/// The downgrade brake that the jobs share. It survives a restart, and a person can release it.
package final class DowngradeBrakeService: Sendable {
  static let memo = "downgrade_brake"

  private struct State {
    var brake: DowngradeBrake
    var isAnnounced = false
  }

  private let state: Mutex<State>
  private let ledger: Ledger
  private let now: @Sendable () -> Date

  package static func restored(
    from ledger: Ledger, share: Double, now: @escaping @Sendable () -> Date
  ) async throws(LedgerError) -> DowngradeBrakeService {
    let text = try await ledger.memo(memo)
    var snapshot = DowngradeBrake.Snapshot()
    if let text {
      if let kept = try? JSONDecoder().decode(DowngradeBrake.Snapshot.self, from: Data(text.utf8)) {
        snapshot = kept
      } else {
        // The brake may have been engaged: to ask a person in vain does less harm.
        snapshot.engagement = DowngradeBrake.Engagement(since: now(), lowered: 0, looked: 0, withheld: 0)
      }
    }
    return DowngradeBrakeService(DowngradeBrake(share: share, restoring: snapshot, at: .now), ledger: ledger, now: now)
  }

  private init(_ brake: DowngradeBrake, ledger: Ledger, now: @escaping @Sendable () -> Date) {
    state = Mutex(State(brake: brake))
    self.ledger = ledger
    self.now = now
  }

  /// The reason why nobody is lowered; `nil` while verdicts pass.
  package var engagement: DowngradeBrake.Engagement? { state.withLock { $0.brake.engagement } }
  package var isEngaged: Bool { engagement != nil }

  /// The approval of verdicts: counts each, and passes those that lower nobody, those with an expected end, and others
  /// while they are not too many.
  ///
  /// Expected ends come every day, and no mistake of ours makes more of them: the customer had turned renewal off or
  /// was in a grace period, and that time is over. Or the previous verdict ended so long ago that it counts for no
  /// reader, as after a long downtime.
  func approval(of rules: EntitlementRules) -> Approval {
    { [self] before, after in
      state.withLock { $0.brake.looked(at: .now) }
      guard rules.isLowering(before, after), let before, !before.announcesEnd(by: after, hold: rules.policy.outageHold)
      else { return true }
      let date = now()
      return state.withLock { $0.brake.mayLower(at: .now, date: date) }
    }
  }

  /// Counts a check of a user about whom Apple has nothing new to say.
  func noteUnchanged() { state.withLock { $0.brake.looked(at: .now) } }

  /// Writes the state down, with what another replica has written meanwhile. A crash before it loses counts of some seconds, but no
  /// announced engagement.
  func keep(_ logger: Logger) async {
    do throws(LedgerError) {
      try await ledger.changeMemo(Self.memo) { [self] text in
        adopt(text, logger)
        let snapshot = state.withLock { $0.brake.snapshot(at: .now) }
        return (try? JSONEncoder().encode(snapshot)).map { String(decoding: $0, as: UTF8.self) } ?? text
      }
    } catch {
      logger.warning("the state of the downgrade brake cannot be written", metadata: ["error": "\(error)"])
    }
  }

  /// Learns what another replica has written down: that the brake engaged there, or that a person released it there. Each
  /// replica counts its own checks, and the share of them is the same.
  func synchronize(_ logger: Logger) async {
    guard ledger.isShared else { return }
    let text: String?
    do throws(LedgerError) { text = try await ledger.memo(Self.memo) } catch { return }
    adopt(text, logger)
  }

  private func adopt(_ text: String?, _ logger: Logger) {
    guard ledger.isShared, let text,
      let kept = try? JSONDecoder().decode(DowngradeBrake.Snapshot.self, from: Data(text.utf8))
    else { return }
    let isReleased = state.withLock { state -> Bool in
      guard !state.brake.adopt(kept, at: .now) else {
        state.isAnnounced = state.brake.engagement != nil
        return state.brake.engagement == nil
      }
      return false
    }
    if isReleased { logger.notice("the downgrade brake is released for an hour") }
  }

  /// Raises the alarm, once for each engagement and once after each start.
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
  /// Whether this verdict announced the end that the next one finds.
  fileprivate func announcesEnd(by next: Entitlement, hold: Duration) -> Bool {
    guard next.status == .expired, let accessUntil, let evaluatedAt = next.explanation.evaluatedAt else { return false }
    let isForetold = status == .cancelled || status == .gracePeriod
    return (isForetold ? accessUntil : accessUntil.advanced(by: hold)) <= evaluatedAt
  }
}
