import Foundation
import SeededRandom
import Synchronization
import Testing

@Suite struct ComputingTests {
  private final class State: Sendable {
    let computing = Atomic(0)
    let isOver = Atomic(false)
  }

  /// Computes until others have computed as well, or at most for a minute.
  private static func compute(until isOver: () -> Bool) -> Bool {
    let end = ContinuousClock.now + .seconds(60)
    while !isOver() { if ContinuousClock.now > end { return false } }
    return true
  }

  @Test func `tests that compute leave the threads of tasks to others, however many they are`() async throws {
    let count = ProcessInfo.processInfo.activeProcessorCount + 2
    let state = State()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<count {
        group.addTask {
          try await Computing.onOwnThread {
            state.computing.add(1, ordering: .relaxed)
            #expect(Self.compute { state.isOver.load(ordering: .relaxed) })
          }
        }
      }
      // All compute before a plain task comes, which needs one of the others' threads.
      try await Computing.onOwnThread { #expect(Self.compute { state.computing.load(ordering: .relaxed) == count }) }
      group.addTask { state.isOver.store(true, ordering: .relaxed) }
      try await group.waitForAll()
    }
  }
}
