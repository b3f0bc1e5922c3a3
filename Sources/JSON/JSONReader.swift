import Resilience

/// Takes JSON apart, a bounded number of documents at a time.
///
/// A tree takes many times the memory of its text, so the number of trees that exist at once is what bounds the memory;
/// the number of calls in flight does not.
package struct JSONReader: Sendable {
  /// The one that every decoder of this process shares.
  package static let shared = JSONReader(simultaneously: 2)

  /// Gives out the turns.
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

  /// Parses bytes and lends the document for the time of `decode`; the tree is gone when this returns.
  package func read<Decoded: Sendable>(
    _ bytes: [UInt8], root: JSONRoot = .object, decode: (JSONValue) throws(JSONError) -> Decoded
  ) async throws(Failure) -> Decoded {
    try await inTurn { () throws(JSONError) in
      try decode(JSONDocument(bytes, root: root, limits: limits).root)
    }
  }

  /// The same for an object of which only some members are looked at: the others are stepped over, see `JSONCondenser`.
  ///
  /// What is left is small as a rule, and then nobody waits for a turn.
  package func read<Decoded: Sendable>(
    _ bytes: [UInt8], selecting selection: JSONSelection, decode: (JSONValue) throws(JSONError) -> Decoded
  ) async throws(Failure) -> Decoded {
    // A longer text waits first: what is kept of it needs memory too.
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
    // Whoever is cancelled gets nothing here either.
    guard !Task.isCancelled else { throw .cancelled }
    do {
      return try decode(JSONDocument(condensed, selection: selection).root)
    } catch {
      throw .json(error)
    }
  }

  /// Parses what a selection leaves of a text, or all of it where there is any doubt.
  package static func read<Decoded>(
    _ bytes: [UInt8], selecting selection: JSONSelection, limits: JSONLimits = JSONLimits(),
    decode: (JSONValue) throws(JSONError) -> Decoded
  ) throws(JSONError) -> Decoded {
    let condensed = bytes.withUnsafeBytes { JSONCondenser.condense($0, to: selection, limits: limits) }
    guard let condensed else { return try decode(JSONDocument(bytes, limits: limits).root) }
    return try decode(JSONDocument(condensed, selection: selection).root)
  }

  /// On Swift's own threads, wherever it is asked for: a text of a few megabytes takes a tenth of a second and more, which an
  /// event loop has for nobody. The turn begins and ends there too, so that nobody keeps it while a loop is busy.
  private func inTurn<Decoded: Sendable>(_ work: () throws(JSONError) -> Decoded) async throws(Failure) -> Decoded {
    try await withTaskExecutorPreference(globalConcurrentExecutor) { () async throws(Failure) -> Decoded in
      guard await semaphore.acquire() else { throw .cancelled }
      defer { semaphore.release() }
      do throws(JSONError) { return try work() } catch { throw .json(error) }
    }
  }

  /// What is read without waiting. Nothing is awaited while such a tree exists, so that there are no more of them than
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
