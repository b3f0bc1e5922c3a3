import Synchronization

/// A semaphore for tasks: a fixed number of permits; the others wait in order of arrival.
package final class AsyncSemaphore: Sendable {
  private struct Waiter {
    let ticket: UInt64
    let continuation: CheckedContinuation<Bool, Never>
  }

  private struct State {
    var free: Int
    var nextTicket: UInt64 = 0
    var waiters: [Waiter] = []

    /// Takes a permit; `nil` where one has to be waited for, and `false` for a task that is cancelled.
    mutating func take() -> Bool? {
      if Task.isCancelled { return false }
      guard free > 0 else { return nil }
      free -= 1
      return true
    }
  }

  private let state: Mutex<State>

  package init(permits: Int) { state = Mutex(State(free: permits)) }

  /// Waits for a permit.
  ///
  /// - Returns: whether it was granted; `false` when the task was cancelled while waiting, and then there is nothing to
  ///   give back.
  package func acquire() async -> Bool {
    let (verdict, ticket) = state.withLock { state in
      state.nextTicket += 1
      return (state.take(), state.nextTicket)
    }
    if let verdict { return verdict }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        // Asked under the lock: a cancellation that comes later finds the waiter, one that came earlier is seen here.
        let verdict = state.withLock { state in
          let verdict = state.take()
          if verdict == nil { state.waiters.append(Waiter(ticket: ticket, continuation: continuation)) }
          return verdict
        }
        if let verdict { continuation.resume(returning: verdict) }
      }
    } onCancel: {
      let cancelled = state.withLock { state in
        state.waiters.firstIndex { $0.ticket == ticket }.map { state.waiters.remove(at: $0) }
      }
      cancelled?.continuation.resume(returning: false)
    }
  }

  /// Gives a permit back, to the one who has waited longest.
  package func release() {
    let next: Waiter? = state.withLock { state in
      if state.waiters.isEmpty {
        state.free += 1
        return nil
      }
      return state.waiters.removeFirst()
    }
    next?.continuation.resume(returning: true)
  }

  package var waiting: Int { state.withLock { $0.waiters.count } }

  package var free: Int { state.withLock { $0.free } }
}
