/// The text of a statement: a literal, or a constant that is composed once. `?` stands for a value. Words for an engine
/// other than SQLite are a comment that begins with its name, `/*pg: … */`, in which there is no `?`.
package struct SQL: ExpressibleByStringLiteral, @unchecked Sendable {
  /// The bytes of the text, which are never freed: a connection finds the prepared statement by their address.
  let start: UnsafePointer<UInt8>
  private let count: Int

  package init(stringLiteral text: StaticString) { (start, count) = (text.utf8Start, text.utf8CodeUnitCount) }

  /// Keeps a composed text for good: only for a `static let`.
  package init(_ text: String) {
    let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: text.utf8.count)
    bytes.initialize(from: Array(text.utf8), count: text.utf8.count)
    (start, count) = (UnsafePointer(bytes), text.utf8.count)
  }

  var text: String { String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self) }

  // MARK: Composed once, from lists of columns

  /// - Parameter rest: the words after the values.
  package static func insert(_ table: String, _ columns: String, _ rest: String = "") -> SQL {
    let places = names(columns).map { _ in "?" }.joined(separator: ", ")
    return SQL("INSERT INTO \(table) (\(columns)) VALUES (\(places)) \(rest)")
  }

  /// Inserts a row; of one that is there it sets the columns after the first ones.
  /// - Parameters:
  ///   - key: the columns of a unique index.
  ///   - first: columns that stay as they are in a row that is there.
  ///   - value: the new value of a column.
  package static func upsert(
    _ table: String, key: String, first: String? = nil, _ columns: String,
    to value: (String) -> String = { "excluded.\($0)" }
  ) -> SQL {
    let changes = names(columns).map { "\($0) = \(value($0))" }.joined(separator: ", ")
    let all = [key, first, columns].compactMap(\.self).joined(separator: ", ")
    return insert(table, all, "ON CONFLICT (\(key)) DO UPDATE SET \(changes)")
  }

  /// The inserted values; of `last_seen_at` the later one.
  static func orLater(_ table: String) -> (String) -> String {
    { column in
      let new = "excluded.\(column)"
      guard column == "last_seen_at" else { return new }
      return "CASE WHEN \(table).\(column) > \(new) THEN \(table).\(column) ELSE \(new) END"
    }
  }

  package static func update(_ table: String, _ columns: String, _ rest: String) -> SQL {
    SQL("UPDATE \(table) SET \(names(columns).map { "\($0) = ?" }.joined(separator: ", ")) \(rest)")
  }

  private static func names(_ columns: String) -> [String] {
    columns.split(separator: ",").map { $0.filter { !$0.isWhitespace } }
  }
}
