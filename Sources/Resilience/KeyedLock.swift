import Synchronization

/// A lock for each key; waiting tasks get it in order of arrival, up to a deadline.
package final class KeyedLock<Key: Hashable & Sendable>: Sendable {
  private struct Waiter {
    var number: UInt64
    var resume: @Sendable (Bool) -> Void
  }

  private struct State {
    /// The held keys, each with its waiting callers.
    var waiting: [Key: [Waiter]] = [:]
    var numbers: UInt64 = 0
  }

  private let state = Mutex(State())

  package init() {}

  /// Waits for the turn.
  /// - Returns: whether the turn came before the deadline and before a cancellation; then it has to be given back.
  package func lock(_ key: Key, until deadline: ContinuousClock.Instant) async -> Bool {
    let (isFree, number) = state.withLock { state in
      state.numbers += 1
      guard state.waiting[key] == nil else { return (false, state.numbers) }
      state.waiting[key] = []
      return (true, state.numbers)
    }
    if isFree { return true }
    return await withTaskGroup(of: Bool?.self) { group in
      group.addTask { await self.wait(for: key, number, until: deadline) }
      group.addTask {
        try? await Task.sleep(until: deadline, clock: .continuous)
        self.leave(key, number)
        return nil
      }
      for await outcome in group {
        guard let outcome else { continue }
        group.cancelAll()
        return outcome
      }
      return false
    }
  }

  package func unlock(_ key: Key) {
    let next = state.withLock { state -> Waiter? in
      guard var waiting = state.waiting[key] else { return nil }
      guard !waiting.isEmpty else {
        state.waiting[key] = nil
        return nil
      }
      let next = waiting.removeFirst()
      state.waiting[key] = waiting
      return next
    }
    next?.resume(true)
  }

  package func isLocked(_ key: Key) -> Bool { state.withLock { $0.waiting[key] != nil } }

  package func waiting(for key: Key) -> Int { state.withLock { $0.waiting[key]?.count ?? 0 } }

  private func wait(for key: Key, _ number: UInt64, until deadline: ContinuousClock.Instant) async -> Bool {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let outcome = state.withLock { state -> Bool? in
          // Asked under the lock: a cancellation or an end that comes later finds the waiter.
          if Task.isCancelled || ContinuousClock.now >= deadline { return false }
          guard let waiting = state.waiting[key] else {
            state.waiting[key] = []
            return true
          }
          state.waiting[key] = waiting + [Waiter(number: number) { continuation.resume(returning: $0) }]
          return nil
        }
        if let outcome { continuation.resume(returning: outcome) }
      }
    } onCancel: {
      leave(key, number)
    }
  }

  private func leave(_ key: Key, _ number: UInt64) {
    let waiter = state.withLock { state -> Waiter? in
      guard let index = state.waiting[key]?.firstIndex(where: { $0.number == number }) else { return nil }
      return state.waiting[key]?.remove(at: index)
    }
    waiter?.resume(false)
  }
}
