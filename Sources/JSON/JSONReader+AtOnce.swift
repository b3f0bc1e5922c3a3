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

  /// Parses a text without waiting for a turn, and lends the document for the duration of `decode`.
  package static func readAtOnce<Decoded>(
    _ bytes: [UInt8], root: JSONRoot = .object, size: Size = .small,
    decode: (JSONValue) throws(JSONError) -> Decoded
  ) throws(JSONError) -> Decoded {
    try decode(JSONDocument(bytes, root: root, limits: size.limits).root)
  }
}
