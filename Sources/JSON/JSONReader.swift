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
  ///
  /// - Parameter largeIntegers: the reading of an integer beyond 64 bits.
  package func read<Decoded: Sendable>(
    _ bytes: [UInt8], root: JSONRoot = .object, largeIntegers: LargeIntegers = .refused,
    decode: (JSONValue) throws(JSONError) -> Decoded
  ) async throws(Failure) -> Decoded {
    guard let document = JSONDocument(plain: bytes, root: root, limits: Size.small.limits) else {
      return try await inTurn { () throws(JSONError) in
        try decode(JSONDocument(bytes, root: root, largeIntegers, limits: limits).root)
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

extension JSONReader {
  /// The size limit of a text that is parsed without waiting.
  package enum Size: Hashable, Sendable {
    /// 256 KiB: for the header or the payload of signed data, which are a few KiB. The largest tree takes about 2 MB,
    /// so several at the same time are harmless.
    case small
    /// 512 KiB of text with the same limit of the tree: for posts without a credential.
    case posted
    /// The limits of `read`. For commands, which parse one text in their life.
    case whole

    var limits: JSONLimits {
      switch self {
      case .small: JSONLimits(bytes: 256 * 1024, containers: 2_000, values: 10_000, depth: 16)
      case .posted: JSONLimits(bytes: 512 * 1024, containers: 2_000, values: 10_000, depth: 16)
      case .whole: JSONLimits()
      }
    }
  }

  /// The reading of an integer beyond 64 bits.
  package enum LargeIntegers: Hashable, Sendable {
    /// It spoils the whole text.
    case refused
    /// The text of its digits. A member that is not asked for spoils nothing, and an ID is exact.
    case text
  }

  /// Parses a text without waiting for a turn, and lends the document for the duration of `decode`.
  package static func readAtOnce<Decoded>(
    _ bytes: [UInt8], root: JSONRoot = .object, size: Size = .small, largeIntegers: LargeIntegers = .refused,
    decode: (JSONValue) throws(JSONError) -> Decoded
  ) throws(JSONError) -> Decoded {
    try decode(JSONDocument(bytes, root: root, largeIntegers, limits: size.limits).root)
  }
}
