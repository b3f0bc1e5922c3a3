import Ledger

/// A position in a user's history as a caller carries it from page to page: opaque, and of bounded size.
///
///     h2-1c      version, then the position in base 36
extension TimelinePosition {
  private static let version = "h2-"

  var cursor: String { Self.version + String(sequence, radix: 36) }

  /// - Returns: `nil` for a text that `cursor` never wrote: each position has one spelling.
  init?(cursor: String) {
    guard cursor.utf8.count <= 64, cursor.hasPrefix(Self.version),
      let sequence = Int64(cursor.dropFirst(Self.version.count), radix: 36), sequence >= 0
    else { return nil }
    self.init(sequence)
    guard self.cursor == cursor else { return nil }
  }
}
