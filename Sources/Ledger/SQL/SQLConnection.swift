/// A place where statements run, on one thread at a time. Whoever lends it begins and ends the transaction.
package protocol SQLRunner {
  /// The statement with a text, compiled at its first use.
  func statement(_ sql: SQL) throws -> any SQLStatement
}

/// A connection of an SQL engine: the port between the ledger's statements and the engine that runs them.
protocol SQLConnection: AnyObject, SQLRunner {
  /// Whether other processes write the same database.
  var isShared: Bool { get }
  /// Rows that the last INSERT, UPDATE or DELETE changed.
  var changes: Int { get }
  /// The number that the database gave the last row; only where it is not shared.
  var lastRow: Int64 { get }
  /// Sends the queries of a body together, where each would cost a round trip. In the body no query has a row. The rows
  /// come when the same query is made with the same values, once, as they are before what is written meanwhile.
  func readAhead(_ queries: () -> Void)
}

/// A compiled statement. Indexes of values and columns begin with 0.
package protocol SQLStatement: AnyObject {
  func bindNull(at index: Int) throws
  func bind(_ value: Int64, at index: Int) throws
  func bind(_ value: String, at index: Int) throws
  func bind(_ value: [UInt8], at index: Int) throws
  /// Runs to its end; rows that it may have are not wanted. An error may be thrown by a later statement, or by COMMIT.
  func run() throws
  /// Runs until the next row.
  /// - Returns: whether there is one.
  func step() throws -> Bool
  /// Ends the run, and forgets the values.
  func reset()

  /// The values of the present row.
  /// - Throws: `StoredForm.Unstorable` for a value of another type.
  func isNull(_ column: Int) -> Bool
  func integer(_ column: Int) throws -> Int64
  func text(_ column: Int) throws -> String
  func blob(_ column: Int) throws -> [UInt8]
}

/// A Swift type that a statement takes as a value and returns as a column.
package protocol SQLValue {
  /// The number of adjacent values and columns.
  static var width: Int { get }
  func bind(to statement: any SQLStatement, at index: Int) throws
  init(_ statement: any SQLStatement, _ column: Int) throws
}

extension SQLValue {
  package static var width: Int { 1 }
}

/// The present row of a statement; valid only inside the closure that it is passed to.
package struct SQLRow {
  let statement: any SQLStatement

  /// - Throws: `StoredForm.Unstorable` for a value of another type.
  package func get<Value: SQLValue>(_ column: Int, as type: Value.Type = Value.self) throws -> Value {
    try Value(statement, column)
  }

  /// All columns, in order.
  func columns<each Column: SQLValue>(as types: (repeat each Column).Type) throws -> (repeat each Column) {
    var index = 0
    func next<Value: SQLValue>(_ type: Value.Type) throws -> Value {
      defer { index += Value.width }
      return try Value(statement, index)
    }
    return (repeat try next((each Column).self))
  }
}

extension SQLRunner {
  package func execute<each Value: SQLValue>(_ sql: SQL, _ values: repeat each Value) throws {
    let statement = try statement(sql)
    defer { statement.reset() }
    try bind(to: statement, repeat each values)
    try statement.run()
  }

  /// The first row.
  package func first<each Value: SQLValue, Result>(
    _ sql: SQL, _ values: repeat each Value, read: (SQLRow) throws -> Result
  ) throws -> Result? {
    let statement = try statement(sql)
    defer { statement.reset() }
    try bind(to: statement, repeat each values)
    guard try statement.step() else { return nil }
    let result = try read(SQLRow(statement: statement))
    // Only at its end has a statement written everything.
    while try statement.step() {}
    return result
  }

  /// Every row, in order. `read` must not run the same statement.
  package func all<each Value: SQLValue, Result>(
    _ sql: SQL, _ values: repeat each Value, read: (SQLRow) throws -> Result
  ) throws -> [Result] {
    let statement = try statement(sql)
    defer { statement.reset() }
    try bind(to: statement, repeat each values)
    var results: [Result] = []
    while try statement.step() { results.append(try read(SQLRow(statement: statement))) }
    return results
  }

  /// The only column of the first row.
  package func first<each Value: SQLValue, Column: SQLValue>(
    _ sql: SQL, _ values: repeat each Value, as type: Column.Type = Column.self
  ) throws -> Column? {
    try first(sql, repeat each values) { try $0.get(0) }
  }

  /// The only column of every row.
  package func all<each Value: SQLValue, Column: SQLValue>(
    _ sql: SQL, _ values: repeat each Value, as type: Column.Type = Column.self
  ) throws -> [Column] {
    try all(sql, repeat each values) { try $0.get(0) }
  }

  /// The columns of the first row.
  package func first<each Value: SQLValue, each Column: SQLValue>(
    _ sql: SQL, _ values: repeat each Value, as types: (repeat each Column).Type
  ) throws -> (repeat each Column)? {
    try first(sql, repeat each values) { try $0.columns(as: types) }
  }

  /// The columns of every row.
  package func all<each Value: SQLValue, each Column: SQLValue>(
    _ sql: SQL, _ values: repeat each Value, as types: (repeat each Column).Type
  ) throws -> [(repeat each Column)] {
    try all(sql, repeat each values) { try $0.columns(as: types) }
  }

  /// A value made of the columns of the first row.
  package func first<each Value: SQLValue, each Column: SQLValue, Result>(
    _ sql: SQL, _ values: repeat each Value, into make: (repeat each Column) throws -> Result
  ) throws -> Result? {
    try first(sql, repeat each values) { try make(repeat each $0.columns(as: (repeat each Column).self)) }
  }

  /// A value made of the columns of each row.
  package func all<each Value: SQLValue, each Column: SQLValue, Result>(
    _ sql: SQL, _ values: repeat each Value, into make: (repeat each Column) throws -> Result
  ) throws -> [Result] {
    try all(sql, repeat each values) { try make(repeat each $0.columns(as: (repeat each Column).self)) }
  }

  /// Whether there is a row.
  package func exists<each Value: SQLValue>(_ sql: SQL, _ values: repeat each Value) throws -> Bool {
    try first(sql, repeat each values) { _ in true } ?? false
  }

  private func bind<each Value: SQLValue>(to statement: any SQLStatement, _ values: repeat each Value) throws {
    var index = 0
    for value in repeat each values {
      try value.bind(to: statement, at: index)
      index += type(of: value).width
    }
  }
}

extension Int64: SQLValue {
  package func bind(to statement: any SQLStatement, at index: Int) throws { try statement.bind(self, at: index) }
  package init(_ statement: any SQLStatement, _ column: Int) throws { self = try statement.integer(column) }
}

extension Int: SQLValue {
  package func bind(to statement: any SQLStatement, at index: Int) throws { try statement.bind(Int64(self), at: index) }
  package init(_ statement: any SQLStatement, _ column: Int) throws {
    guard let integer = Int(exactly: try statement.integer(column)) else { throw StoredForm.Unstorable() }
    self = integer
  }
}

extension Bool: SQLValue {
  package func bind(to statement: any SQLStatement, at index: Int) throws {
    try statement.bind(self ? 1 : 0, at: index)
  }
  package init(_ statement: any SQLStatement, _ column: Int) throws { self = try statement.integer(column) != 0 }
}

extension String: SQLValue {
  package func bind(to statement: any SQLStatement, at index: Int) throws { try statement.bind(self, at: index) }
  package init(_ statement: any SQLStatement, _ column: Int) throws { self = try statement.text(column) }
}

extension [UInt8]: SQLValue {
  package func bind(to statement: any SQLStatement, at index: Int) throws { try statement.bind(self, at: index) }
  package init(_ statement: any SQLStatement, _ column: Int) throws { self = try statement.blob(column) }
}

extension Optional: SQLValue where Wrapped: SQLValue {
  package static var width: Int { Wrapped.width }

  package func bind(to statement: any SQLStatement, at index: Int) throws {
    if let self { return try self.bind(to: statement, at: index) }
    for index in index..<index + Wrapped.width { try statement.bindNull(at: index) }
  }

  package init(_ statement: any SQLStatement, _ column: Int) throws {
    self = statement.isNull(column) ? nil : try Wrapped(statement, column)
  }
}
