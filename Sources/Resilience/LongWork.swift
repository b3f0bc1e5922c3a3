/// Work that grows with the size of the input.
///
/// Requests are handled on the threads of event loops, where every other connection waits meanwhile. Large input is
/// decoded on Swift's own threads. Work on the decoded parts stays on the event loop: it takes a tenth of the time.
package enum LongWork {
  /// The size up to which input is decoded in place: a few milliseconds at most, for any content.
  package static let limit = 64 * 1024

  package static func run<Value, Failure>(
    bytes: Int, _ work: () async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    guard bytes > limit else { return try await work() }
    return try await withTaskExecutorPreference(globalConcurrentExecutor, operation: work)
  }
}
