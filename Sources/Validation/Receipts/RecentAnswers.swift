import DequeModule
import Entitlements
import Synchronization

/// Apple's answers of the last moments (`policy.reuse`).
///
/// Apps post the same receipt at every launch, from every device, and again when an answer was slow. Each caller still gets
/// the answer for their own user: the answer is recorded anew for whoever asks, only Apple is not asked again.
///
/// The cache is a convenience, in memory and bounded: nothing depends on an entry.
package final class RecentAnswers: Sendable {
  /// Answers kept at once, and the most rows of one: a subscriber of some years.
  package static let limit = 1_024
  static let rowLimit = 200

  private struct Entry {
    var answer: AppleAnswer
    var at: ContinuousClock.Instant
  }

  private struct State {
    var entries: [PurchaseReference.Identity: Entry] = [:]
    /// In order of arrival; one that was replaced is here twice.
    var order: Deque<(PurchaseReference.Identity, ContinuousClock.Instant)> = []
  }

  private let lifetime: Duration
  private let clock: @Sendable () -> ContinuousClock.Instant
  /// Guards the answers.
  private let state = Mutex(State())

  /// - Parameter lifetime: zero keeps nothing.
  package init(lifetime: Duration, clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.lifetime = lifetime
    self.clock = clock
  }

  package subscript(reference: PurchaseReference.Identity) -> AppleAnswer? {
    let now = clock()
    return state.withLock { state in
      guard let entry = state.entries[reference], entry.at.duration(to: now) < lifetime else { return nil }
      return entry.answer
    }
  }

  func keep(_ answer: AppleAnswer, of reference: PurchaseReference.Identity) {
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

  /// How many are kept now.
  var count: Int { state.withLock { $0.entries.count } }
}
