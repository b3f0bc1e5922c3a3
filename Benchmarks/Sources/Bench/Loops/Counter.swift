import Synchronization

/// Numbers from 0, each given out once.
final class Counter: Sendable {
  private let next = Atomic(0)

  func take() -> Int { next.add(1, ordering: .relaxed).oldValue }
}
