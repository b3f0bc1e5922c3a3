import Entitlements
import Foundation
import Ledger
import Logging
import Synchronization

/// The downgrade brake as the service's jobs share it: it survives a restart, and a person can release it.
final class Brake: Sendable {
  /// Under which the ledger keeps its state.
  static let memo = "downgrade_brake"

  /// Guards the brake.
  private let state: Mutex<DowngradeBrake>
  private let ledger: any Ledger
  private let now: @Sendable () -> Date

  /// Takes up where the process before left off.
  static func restored(
    from ledger: any Ledger, share: Double, now: @escaping @Sendable () -> Date
  ) async throws(StartError) -> Brake {
    let text: String?
    do throws(LedgerError) { text = try await ledger.memo(memo) } catch {
      throw StartError(description: "The ledger cannot be read: \(error)")
    }
    var snapshot = DowngradeBrake.Snapshot()
    if let text {
      if let kept = try? JSONDecoder().decode(DowngradeBrake.Snapshot.self, from: Data(text.utf8)) {
        snapshot = kept
      } else {
        // It may have been engaged. To ask a person once too often is the smaller harm.
        snapshot.engagement = DowngradeBrake.Engagement(since: now(), lowered: 0, looked: 0, withheld: 0)
      }
    }
    return Brake(DowngradeBrake(share: share, restoring: snapshot, at: .now), ledger: ledger, now: now)
  }

  private init(_ brake: DowngradeBrake, ledger: any Ledger, now: @escaping @Sendable () -> Date) {
    state = Mutex(brake)
    self.ledger = ledger
    self.now = now
  }

  /// Why nobody is lowered; `nil` while verdicts pass.
  var engagement: DowngradeBrake.Engagement? { state.withLock { $0.engagement } }
  var isEngaged: Bool { engagement != nil }

  /// Lets verdicts pass that lower nobody, and those that lower somebody while they are not too many.
  func admission(of rules: EntitlementRules) -> Admission {
    { [self] before, after in
      guard rules.isLowering(before, after) else { return true }
      let date = now()
      return state.withLock { $0.mayLower(at: .now, date: date) }
    }
  }

  /// A user was looked at.
  func looked() { state.withLock { $0.looked(at: .now) } }

  /// Writes the state down. What is lost with a crash before it are counts of some seconds, never the engagement of which
  /// somebody was told.
  func keep(_ logger: Logger) async {
    let snapshot = state.withLock { $0.snapshot(at: .now) }
    guard let text = try? JSONEncoder().encode(snapshot) else { return }
    do throws(LedgerError) {
      try await ledger.keepMemo(Self.memo, String(decoding: text, as: UTF8.self))
    } catch {
      logger.warning("the state of the downgrade brake cannot be written", metadata: ["error": "\(error)"])
    }
  }

  /// Wakes somebody.
  func announce(_ logger: Logger) async {
    await keep(logger)
    guard let engagement else { return }
    logger.critical(
      "too many subscribers would be downgraded: nothing is re-validated until somebody releases the brake",
      metadata: ["looked_at": "\(engagement.looked)", "lowered": "\(engagement.lowered)"])
  }

  /// A person has looked into it and wants what comes to pass.
  func release(_ logger: Logger) async {
    state.withLock { $0.release(at: .now) }
    logger.notice("the downgrade brake is released for an hour")
    await keep(logger)
  }
}
