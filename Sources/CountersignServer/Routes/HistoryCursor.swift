import Ledger

/// A place in a user's history as a caller carries it from page to page: opaque, of bounded size, and made by nobody but us.
///
///     h1-1c-3-7fffffffffffffff      version, then the three places in base 36
extension TimelinePosition {
  private static let version = "h1"

  var cursor: String {
    ([Self.version] + [verdict, change, inquiry].map { String($0, radix: 36) }).joined(separator: "-")
  }

  /// - Returns: `nil` for what `cursor` never wrote: each place has one spelling.
  package init?(cursor: String) {
    guard cursor.utf8.count <= 64 else { return nil }
    let parts = cursor.split(separator: "-", omittingEmptySubsequences: false)
    let places = parts.dropFirst().compactMap { Int64($0, radix: 36) }.filter { $0 >= 0 }
    guard parts.count == 4, parts.first.map(String.init) == Self.version, places.count == 3 else { return nil }
    self.init(verdict: places[0], change: places[1], inquiry: places[2])
    guard self.cursor == cursor else { return nil }
  }
}
