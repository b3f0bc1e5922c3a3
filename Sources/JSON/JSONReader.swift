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

  package enum Failure: Error, Hashable, Sendable {
    case json(JSONError)
    /// The task was cancelled before the bytes were parsed.
    case cancelled
  }

  /// Parses bytes and lends the document for the duration of `decode`; the tree is freed before this returns.
  package func read<Decoded: Sendable>(
    _ bytes: [UInt8], root: JSONRoot = .object, decode: (JSONValue) throws(JSONError) -> Decoded
  ) async throws(Failure) -> Decoded {
    try await inTurn { () throws(JSONError) in
      try decode(JSONDocument(bytes, root: root, limits: limits).root)
    }
  }

  /// As `read`, for an object of which only some members are read: the others are skipped, see `JSONCondenser`.
  ///
  /// The rest is usually small, and is then parsed without waiting for a turn.
  package func read<Decoded: Sendable>(
    _ bytes: [UInt8], selecting selection: JSONSelection, decode: (JSONValue) throws(JSONError) -> Decoded
  ) async throws(Failure) -> Decoded {
    // A longer text waits first: its condensed copy needs memory too.
    guard bytes.count <= AtOnce.text else {
      return try await inTurn { () throws(JSONError) in
        try Self.read(bytes, selecting: selection, limits: limits, decode: decode)
      }
    }
    let condensed = bytes.withUnsafeBytes { JSONCondenser.condense($0, to: selection, limits: limits) }
    guard let condensed else { return try await read(bytes, decode: decode) }
    guard AtOnce.takes(condensed) else {
      return try await inTurn { () throws(JSONError) in
        try decode(JSONDocument(condensed, selection: selection).root)
      }
    }
    // A cancelled task gets no result on this path either.
    guard !Task.isCancelled else { throw .cancelled }
    do {
      return try decode(JSONDocument(condensed, selection: selection).root)
    } catch {
      throw .json(error)
    }
  }

  /// Parses the selected part of a text, or all of it in any doubt.
  package static func read<Decoded>(
    _ bytes: [UInt8], selecting selection: JSONSelection, limits: JSONLimits = JSONLimits(),
    decode: (JSONValue) throws(JSONError) -> Decoded
  ) throws(JSONError) -> Decoded {
    let condensed = bytes.withUnsafeBytes { JSONCondenser.condense($0, to: selection, limits: limits) }
    guard let condensed else { return try decode(JSONDocument(bytes, limits: limits).root) }
    return try decode(JSONDocument(condensed, selection: selection).root)
  }

  /// Runs on Swift's global executor, whatever the caller's: a text of a few megabytes takes a tenth of a second and
  /// more, which would block an event loop. The turn begins and ends there too, so that a busy loop does not prolong
  /// it.
  private func inTurn<Decoded: Sendable>(_ work: () throws(JSONError) -> Decoded) async throws(Failure) -> Decoded {
    try await withTaskExecutorPreference(globalConcurrentExecutor) { () async throws(Failure) -> Decoded in
      guard await semaphore.acquire() else { throw .cancelled }
      defer { semaphore.release() }
      do throws(JSONError) { return try work() } catch { throw .json(error) }
    }
  }

  /// The limits for parsing without waiting. Such a tree never lives across an await, so there are no more of them than
  /// threads, and the largest takes about 2 MB.
  private enum AtOnce {
    static let text = 256 * 1024
    static let bytes = 64 * 1024
    static let containers = 2_000
    static let values = 10_000

    static func takes(_ condensed: JSONCondenser.Condensed) -> Bool {
      condensed.bytes.count <= bytes && condensed.containers <= containers && condensed.values <= values
    }
  }
}
