import Entitlements

/// A schema, table or column with the same meaning in every part of a request: its initialiser is the check.
package struct PostgRESTName: Hashable, Sendable, CustomStringConvertible {
  /// PostgreSQL truncates names to this many bytes.
  package static let lengthLimit = 63

  /// Words that PostgREST reads as instructions in place of a column's name. With a column `order`, `?order=eq.1`
  /// filters nothing, and a PATCH would change every row of the table.
  ///
  /// https://docs.postgrest.org/en/stable/references/api/tables_views.html
  private static let reserved: Set<String> = [
    "and", "columns", "limit", "not", "offset", "on_conflict", "or", "order", "rpc", "select",
  ]

  package let text: String

  /// - Returns: `nil` unless the text is an ASCII letter or underscore, followed by letters, underscores or digits.
  package init?(_ text: String) {
    guard let first = text.utf8.first, !first.isDigit, text.utf8.count <= Self.lengthLimit,
      text.utf8.allSatisfy({ $0.isLetter || $0.isDigit || $0 == UInt8(ascii: "_") }), !Self.reserved.contains(text)
    else { return nil }
    self.text = text
  }

  /// For constant names in this module.
  init(known text: StaticString) { self.text = "\(text)" }

  package var description: String { text }
}
