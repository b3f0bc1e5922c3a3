package import Entitlements
import FoundationEssentials
package import Ledger
package import Logging
import Synchronization

/// How far the recorded verdicts agree with the rules of this start; it survives a restart, and a person can release what is
/// withheld.
///
/// The ledger keeps the rules by which everybody was judged last. A start with others begins a pass over all users:
///
///     other rules ──▶ pass ──▶ settled, nothing withheld
///                      │ ▲
///                      ▼ │ released, or a day later
///                     settled, some withheld
///
/// A usual start finds its own rules, and nothing is read.
package final class RulesReview: Sendable {
  /// Under which the ledger keeps it.
  static let memo = "rules"
  /// After which a pass looks whether what it withheld still is.
  static let recount: Duration = .seconds(86_400)

  /// The state that survives a restart.
  struct Snapshot: Hashable, Codable, Sendable {
    /// The rules that all of this is about.
    var rules: String
    /// Everybody was judged by them.
    var isSettled = false
    /// The last user of the pass that was judged; `nil` before the first.
    var cursor: String?
    /// Users so far whom the pass withholds a verdict from, by the product that gives them more.
    var counting: [String: Int] = [:]
    /// The same of the pass before.
    var withheld: [String: Int] = [:]
    /// A person wants to come to pass what these rules say.
    var isReleased = false
  }

  private struct State {
    var snapshot: Snapshot
    /// Grows with each pass that begins: what an earlier one found counts no more.
    var pass = 0
    /// When a pass ended in this process.
    var settledAt: Date?

    mutating func begin() {
      pass += 1
      snapshot.isSettled = false
      snapshot.cursor = nil
      snapshot.counting = [:]
    }
  }

  /// Where a pass goes on.
  struct Place: Hashable, Sendable {
    fileprivate var pass: Int
    var after: UserID?
    var isReleased: Bool
  }

  /// Guards how far it is.
  private let state: Mutex<State>
  private let ledger: any Ledger
  /// The rules are not those of the last pass that ended.
  package let isChanged: Bool

  /// Takes up where the process before left off.
  package static func restored(from ledger: any Ledger, rules: EntitlementRules) async throws(LedgerError)
    -> RulesReview
  {
    let text = try await ledger.memo(memo)
    let kept = text.flatMap { try? JSONDecoder().decode(Snapshot.self, from: Data($0.utf8)) }
    let name = rules.fingerprint
    // To judge everybody once more does no harm.
    guard let kept, kept.rules == name else { return RulesReview(Snapshot(rules: name), ledger: ledger) }
    return RulesReview(kept, ledger: ledger)
  }

  private init(_ snapshot: Snapshot, ledger: any Ledger) {
    state = Mutex(State(snapshot: snapshot))
    isChanged = !snapshot.isSettled
    self.ledger = ledger
  }

  /// The rules' name, short enough for a history.
  var name: String { state.withLock { String($0.snapshot.rules.prefix(8)) } }

  /// Users from whom the rules would take something, and who keep it until somebody releases it: as the last pass counted
  /// them, or the present one if that has more.
  package var withheld: Int { state.withLock { max($0.snapshot.withheld.total, $0.snapshot.counting.total) } }
  /// The same by product.
  var withheldProducts: [String: Int] { state.withLock { $0.snapshot.withheld } }

  /// Where the pass goes on that is under way or due; `nil` where there is none.
  func place(at now: Date) -> Place? {
    state.withLock { state -> Place? in
      if state.snapshot.isSettled {
        guard !state.snapshot.withheld.isEmpty else { return nil }
        if let settledAt = state.settledAt, now < settledAt.advanced(by: Self.recount), now >= settledAt { return nil }
        state.begin()
      }
      return Place(
        pass: state.pass, after: state.snapshot.cursor.map { UserID($0) }, isReleased: state.snapshot.isReleased)
    }
  }

  /// A page was judged.
  /// - Parameters:
  ///   - user: the last one of it; `nil` at the end.
  ///   - withheld: users of the page, by product.
  /// - Returns: whether the pass is over with it.
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
      state.settledAt = now
      return true
    }
  }

  /// Writes the state down. What is lost with a crash before it is judged once more.
  func keep(_ logger: Logger) async {
    let snapshot = state.withLock { $0.snapshot }
    guard let text = try? JSONEncoder().encode(snapshot) else { return }
    do throws(LedgerError) {
      try await ledger.keepMemo(Self.memo, String(decoding: text, as: UTF8.self))
    } catch {
      logger.warning("the progress of the rules review cannot be written", metadata: ["error": "\(error)"])
    }
  }

  /// A person has looked into it and wants what the rules say to come to pass; nothing, where nothing is withheld.
  package func release(_ logger: Logger) async {
    let isReleased = state.withLock { state -> Bool in
      guard !state.snapshot.isSettled || !state.snapshot.withheld.isEmpty else { return false }
      state.begin()
      state.snapshot.isReleased = true
      state.snapshot.withheld = [:]
      return true
    }
    guard isReleased else { return }
    logger.notice("downgrades by the changed catalog or policies are released")
    await keep(logger)
  }
}

extension [String: Int] {
  fileprivate var total: Int { values.reduce(0, +) }
}
