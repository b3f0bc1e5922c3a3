package import CoreMetrics
package import Profiles

/// A profile store whose writes are counted and timed.
package struct MeteredProfileStore: ProfileStore {
  private enum Outcome: String, CaseIterable {
    case applied
    case superseded
    case missing
    case refused
    case misconfigured
    case unavailable
    /// The breaker was open.
    case notSent = "not_sent"

    init(_ outcome: ProfileWriteOutcome) {
      self =
        switch outcome {
        case .applied: .applied
        case .superseded: .superseded
        case .noSuchProfile, .impossibleUserID: .missing
        case .refused: .refused
        case .misconfigured: .misconfigured
        case .unavailable(let trouble, _): trouble.code == GuardedProfileStore.refusal ? .notSent : .unavailable
        }
    }
  }

  private let store: any ProfileStore
  private let outcomes: Handles<Outcome, Counter>
  private let duration: Timer

  package init(_ store: any ProfileStore, _ factory: any MetricsFactory) {
    self.store = store
    outcomes = Handles { Counter(.profileWrites, [("outcome", $0.rawValue)], in: factory) }
    duration = Timer(.profileWriteDuration, in: factory)
  }

  package var refusesOlder: Bool { store.refusesOlder }

  package func apply(_ update: ProfileUpdate, deadline: ContinuousClock.Instant) async -> ProfileWriteOutcome {
    let start = ContinuousClock.now
    let result = await store.apply(update, deadline: deadline)
    let outcome = Outcome(result)
    outcomes[outcome].increment()
    if outcome != .notSent { duration.record(start.duration(to: .now)) }
    return result
  }

  package func check(deadline: ContinuousClock.Instant) async -> ProfileStoreCheck {
    await store.check(deadline: deadline)
  }
}
