import AppStore
import DequeModule
import Entitlements
import Synchronization

/// Apple's recent answers (`policy.reuse`).
///
/// Apps post the same receipt at every launch, from every device, and again if an answer was slow. Each caller still
/// gets the answer for their own user: it is recorded for each, only Apple is not asked again.
///
/// The cache is bounded and in memory; nothing depends on an entry.
package final class RecentAnswers: Sendable {
  /// The most answers, and the most rows of one: a subscriber of some years.
  static let limit = 1_024
  static let rowLimit = 200

  private struct Entry {
    var answer: AppStoreAnswer
    var at: ContinuousClock.Instant
  }

  private struct State {
    var entries: [PurchaseReference.Identity: Entry] = [:]
    /// The entries in order of arrival; a replaced one is here twice.
    var order: Deque<(PurchaseReference.Identity, ContinuousClock.Instant)> = []
  }

  private let lifetime: Duration
  private let clock: @Sendable () -> ContinuousClock.Instant
  private let state = Mutex(State())

  /// - Parameter lifetime: how long an answer is kept; zero: not at all.
  package init(lifetime: Duration, clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.lifetime = lifetime
    self.clock = clock
  }

  subscript(reference: PurchaseReference.Identity) -> AppStoreAnswer? {
    let now = clock()
    return state.withLock { state in
      guard let entry = state.entries[reference], entry.at.duration(to: now) < lifetime else { return nil }
      return entry.answer
    }
  }

  func keep(_ answer: AppStoreAnswer, of reference: PurchaseReference.Identity) {
    guard lifetime > .zero, answer.history.purchases.count <= Self.rowLimit else { return }
    let now = clock()
    state.withLock { state in
      state.entries[reference] = Entry(answer: answer, at: now)
      state.order.append((reference, now))
      while let (reference, at) = state.order.first {
        guard at.duration(to: now) >= lifetime || state.order.count > Self.limit else { break }
        if state.entries[reference]?.at == at { state.entries[reference] = nil }
        state.order.removeFirst()
      }
    }
  }

  var count: Int { state.withLock { $0.entries.count } }
}
