import Synchronization

/// Counts who is inside, the most that ever were, and all who ever came.
package final class Crowd: Sendable {
  private let state = Mutex((now: 0, most: 0, all: 0))

  package var now: Int { state.withLock { $0.now } }
  package var most: Int { state.withLock { $0.most } }
  package var all: Int { state.withLock { $0.all } }

  package init() {}

  package func arrive() {
    state.withLock { state in
      state.now += 1
      state.most = max(state.most, state.now)
      state.all += 1
    }
  }

  package func depart() { state.withLock { $0.now -= 1 } }
}
