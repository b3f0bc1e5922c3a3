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
  }

  /// Guards the free permits and the waiters.
  private let state: Mutex<State>

  package init(permits: Int) { state = Mutex(State(free: permits)) }

  /// Waits for a permit.
  ///
  /// - Returns: whether it was granted; `false` when the task was cancelled while waiting, and then there is nothing to
  ///   give back.
  package func acquire() async -> Bool {
    let ticket = state.withLock { state in
      state.nextTicket += 1
      return state.nextTicket
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let verdict: Bool? = state.withLock { state in
          // Asked under the lock: a cancellation that comes later finds the waiter, one that came earlier is seen here.
          if Task.isCancelled { return false }
          if state.free > 0 {
            state.free -= 1
            return true
          }
          state.waiters.append(Waiter(ticket: ticket, continuation: continuation))
          return nil
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

  /// The number of tasks that wait now.
  package var waiting: Int { state.withLock { $0.waiters.count } }

  /// The number of free permits.
  package var free: Int { state.withLock { $0.free } }
}
