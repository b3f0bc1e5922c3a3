import UnixSignals

/// Runs a command's work until it ends, or until Ctrl-C or SIGTERM cancels it.
///
/// The signals are caught before the work begins, so that none finds the command half way.
/// - Returns: the work's own result, also of one that was cancelled, and the signal that came.
func untilInterrupted<Result: Sendable>(
  _ work: sending @escaping () async -> Result
) async -> (result: Result, signal: UnixSignal?) {
  let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
  let task = Task { await work() }
  return await withTaskGroup(of: UnixSignal?.self) { group in
    group.addTask {
      for await signal in signals {
        task.cancel()
        return signal
      }
      return nil
    }
    let result = await task.value
    group.cancelAll()
    return (result, await group.next() ?? nil)
  }
}
