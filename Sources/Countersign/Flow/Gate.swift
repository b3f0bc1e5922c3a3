import Synchronization

/// Lets so many in at once. Whoever comes then is turned away, and does not wait.
final class Gate: Sendable {
  private let limit: Int
  /// Guards how many are inside.
  private let inside = Mutex(0)

  init(limit: Int) {
    self.limit = limit
  }

  /// - Returns: whether there was room; then `leave` has to follow.
  func enter() -> Bool {
    inside.withLock { inside in
      guard inside < limit else { return false }
      inside += 1
      return true
    }
  }

  func leave() { inside.withLock { $0 -= 1 } }
}
