internal import Dispatch
internal import struct FoundationEssentials.Data
internal import GRDB

/// A ledger, moved between a SQLite file and a PostgreSQL database: every row of every table, in either direction.
///
/// Each table is copied in a transaction of its own and noted in the target, so that a copy that was broken off goes on with
/// the next table. The service must not run meanwhile.
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
  }

  /// Tables of which the other engine has a view, or none.
  private static let ofOneEngine: Set<String> = ["access_count", "pending_total", "grdb_migrations"]

  /// - Returns: how many rows were copied, by table.
  package static func copy(
    from source: LedgerPlace, to target: LedgerPlace, progress: @escaping @Sendable (Progress) -> Void
  ) async throws(Failure) -> [String: Int] {
    let result: Result<[String: Int], Failure> = await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(
          returning: Result { try copyNow(from: source, to: target, progress) }.mapError { error in
            switch error {
            case let failure as Failure: failure
            case let error as LedgerOpenError: Failure(description: error.description)
            case let error as PostgreSQLError: Failure(description: "PostgreSQL \(error.state): \(error.message)")
            default: Failure(description: LedgerFailure(error).sentence)
            }
          })
      }
    }
    return try result.get()
  }

  private static func copyNow(
    from source: LedgerPlace, to target: LedgerPlace, _ progress: (Progress) -> Void
  ) throws -> [String: Int] {
    switch (source, target) {
    case (.file(let path), .database(let url, _)):
      let file = try LedgerFile(path: path)
      defer { file.release() }
      guard !file.isNew else { throw Failure(description: "There is no ledger at \(path).") }
      let queue = try DatabaseQueue(path: file.path)
      defer { try? queue.close() }
      guard try queue.read(LedgerSchema.present.migrator.hasCompletedMigrations) else {
        throw Failure(description: "The ledger \(path) is of an older version; start the service once.")
      }
      let address = try PostgreSQLAddress(url)
      let connection = try address.checked { connection in
        try PostgreSQLSchema.migrate(connection, to: .present)
        return connection
      }
      try connection.run("SET statement_timeout = 0")
      return try queue.read { db in try run(FileSide(db), DatabaseSide(connection), progress) }
    case (.database(let url, _), .file(let path)):
      let file = try LedgerFile(path: path)
      defer { file.release() }
      let queue = try DatabaseQueue(path: file.path)
      defer { try? queue.close() }
      try queue.writeWithoutTransaction { db in
        try db.execute(sql: "PRAGMA application_id = \(LedgerFile.applicationID); PRAGMA journal_mode = wal")
      }
      try LedgerSchema.present.migrator.migrate(queue)
      let address = try PostgreSQLAddress(url)
      let connection = try address.checked { $0 }
      guard try connection.run("SELECT to_regclass('account')::text") != nil else {
        throw Failure(description: "There is no ledger in \(address.description).")
      }
      try connection.run("SET statement_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
      return try queue.writeWithoutTransaction { db in
        try run(DatabaseSide(connection), FileSide(db), progress)
      }
    default: throw Failure(description: "A ledger is copied from a file to a database, or from a database to a file.")
    }
  }

  private static func copy(
    _ table: Table, from source: some LedgerSide, to target: some LedgerSide, _ position: inout Progress,
    _ progress: (Progress) -> Void
  ) throws {
    // A new ledger has rows in these alone; a table that was begun and not finished is empty.
    if ["heartbeat", "memo"].contains(table.name) { try target.execute("DELETE FROM \(table.name)") }
    var digest = RowDigest()
    try source.read(table) { row in
      digest.update(row)
      try target.write(row, to: table)
      position.rows += 1
      position.table = table.name
      if position.rows.isMultiple(of: 1_000) { progress(position) }
    }
    var copy = RowDigest()
    try target.read(table) { copy.update($0) }
    guard copy.value == digest.value else {
      throw Failure(description: "The copy of \(table.name) differs from the original.")
    }
  }

  private static func run(
    _ source: some LedgerSide, _ target: some LedgerSide, _ progress: (Progress) -> Void
  ) throws -> [String: Int] {
    guard try source.replicas() == 0 else {
      throw Failure(description: "The ledger is in use: stop every replica of the service first.")
    }
    let tables = try tables()
    var done = Set((try target.memo("copied") ?? "").split(separator: " ").map(String.init))
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
      table: "", rows: done.reduce(0) { $0 + (counts[$1] ?? 0) }, total: counts.values.reduce(0, +))
    for table in tables where !done.contains(table.name) {
      try target.execute("BEGIN")
      do {
        try copy(table, from: source, to: target, &position, progress)
        done.insert(table.name)
        try target.keepMemo("copied", done.sorted().joined(separator: " "))
        try target.execute("COMMIT")
      } catch {
        // GRDB ends the process over a transaction that is left open.
        try? target.execute("ROLLBACK")
        throw error
      }
    }
    try target.finish(tables)
    try target.keepMemo("copied", nil)
    progress(position)
    return counts
  }

  /// The tables of the present schema, with their columns.
  private static func tables() throws -> [Table] {
    let queue = try DatabaseQueue()
    try LedgerSchema.present.migrator.migrate(queue)
    return try queue.read { db in
      let names = try String.fetchAll(
        db,
        sql:
          "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
      )
      // What others refer to comes first; a memo is written last, as the target's own notes are in it.
      return try names.filter { !ofOneEngine.contains($0) }.map { name in
        let columns = try db.columns(in: name)
        let keys = try db.primaryKey(name).columns
        return Table(
          name: name,
          columns: columns.map {
            Table.Column(name: $0.name, isBlob: $0.type == "BLOB", isInteger: $0.type == "INTEGER")
          },
          order: keys.first == "rowid" || keys.isEmpty ? columns.map(\.name) : keys)
      }
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
  }
}

/// An engine as a copy sees it.
protocol LedgerSide {
  /// How many processes have the ledger open.
  func replicas() throws -> Int
  func execute(_ sql: String) throws
  func count(_ table: String) throws -> Int
  func read(_ table: LedgerCopy.Table, _ body: ([CopiedValue]) throws -> Void) throws
  func write(_ row: [CopiedValue], to table: LedgerCopy.Table) throws
  /// Sets what follows from the rows.
  func finish(_ tables: [LedgerCopy.Table]) throws
  var tables: LedgerTables { get }
}

extension LedgerSide {
  func memo(_ name: String) throws -> String? { try tables.memo(name) }
  func keepMemo(_ name: String, _ text: String?) throws { try tables.keepMemo(name, text) }
}

private struct FileSide: LedgerSide {
  let db: Database
  let tables: LedgerTables

  init(_ db: Database) {
    self.db = db
    tables = LedgerTables(db: db)
  }

  /// The lock of the file is held.
  func replicas() -> Int { 0 }
  func execute(_ sql: String) throws { try db.execute(sql: sql) }
  func count(_ table: String) throws -> Int { try Int.fetchOne(db, sql: "SELECT count(*) FROM \(table)") ?? 0 }

  func read(_ table: LedgerCopy.Table, _ body: ([CopiedValue]) throws -> Void) throws {
    let rows = try Row.fetchCursor(db, sql: "SELECT \(table.list) FROM \(table.name) ORDER BY \(table.orderList)")
    while let row = try rows.next() {
      try body(
        row.databaseValues.map { value in
          switch value.storage {
          case .null, .double: .null
          case .int64(let integer): .integer(integer)
          case .string(let text): .text(text)
          case .blob(let data): .blob(Array(data))
          }
        })
    }
  }

  func write(_ row: [CopiedValue], to table: LedgerCopy.Table) throws {
    let marks = Array(repeating: "?", count: row.count).joined(separator: ", ")
    let statement = try db.cachedStatement(sql: "INSERT INTO \(table.name) (\(table.list)) VALUES (\(marks))")
    let values: [(any DatabaseValueConvertible)?] = row.map { value in
      switch value {
      case .null: nil
      case .integer(let integer): integer
      case .text(let text): text
      case .blob(let bytes): bytes.withUnsafeBytes { Data($0) }
      }
    }
    try statement.execute(arguments: StatementArguments(values))
  }

  func finish(_ tables: [LedgerCopy.Table]) throws {
    // A view of PostgreSQL's that is a table here.
    try db.execute(
      sql: """
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
  let tables: LedgerTables

  init(_ connection: PostgreSQLConnection) {
    self.connection = connection
    tables = LedgerTables(connection)
  }

  func replicas() throws -> Int { try tables.replicasAlive() }
  func execute(_ sql: String) throws { try connection.run(sql) }
  func count(_ table: String) throws -> Int { Int(try connection.run("SELECT count(*) FROM \(table)") ?? "") ?? 0 }

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
        try body(
          table.columns.enumerated().map { index, column in
            if fetch.isNull(index) { return .null }
            if column.isInteger { return .integer(try fetch.integer(index)) }
            return column.isBlob ? .blob(try fetch.blob(index)) : .text(try fetch.text(index))
          })
      }
    }
    try connection.run("CLOSE copied")
    if !isOpen { try connection.run("COMMIT") }
  }

  func write(_ row: [CopiedValue], to table: LedgerCopy.Table) throws {
    let marks = Array(repeating: "?", count: row.count).joined(separator: ", ")
    let statement = try connection.statement(
      ofText: "INSERT INTO \(table.name) (\(table.list)) VALUES (\(marks))")
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
