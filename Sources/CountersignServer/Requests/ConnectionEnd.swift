import Synchronization

/// The end of a connection that is asked to close, for a request that waits until something happens.
package final class ConnectionEnd: Sendable {
  /// Guards whether the end is near, and the wait of the request.
  private let state = Mutex<(isNear: Bool, wait: Task<Void, Never>?)>((false, nil))

  /// Whether the connection closes once the present request is answered.
  var isNear: Bool { state.withLock { $0.isNear } }

  /// Runs what only waits, and cancels it when the end is near.
  func cancelling(_ work: @escaping @Sendable () async -> Void) async {
    let wait = Task { await work() }
    let isNear = state.withLock { state in
      state.wait = wait
      return state.isNear
    }
    if isNear { wait.cancel() }
    await withTaskCancellationHandler {
      await wait.value
    } onCancel: {
      wait.cancel()
    }
    state.withLock { $0.wait = nil }
  }

  func come() {
    state.withLock { state in
      state.isNear = true
      return state.wait
    }?.cancel()
  }
}
