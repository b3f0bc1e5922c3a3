import Profiles
import Resilience
import Synchronization
import Testing

/// While the store is down nobody waits for it.
@Suite struct GuardedProfileStoreTests {
  /// A store that answers what the test says, and counts.
  private final class Scripted: ProfileStore {
    let refusesOlder = true

    private struct State {
      var outcome = ProfileWriteOutcome.applied
      var updates = 0
      var checks = 0
    }

    private let state = Mutex(State())

    var updates: Int { state.withLock { $0.updates } }
    var checks: Int { state.withLock { $0.checks } }
    func answer(_ outcome: ProfileWriteOutcome) { state.withLock { $0.outcome = outcome } }

    func apply(_ update: ProfileUpdate, deadline: ContinuousClock.Instant) async -> ProfileWriteOutcome {
      state.withLock { state in
        state.updates += 1
        return state.outcome
      }
    }

    func check(deadline: ContinuousClock.Instant) async -> ProfileStoreCheck {
      state.withLock { $0.checks += 1 }
      return .ok
    }
  }

  private final class Instants: Sendable {
    private let state = Mutex(ContinuousClock.now)
    var now: ContinuousClock.Instant { state.withLock { $0 } }
    func advance(by duration: Duration) { state.withLock { $0 += duration } }
  }

  private static let trouble = ProfileStoreTrouble(code: "http_503", sentence: "away")
  private static let away = ProfileWriteOutcome.unavailable(trouble, retryAfter: nil)
  private static let changed = ProfileWriteOutcome.misconfigured(
    ProfileStoreTrouble(code: "changed_by_store", sentence: "a trigger"))

  private func guarded() -> (GuardedProfileStore, Scripted, CircuitBreaker, Instants) {
    let store = Scripted()
    let instants = Instants()
    let breaker = CircuitBreaker(now: { instants.now }, jitter: { $0 })
    return (GuardedProfileStore(store, breaker: breaker), store, breaker, instants)
  }

  private func apply(_ store: GuardedProfileStore) async -> ProfileWriteOutcome {
    await store.apply(sampleUpdate(), deadline: .now + .seconds(2))
  }

  @Test(arguments: [
    ProfileWriteOutcome.applied, .superseded(by: 9), .noSuchProfile, .impossibleUserID(trouble), .refused(trouble),
    .misconfigured(trouble),
    .unavailable(trouble, retryAfter: .seconds(3)),
  ])
  func `the store's outcome is passed on as it is`(outcome: ProfileWriteOutcome) async {
    let (guarded, store, _, _) = guarded()
    store.answer(outcome)
    #expect(await apply(guarded) == outcome)
    #expect(store.updates == 1)
  }

  @Test func `a store is left alone after five failures, and asked once when the pause is over`() async {
    let (guarded, store, breaker, instants) = guarded()
    store.answer(Self.away)
    for _ in 0..<5 { #expect(await apply(guarded) == Self.away) }
    #expect(breaker.state == .open)
    for _ in 0..<10 {
      let refused = await apply(guarded)
      #expect(refused.kind == .unavailable)
      #expect(refused.trouble?.code == GuardedProfileStore.refusal)
      #expect(refused.retryAfter == .seconds(1))
    }
    #expect(store.updates == 5)
    instants.advance(by: .seconds(1))
    #expect(await apply(guarded) == Self.away)
    #expect(await apply(guarded).trouble?.code == GuardedProfileStore.refusal)
    #expect(store.updates == 6)
    store.answer(.applied)
    instants.advance(by: .seconds(2))
    for _ in 0..<10 { #expect(await apply(guarded) == .applied) }
    #expect(breaker.state == .closed)
    #expect(store.updates == 16)
  }

  @Test func `a key that does not fit is a reason to leave it alone too`() async {
    let (guarded, store, breaker, _) = guarded()
    store.answer(.misconfigured(Self.trouble))
    for _ in 0..<5 { #expect(await apply(guarded).kind == .misconfigured) }
    #expect(breaker.state == .open)
  }

  @Test(arguments: [
    ProfileWriteOutcome.applied, .superseded(by: 9), .noSuchProfile, .impossibleUserID(trouble), .refused(trouble),
    changed, .misconfigured(ProfileStoreTrouble(code: "forbidden_by_store", sentence: "a policy")),
  ])
  func `a store that refuses or changes one update, or has no such row, is there`(outcome: ProfileWriteOutcome) async {
    let (guarded, store, breaker, _) = guarded()
    store.answer(outcome)
    for _ in 0..<50 { #expect(await apply(guarded) == outcome) }
    #expect(breaker.state == .closed)
    #expect(store.updates == 50)
  }

  @Test func `the time for which the store wants to be left alone is heeded`() async {
    let (guarded, store, breaker, instants) = guarded()
    store.answer(.unavailable(Self.trouble, retryAfter: .seconds(20)))
    for _ in 0..<5 { _ = await apply(guarded) }
    instants.advance(by: .seconds(19))
    #expect(breaker.state == .open)
    #expect(await apply(guarded).trouble?.code == GuardedProfileStore.refusal)
    instants.advance(by: .seconds(1))
    store.answer(.applied)
    #expect(await apply(guarded) == .applied)
  }

  @Test func `a check by a person is made even with the breaker open`() async {
    let (guarded, store, _, _) = guarded()
    store.answer(Self.away)
    for _ in 0..<5 { _ = await apply(guarded) }
    #expect(await guarded.check(deadline: .now + .seconds(2)) == .ok)
    #expect(store.checks == 1)
  }
}
