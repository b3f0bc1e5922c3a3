internal import Cryptography

/// A ledger, moved between a SQLite file and a PostgreSQL database: every row of every table, in either direction.
///
/// Each table is copied in a transaction of its own and noted in the target with a digest of its rows, so that a copy that was
/// broken off goes on with the next table while the ledger is the same. The service must not run meanwhile.
package struct LedgerCopy: Sendable {
  /// How far it is.
  package struct Progress: Hashable, Sendable {
    package var table: String
    /// Rows of all tables that were copied, and those that there are.
    package var rows: Int
    package var total: Int
  }

  package struct Failure: Error, CustomStringConvertible {
    package var description: String

    init(description: String) { self.description = description }

    init(_ error: any Error) {
      switch error {
      case let failure as Failure: self = failure
      case let error as LedgerOpenError: description = error.description
      case let error as PostgreSQLError: description = "PostgreSQL \(error.state): \(error.message)"
      default: description = LedgerFailure(error).sentence
      }
    }
  }

  /// - Returns: how many rows were copied, by table.
  package static func copy(
    from source: LedgerPlace, to target: LedgerPlace, progress: @escaping @Sendable (Progress) -> Void
  ) async throws(Failure) -> [String: Int] {
    try await blocking { () throws(Failure) in
      do { return try copyNow(from: source, to: target, progress) } catch { throw Failure(error) }
    }
  }

  private static func copyNow(
    from source: LedgerPlace, to target: LedgerPlace, _ progress: (Progress) -> Void
  ) throws -> [String: Int] {
    switch (source, target) {
    case (.file(let path), .database(let url, _)):
      let file = try LedgerFile(path: path)
      defer { file.release() }
      guard !file.isNew else { throw Failure(description: "There is no ledger at \(path).") }
      let ledger = try SQLiteConnection(path: file.path)
      defer { ledger.close() }
      guard try LedgerSchema.present.isComplete(in: ledger) else {
        throw Failure(description: "The ledger \(path) is of an older version; start the service once.")
      }
      let address = try PostgreSQLAddress(url)
      let connection = try address.checked { connection in
        try PostgreSQLSchema.migrate(connection, to: .present)
        return connection
      }
      try connection.run("SET statement_timeout = 0")
      return try ledger.read { try run(FileSide(connection: ledger), DatabaseSide(connection: connection), progress) }
    case (.database(let url, _), .file(let path)):
      let file = try LedgerFile(path: path)
      defer { file.release() }
      let ledger = try SQLiteConnection(path: file.path)
      defer { ledger.close() }
      try ledger.run("PRAGMA application_id = \(LedgerFile.applicationID); PRAGMA journal_mode = wal")
      try LedgerSchema.present.migrate(ledger)
      let address = try PostgreSQLAddress(url)
      let connection = try address.checked { $0 }
      guard try connection.run("SELECT to_regclass('account')::text") != nil else {
        throw Failure(description: "There is no ledger in \(address.description).")
      }
      try connection.run("SET statement_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
      return try run(DatabaseSide(connection: connection), FileSide(connection: ledger), progress)
    default: throw Failure(description: "A ledger is copied from a file to a database, or from a database to a file.")
    }
  }

  /// - Returns: the digest of its rows.
  private static func copy(
    _ table: Table, from source: some LedgerSide, to target: some LedgerSide, _ position: inout Progress,
    _ progress: (Progress) -> Void
  ) throws -> String {
    // A new ledger has rows in these alone; a table that was begun and not finished is empty.
    if ["heartbeat", "memo"].contains(table.name) { try target.execute("DELETE FROM \(table.name)") }
    let insertion = try target.tables.statement(SQL.insert(table.name, table.list))
    var digest = RowDigest()
    var copied = 0
    do {
      try source.read(table) { row in
        let row = row.map(\.storable)
        digest.update(row)
        try table.insert(row, by: insertion)
        copied += 1
        position.rows += 1
        position.table = table.name
        if position.rows.isMultiple(of: 1_000) { progress(position) }
      }
    } catch {
      let place = "row \(copied + 1) of \(table.name), in the order of \(table.order.joined(separator: ", "))"
      throw Failure(description: "The copy stopped at \(place): \(Failure(error).description)")
    }
    var copy = RowDigest()
    try target.read(table) { copy.update($0) }
    guard copy.value == digest.value else {
      throw Failure(description: "The copy of \(table.name) differs from the original.")
    }
    return hexadecimal(digest.value)
  }

  private static func run(
    _ source: some LedgerSide, _ target: some LedgerSide, _ progress: (Progress) -> Void
  ) throws -> [String: Int] {
    guard try source.replicas() == 0 else {
      throw Failure(description: "The ledger is in use: stop every replica of the service first.")
    }
    let tables = try tables()
    var done: [String: String] = [:]
    for note in (try target.tables.memo("copied") ?? "").split(separator: " ") {
      let parts = note.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      done[parts[0]] = parts.last
    }
    for table in tables {
      guard let copied = done[table.name] else { continue }
      var digest = RowDigest()
      try source.read(table) { digest.update($0.map(\.storable)) }
      guard hexadecimal(digest.value) == copied else {
        throw Failure(
          description:
            "The ledger has changed since the copy was broken off (\(table.name)). Name a new database or file.")
      }
    }
    if done.isEmpty {
      for table in tables where !["heartbeat", "memo"].contains(table.name) {
        guard try target.count(table.name) == 0 else {
          throw Failure(description: "The target is not empty: \(table.name) has rows. Name a new database or file.")
        }
      }
    }
    var counts: [String: Int] = [:]
    for table in tables { counts[table.name] = try source.count(table.name) }
    var position = Progress(
      table: "", rows: done.keys.reduce(0) { $0 + (counts[$1] ?? 0) }, total: counts.values.reduce(0, +))
    for table in tables where done[table.name] == nil {
      try target.execute("BEGIN")
      do {
        done[table.name] = try copy(table, from: source, to: target, &position, progress)
        try target.tables.keepMemo("copied", done.map { "\($0.key):\($0.value)" }.sorted().joined(separator: " "))
        try target.execute("COMMIT")
      } catch {
        try? target.execute("ROLLBACK")
        throw error
      }
    }
    try target.finish(tables)
    try target.tables.keepMemo("copied", nil)
    progress(position)
    return counts
  }

  /// The tables of the present schema, with their columns.
  private static func tables() throws -> [Table] {
    let connection = try SQLiteConnection(path: ":memory:")
    try LedgerSchema.present.migrate(connection)
    // Rows that others refer to come first; memos come last, as the target's own are among them.
    return try PostgreSQLSchema.objects(of: .present).filter(\.isTable).map(\.name).map { name in
      let columns = try connection.rows(of: "SELECT name, type, pk FROM pragma_table_info('\(name)') ORDER BY cid") {
        row in
        let type = try row.get(1, as: String.self)
        return (
          column: Table.Column(name: try row.get(0), isBlob: type == "BLOB", isInteger: type == "INTEGER"),
          placeInKey: try row.get(2, as: Int.self)
        )
      }
      let key = columns.filter { $0.placeInKey > 0 }.sorted { $0.placeInKey < $1.placeInKey }
      return Table(
        name: name, columns: columns.map(\.column), order: (key.isEmpty ? columns : key).map(\.column.name))
    }
  }

  struct Table {
    struct Column {
      var name: String
      var isBlob: Bool
      var isInteger: Bool
    }

    var name: String
    var columns: [Column]
    /// Columns by which its rows are in one order.
    var order: [String]

    var list: String { columns.map { "\"\($0.name)\"" }.joined(separator: ", ") }
    var orderList: String { order.map { "\"\($0)\"" }.joined(separator: ", ") }

    /// The present row of a statement on all columns.
    func values(of statement: any SQLStatement) throws -> [CopiedValue] {
      try columns.enumerated().map { index, column in
        if statement.isNull(index) { return .null }
        if column.isInteger { return .integer(try statement.integer(index)) }
        return column.isBlob ? .blob(try statement.blob(index)) : .text(try statement.text(index))
      }
    }

    func insert(_ row: [CopiedValue], by statement: any SQLStatement) throws {
      defer { statement.reset() }
      for (index, value) in row.enumerated() {
        switch value {
        case .null: try statement.bindNull(at: index)
        case .integer(let integer): try statement.bind(integer, at: index)
        case .text(let text): try statement.bind(text, at: index)
        case .blob(let bytes): try statement.bind(bytes, at: index)
        }
      }
      _ = try statement.step()
    }
  }
}

/// An engine as a copy sees it.
private protocol LedgerSide {
  /// How many processes have the ledger open.
  func replicas() throws -> Int
  func execute(_ sql: String) throws
  func read(_ table: LedgerCopy.Table, _ body: ([CopiedValue]) throws -> Void) throws
  /// Sets what follows from the rows.
  func finish(_ tables: [LedgerCopy.Table]) throws
  var tables: LedgerTables { get }
}

extension LedgerSide {
  func count(_ table: String) throws -> Int { try tables.first(SQL("SELECT count(*) FROM \(table)")) ?? 0 }
}

private struct FileSide: LedgerSide {
  let connection: SQLiteConnection
  var tables: LedgerTables { LedgerTables(connection) }

  /// The lock of the file is held.
  func replicas() -> Int { 0 }
  func execute(_ sql: String) throws { try connection.run(sql) }

  func read(_ table: LedgerCopy.Table, _ body: ([CopiedValue]) throws -> Void) throws {
    let statement = try connection.statement(
      SQL("SELECT \(table.list) FROM \(table.name) ORDER BY \(table.orderList)"))
    defer { statement.reset() }
    while try statement.step() { try body(table.values(of: statement)) }
  }

  func finish(_ tables: [LedgerCopy.Table]) throws {
    // A view of PostgreSQL's that is a table here.
    try connection.run(
      """
      DELETE FROM access_count;
      INSERT INTO access_count (tier, product_id, is_for_life, users)
        SELECT tier, product_id, is_for_life, count(*) FROM account
        WHERE product_id IS NOT NULL AND tier IS NOT NULL AND status <> 'expired'
        GROUP BY tier, product_id, is_for_life;
      """)
  }
}

private struct DatabaseSide: LedgerSide {
  let connection: PostgreSQLConnection
  var tables: LedgerTables { LedgerTables(connection) }

  func replicas() throws -> Int { try tables.replicasAlive() }
  func execute(_ sql: String) throws { try connection.run(sql) }

  func read(_ table: LedgerCopy.Table, _ body: ([CopiedValue]) throws -> Void) throws {
    let isOpen = connection.isInTransaction
    if !isOpen { try connection.run("BEGIN") }
    try connection.run(
      "DECLARE copied NO SCROLL CURSOR FOR SELECT \(table.list) FROM \(table.name) ORDER BY \(table.orderList)")
    var isMore = true
    while isMore {
      isMore = false
      let fetch = try connection.rows(of: "FETCH 500 FROM copied")
      while try fetch.step() {
        isMore = true
        try body(table.values(of: fetch))
      }
    }
    try connection.run("CLOSE copied")
    if !isOpen { try connection.run("COMMIT") }
  }

  /// A number that is given to a new row is above every one that was copied.
  func finish(_ tables: [LedgerCopy.Table]) throws {
    for table in tables {
      for column in table.columns where column.isInteger {
        let sequence = try connection.run("SELECT pg_get_serial_sequence('\(table.name)', '\(column.name)')")
        guard sequence != nil else { continue }
        try connection.run(
          """
          SELECT setval(pg_get_serial_sequence('\(table.name)', '\(column.name)'),
            greatest(1, (SELECT max(\(column.name)) FROM \(table.name))), true)
          """)
      }
    }
  }
}
