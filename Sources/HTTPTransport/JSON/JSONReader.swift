/// Takes JSON apart, a bounded number of documents at a time.
///
/// A tree takes many times the memory of its text, so the number of trees that exist at once is what bounds the memory;
/// the number of calls in flight does not.
package struct JSONReader: Sendable {
  /// The one that every decoder of this process shares.
  package static let shared = JSONReader(simultaneously: 2)

  private let gate: AsyncGate
  private let limits: JSONLimits

  init(simultaneously count: Int, limits: JSONLimits = JSONLimits()) {
    gate = AsyncGate(permits: count)
    self.limits = limits
  }

  package enum Failure: Error, Hashable, Sendable {
    case json(JSONError)
    /// The task was cancelled while it waited for its turn.
    case cancelled
  }

  /// Parses bytes and lends the document for the time of `decode`; the tree is gone when this returns.
  package func read<Decoded: Sendable>(
    _ bytes: [UInt8], root: JSONRoot = .object, decode: (JSONValue) throws(JSONError) -> Decoded
  ) async throws(Failure) -> Decoded {
    guard await gate.enter() else { throw .cancelled }
    defer { gate.leave() }
    do {
      return try decode(JSONDocument(bytes, root: root, limits: limits).root)
    } catch {
      throw .json(error)
    }
  }
}
