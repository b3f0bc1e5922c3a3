import Synchronization

/// Counts those that run now, the most that ever ran at a time, and all that ever began.
package final class ConcurrencyCounter: Sendable {
  private let state = Mutex((running: 0, peak: 0, total: 0))

  package var running: Int { state.withLock { $0.running } }
  package var peak: Int { state.withLock { $0.peak } }
  package var total: Int { state.withLock { $0.total } }

  package init() {}

  package func begin() {
    state.withLock { state in
      state.running += 1
      state.peak = max(state.peak, state.running)
      state.total += 1
    }
  }

  package func end() { state.withLock { $0.running -= 1 } }
}
