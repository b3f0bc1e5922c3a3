/// Work that grows with what somebody sent.
///
/// Requests are handled on the threads of event loops, where every other connection waits meanwhile. What is large is
/// taken apart on Swift's own threads. What is made of its parts stays where it is: that takes a tenth of the time.
package enum LongWork {
  /// Bytes that are taken apart wherever they are: no more than a few milliseconds, whatever they say.
  package static let limit = 64 * 1024

  package static func run<Value, Failure>(
    bytes: Int, _ work: () async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    guard bytes > limit else { return try await work() }
    return try await withTaskExecutorPreference(globalConcurrentExecutor, operation: work)
  }
}
