extension JSONReader {
  /// How much of a text is taken apart at once.
  package enum Size: Hashable, Sendable {
    /// 256 KiB: the header or the payload of signed data, which are a few KiB. The tree of the largest takes about 2 MB,
    /// so that parsing some at the same time does no harm.
    case small
    /// 512 KiB of text with no larger a tree: what somebody without a credential posted.
    case posted
    /// What `read` takes. For commands, which look at one text in their life.
    case whole

    fileprivate var limits: JSONLimits {
      switch self {
      case .small: JSONLimits(bytes: 256 * 1024, containers: 2_000, values: 10_000, depth: 16)
      case .posted: JSONLimits(bytes: 512 * 1024, containers: 2_000, values: 10_000, depth: 16)
      case .whole: JSONLimits()
      }
    }
  }

  /// Parses a text without waiting for a turn, and lends the document for the time of `decode`.
  package static func readAtOnce<Decoded>(
    _ bytes: [UInt8], root: JSONRoot = .object, size: Size = .small,
    decode: (JSONValue) throws(JSONError) -> Decoded
  ) throws(JSONError) -> Decoded {
    try decode(JSONDocument(bytes, root: root, limits: size.limits).root)
  }
}
