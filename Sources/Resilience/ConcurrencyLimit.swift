import Synchronization

/// A limit on concurrent work: a total, and one at a time for each key. Work above it is refused and does not wait.
package final class ConcurrencyLimit<Key: Hashable & Sendable>: Sendable {
  private let limit: Int
  private let inside = Mutex<Set<Key>>([])

  package init(limit: Int) {
    self.limit = limit
  }

  /// - Returns: whether there was room; then `leave` has to follow.
  package func enter(_ key: Key) -> Bool {
    inside.withLock { inside in inside.count < limit && inside.insert(key).inserted }
  }

  package func leave(_ key: Key) { inside.withLock { _ = $0.remove(key) } }
}
