import Synchronization

/// The text of a statement: a literal, or one that is composed of lists of columns. `?` stands for a value. Words for an engine
/// other than SQLite are a comment that begins with its name, `/*pg: … */`, in which there is no `?`.
package struct SQL: ExpressibleByStringLiteral, @unchecked Sendable {
  /// The bytes of the text, which are never freed: a connection finds the prepared statement by their address.
  let start: UnsafePointer<UInt8>
  private let count: Int

  package init(stringLiteral text: StaticString) { (start, count) = (text.utf8Start, text.utf8CodeUnitCount) }

  /// A composed text is kept once, however often it is composed. A `static let` saves the search for it.
  package init(_ text: String) {
    self = Self.composed.withLock { composed in
      if let known = composed[text] { return known }
      let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: text.utf8.count)
      bytes.initialize(from: Array(text.utf8), count: text.utf8.count)
      let new = SQL(start: bytes, count: text.utf8.count)
      composed[text] = new
      return new
    }
  }

  private init(start: UnsafePointer<UInt8>, count: Int) { (self.start, self.count) = (start, count) }

  private static let composed = Mutex<[String: SQL]>([:])

  var text: String { String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self) }

  // MARK: Composed of lists of columns

  /// - Parameter rest: the words after the values.
  package static func insert(_ table: String, _ columns: String, _ rest: String = "") -> SQL {
    let places = names(columns).map { _ in "?" }.joined(separator: ", ")
    return SQL("INSERT INTO \(table) (\(columns)) VALUES (\(places)) \(rest)")
  }

  /// Inserts a row, or sets `columns` of the row that has the key.
  /// - Parameters:
  ///   - key: the columns of a unique index.
  ///   - first: further columns, which such a row keeps.
  ///   - value: the new value of a column in such a row.
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
