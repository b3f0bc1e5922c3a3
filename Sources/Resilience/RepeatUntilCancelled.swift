/// A job that repeats with a pause after each turn until its task is cancelled. The caller decides what cancels it
/// (`cancelWhenGracefulShutdown`).
///
///     await cancelWhenGracefulShutdown {
///       await repeatUntilCancelled { await sweep() ? nil : pause }
///     }
///
/// - Parameters:
///   - sleep: throws when the task is cancelled, which ends the job.
///   - body: returns the pause that follows; `nil`: at once again.
package func repeatUntilCancelled(
  sleep: (Duration) async throws -> Void = { try await Task.sleep(for: $0) }, _ body: () async -> Duration?
) async {
  while !Task.isCancelled {
    guard let pause = await body() else { continue }
    do { try await sleep(pause) } catch { return }
  }
}
