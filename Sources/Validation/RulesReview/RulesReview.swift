package import Entitlements
import FoundationEssentials
package import Ledger
package import Logging
import Synchronization

/// The progress of bringing recorded verdicts in line with the rules of this start. It survives a restart, and a person
/// can release what is withheld.
///
/// The ledger keeps the rules by which all users were last evaluated. A start with other rules begins a pass over all
/// users:
///
///     other rules ──▶ pass ──▶ settled, nothing withheld
///                      │ ▲
///                      ▼ │ released, or a recount
///                     settled, some withheld
///
/// A usual start finds its own rules, and reads nothing.
package final class RulesReview: Sendable {
  static let memo = "rules"
  /// The time after which a pass counts again what is withheld, in seconds: ten times as long as the last one took, as the
  /// cause may be gone and nobody has to wait for the number, within these bounds.
  private static let recount: ClosedRange<Double> = 60...86_400

  /// The state that survives a restart.
  struct Snapshot: Hashable, Codable, Sendable {
    /// The fingerprint of the rules.
    var rules: String
    /// Whether all users were evaluated.
    var isSettled = false
    /// The last user of the pass so far; `nil` before the first.
    var cursor: String?
    /// The users of this pass so far whose verdict is withheld, by the product that gives them more.
    var counting: [String: Int] = [:]
    /// The same for the previous pass.
    var withheld: [String: Int] = [:]
    /// Whether a person has released what these rules withhold.
    var isReleased = false
  }

  private struct State {
    var snapshot: Snapshot
    /// The number of the pass: results of an earlier one no longer count.
    var pass = 0
    /// The begin of the pass in this process.
    var beganAt: Date?
    /// The end of a pass in this process, and the pause until the next one in seconds.
    var settled: (at: Date, pause: Double)?

    mutating func begin() {
      pass += 1
      beganAt = nil
      snapshot.isSettled = false
      snapshot.cursor = nil
      snapshot.counting = [:]
    }

    /// - Returns: whether anything was withheld, or may be.
    mutating func release() -> Bool {
      guard !snapshot.isSettled || !snapshot.withheld.isEmpty else { return false }
      begin()
      snapshot.isReleased = true
      snapshot.withheld = [:]
      return true
    }
  }

  struct Place: Hashable, Sendable {
    fileprivate var pass: Int
    var after: UserID?
    var isReleased: Bool
  }

  private let state: Mutex<State>
  private let ledger: Ledger
  /// Whether the rules differ from those of the last finished pass.
  package let isChanged: Bool

  package static func restored(from ledger: Ledger, rules: EntitlementRules) async throws(LedgerError)
    -> RulesReview
  {
    let text = try await ledger.memo(memo)
    let kept = text.flatMap { try? JSONDecoder().decode(Snapshot.self, from: Data($0.utf8)) }
    let name = rules.fingerprint
    // To evaluate everybody once more does no harm.
    guard let kept, kept.rules == name else { return RulesReview(Snapshot(rules: name), ledger: ledger) }
    return RulesReview(kept, ledger: ledger)
  }

  private init(_ snapshot: Snapshot, ledger: Ledger) {
    state = Mutex(State(snapshot: snapshot))
    isChanged = !snapshot.isSettled
    self.ledger = ledger
  }

  /// The start of the fingerprint, short enough for a history.
  var name: String { state.withLock { String($0.snapshot.rules.prefix(8)) } }

  /// The number of users who keep what the rules would take, until a person releases it: by the previous pass, or by
  /// the present one if that has more.
  package var withheld: Int { state.withLock { max($0.snapshot.withheld.total, $0.snapshot.counting.total) } }
  var withheldProducts: [String: Int] { state.withLock { $0.snapshot.withheld } }

  /// The place of the pass that is under way or due; `nil` without one.
  func place(at now: Date) -> Place? {
    state.withLock { state -> Place? in
      if state.snapshot.isSettled {
        guard !state.snapshot.withheld.isEmpty else { return nil }
        if let settled = state.settled, 0..<settled.pause ~= now.timeIntervalSince(settled.at) { return nil }
        state.begin()
      }
      state.beganAt = state.beganAt ?? now
      return Place(
        pass: state.pass, after: state.snapshot.cursor.map { UserID($0) }, isReleased: state.snapshot.isReleased)
    }
  }

  /// Notes an evaluated page.
  ///
  /// - Parameters:
  ///   - user: its last user; `nil` at the end.
  ///   - withheld: the users of the page whose verdict is withheld, by product.
  /// - Returns: whether the pass is over.
  func passed(_ place: Place, to user: UserID?, withheld: [String: Int], at now: Date) -> Bool {
    state.withLock { state -> Bool in
      guard state.pass == place.pass else { return false }
      state.snapshot.counting.merge(withheld, uniquingKeysWith: +)
      if let user {
        state.snapshot.cursor = user.rawValue
        return false
      }
      state.snapshot.withheld = state.snapshot.counting
      state.snapshot.counting = [:]
      state.snapshot.cursor = nil
      state.snapshot.isSettled = true
      let length = now.timeIntervalSince(state.beganAt ?? now)
      state.settled = (now, min(max(10 * length, Self.recount.lowerBound), Self.recount.upperBound))
      return true
    }
  }

  /// Learns that a person has released at another replica what these rules withhold.
  func synchronize(_ logger: Logger) async {
    guard ledger.isShared else { return }
    let text: String?
    do throws(LedgerError) { text = try await ledger.memo(Self.memo) } catch { return }
    adopt(text, logger)
  }

  private func adopt(_ text: String?, _ logger: Logger) {
    guard ledger.isShared, let text, let kept = try? JSONDecoder().decode(Snapshot.self, from: Data(text.utf8)),
      kept.isReleased
    else { return }
    let isReleased = state.withLock { state -> Bool in
      guard kept.rules == state.snapshot.rules, !state.snapshot.isReleased else { return false }
      return state.release()
    }
    if isReleased { logger.notice("downgrades by the changed catalog or policies are released") }
  }

  /// Writes the state down, with a release at another replica. What a crash loses is evaluated again.
  func keep(_ logger: Logger) async {
    do throws(LedgerError) {
      try await ledger.changeMemo(Self.memo) { [self] text in
        adopt(text, logger)
        let snapshot = state.withLock { $0.snapshot }
        return (try? JSONEncoder().encode(snapshot)).map { String(decoding: $0, as: UTF8.self) } ?? text
      }
    } catch {
      logger.warning("the progress of the rules review cannot be written", metadata: ["error": "\(error)"])
    }
  }

  /// Releases what is withheld, on a person's decision; does nothing if nothing is.
  package func release(_ logger: Logger) async {
    guard state.withLock({ $0.release() }) else { return }
    logger.notice("downgrades by the changed catalog or policies are released")
    await keep(logger)
  }
}

extension [String: Int] {
  fileprivate var total: Int { values.reduce(0, +) }
}
