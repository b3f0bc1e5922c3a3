package import Resilience

/// A profile store behind a circuit breaker: no caller waits while the store is down.
package struct GuardedProfileStore: ProfileStore {
  /// The code of an update that was not sent because the store is down.
  package static let refusal = "circuit_open"

  private let store: any ProfileStore
  private let breaker: CircuitBreaker

  package init(_ store: any ProfileStore, breaker: CircuitBreaker) {
    self.store = store
    self.breaker = breaker
  }

  package var refusesOlder: Bool { store.refusesOlder }

  package func apply(_ update: ProfileUpdate, deadline: ContinuousClock.Instant) async -> ProfileWriteOutcome {
    switch breaker.admit() {
    case .refused(let retryIn):
      return .unavailable(
        ProfileStoreTrouble(
          code: Self.refusal, sentence: "The profile store is down; it is tried again in a moment"),
        retryAfter: retryIn)
    case .admitted(let permit):
      let outcome = await store.apply(update, deadline: deadline)
      switch outcome {
      // A refusal concerns this update only; the store is reachable. So does a row that was written and changed.
      case .applied, .superseded, .noSuchProfile, .impossibleUserID, .refused: permit.report(.success)
      case .misconfigured(let trouble): permit.report(trouble.mayBeOneRows ? .success : .failure())
      case .unavailable(_, let retryAfter): permit.report(.failure(retryAfter: retryAfter))
      }
      return outcome
    }
  }

  package func check(deadline: ContinuousClock.Instant) async -> ProfileStoreCheck {
    await store.check(deadline: deadline)
  }
}
