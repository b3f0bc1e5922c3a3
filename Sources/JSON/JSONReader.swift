import Resilience

/// Parses JSON, a bounded number of documents at a time.
///
/// A tree takes many times the memory of its text, so memory is bounded by the number of trees at a time, not by the
/// number of calls in flight.
package struct JSONReader: Sendable {
  /// The instance shared by every decoder of this process.
  package static let shared = JSONReader(simultaneously: 2)

  /// Bounds the number of trees.
  let semaphore: AsyncSemaphore
  private let limits: JSONLimits

  package init(simultaneously count: Int, limits: JSONLimits = JSONLimits()) {
    semaphore = AsyncSemaphore(permits: count)
    self.limits = limits
  }

  /// Why a text could not be read.
  package enum Failure: Error, Hashable, Sendable {
    case json(JSONError)
    /// The task was cancelled before the bytes were parsed.
    case cancelled
  }

  /// Reads a text and lends the document for the duration of `decode`; it is freed before this returns.
  ///
  /// A small plain text is read at once: its index never lives across an await, so there are no more of them than
  /// threads. Any other text waits for its turn.
  package func read<Decoded: Sendable>(
    _ bytes: [UInt8], root: JSONRoot = .object, decode: (JSONValue) throws(JSONError) -> Decoded
  ) async throws(Failure) -> Decoded {
    guard let document = JSONDocument(plain: bytes, root: root, limits: Size.small.limits) else {
      return try await inTurn { () throws(JSONError) in
        try decode(JSONDocument(bytes, root: root, limits: limits).root)
      }
    }
    // A cancelled task gets no result on this path either.
    guard !Task.isCancelled else { throw .cancelled }
    do { return try decode(document.root) } catch { throw .json(error) }
  }

  /// Runs on Swift's global executor, not on the caller's: a text of a few megabytes takes a tenth of a second and
  /// more, which would block an event loop. The turn begins and ends there too, so that a busy loop does not prolong
  /// it.
  private func inTurn<Decoded: Sendable>(_ work: () throws(JSONError) -> Decoded) async throws(Failure) -> Decoded {
    try await withTaskExecutorPreference(globalConcurrentExecutor) { () async throws(Failure) -> Decoded in
      guard await semaphore.acquire() else { throw .cancelled }
      defer { semaphore.release() }
      do throws(JSONError) { return try work() } catch { throw .json(error) }
    }
  }
}
