internal import Synchronization

/// Wakes those who wait for the next event.
///
///     let rings = bell.rings
///     look for events; where there are none: await bell.wait(after: rings)
///
/// An event that is committed between the look and the wait is not missed: the number of rings has grown.
package final class ChangeBell: Sendable {
  private struct State {
    var rings: UInt64 = 0
    var newestWaiter: UInt64 = 0
    var waiting: [UInt64: CheckedContinuation<Void, Never>] = [:]
  }

  /// Guards the number of rings and those who wait.
  private let state = Mutex(State())

  /// The number of rings so far.
  package var rings: UInt64 { state.withLock { $0.rings } }

  func ring() {
    let waiting = state.withLock { state in
      state.rings += 1
      defer { state.waiting = [:] }
      return state.waiting
    }
    for waiter in waiting.values { waiter.resume() }
  }

  /// Waits until it has rung more often than that, or until the task is cancelled.
  package func wait(after rings: UInt64) async {
    let id = state.withLock { state in
      state.newestWaiter += 1
      return state.newestWaiter
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          guard state.rings == rings, !Task.isCancelled else { return true }
          state.waiting[id] = continuation
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
    }
  }

  /// The same, for a while at most.
  package func wait(after rings: UInt64, atMost pause: Duration) async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.wait(after: rings) }
      group.addTask { try? await Task.sleep(for: pause) }
      await group.next()
      group.cancelAll()
    }
  }
}
