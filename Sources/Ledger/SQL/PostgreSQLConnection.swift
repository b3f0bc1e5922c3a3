internal import CPostgreSQL
private import Glibc

/// A connection to PostgreSQL by libpq, with its prepared statements. Its calls block; one thread uses it at a time.
///
/// Between `begin` and `commit` a statement whose rows nobody wants is sent, and answered together with the next one whose
/// rows somebody does, or with COMMIT: libpq's pipeline mode (its manual, "Pipeline Mode"). An error of such a statement is thrown then, and until the
/// transaction is rolled back. Queries that are surely made soon can be sent in the same way, ahead of their turn.
final class PostgreSQLConnection: SQLConnection {
  private let connection: OpaquePointer
  /// By the address of the text in the program.
  private var statements: [UnsafePointer<UInt8>: PostgreSQLStatement] = [:]
  /// The statements whose answers were not read: `nil` for one whose rows nobody wants.
  private var pending: [Expected?] = []
  /// The queries that were sent ahead, until they are made.
  private var ahead: [Query: [Expected]] = [:]
  private var isAhead = false
  private var isPipelined = false
  private var failure: PostgreSQLError?
  private var changed = 0

  var changes: Int {
    settle()
    return changed
  }

  var isShared: Bool { true }
  /// PostgreSQL's rows have the numbers that were asked for.
  var lastRow: Int64 { 0 }

  /// How often an answer was waited for.
  private(set) var roundTrips = 0
  /// The queries that were sent ahead of a committed transaction, and never made.
  private(set) var unusedReads = 0

  /// - Throws: `PostgreSQLError`.
  init(_ options: [(name: String, value: String)]) throws {
    let made = Self.withTexts(options.map(\.name)) { names in
      Self.withTexts(options.map(\.value)) { values in PQconnectdbParams(names, values, 0) }
    }
    guard let made else { throw PostgreSQLError(state: PostgreSQLError.outOfMemory, message: "There is no memory") }
    guard PQstatus(made) == CONNECTION_OK else {
      defer { PQfinish(made) }
      throw PostgreSQLError(state: PostgreSQLError.lost, message: String(cString: PQerrorMessage(made)))
    }
    // libpq would print notices.
    PQsetNoticeProcessor(made, { _, _ in }, nil)
    connection = made
  }

  deinit { PQfinish(connection) }

  /// Calls with the addresses of C strings, and a null after the last.
  private static func withTexts<Result>(
    _ texts: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result
  ) -> Result {
    let copies = texts.map { text in
      let bytes = UnsafeMutableBufferPointer<CChar>.allocate(capacity: text.utf8.count + 1)
      _ = bytes.initialize(from: text.utf8.map { CChar(bitPattern: $0) } + [0])
      return bytes
    }
    defer { for copy in copies { copy.deallocate() } }
    let pointers = copies.map { $0.baseAddress.map { UnsafePointer($0) } } + [nil]
    return pointers.withUnsafeBufferPointer { body($0.baseAddress) }
  }

  /// The descriptor of its socket.
  var socket: Int32 { PQsocket(connection) }
  var isUsable: Bool { PQstatus(connection) == CONNECTION_OK }
  var isInTransaction: Bool { PQtransactionStatus(connection) != PQTRANS_IDLE }

  /// Runs statements without values.
  ///
  /// - Parameter longest: how long the server has for its answer, where no `statement_timeout` stands yet. The connection is of
  ///   no use after that.
  /// - Returns: the first value of the last one's first row.
  @discardableResult
  func run(_ sql: String, within longest: Duration? = nil) throws -> String? {
    try settleWell()
    roundTrips += 1
    let result =
      if let longest {
        try answer(to: sql, until: .now + longest)
      } else {
        try Answer(PQexec(connection, sql), connection)
      }
    guard result.rows > 0, !result.isNull(0, 0) else { return nil }
    return result.text(0, 0)
  }

  /// As PQexec, which has no end where the server does not answer.
  private func answer(to sql: String, until end: ContinuousClock.Instant) throws -> Answer {
    var last: Result<Answer, any Error>?
    if PQsendQuery(connection, sql) == 1 {
      try waitForResult(until: end)
      while let result = PQgetResult(connection) {
        last = Result { try Answer(result, connection) }
        try waitForResult(until: end)
      }
    }
    return try last?.get() ?? Answer(nil, connection)
  }

  /// Waits until PQgetResult does not.
  private func waitForResult(until end: ContinuousClock.Instant) throws {
    while PQisBusy(connection) == 1 {
      let left = ContinuousClock.now.duration(to: end)
      guard left > .zero else {
        throw PostgreSQLError(state: PostgreSQLError.lost, message: "The server does not answer")
      }
      var descriptor = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
      _ = poll(&descriptor, 1, Int32(left / .milliseconds(1)))
      guard PQconsumeInput(connection) == 1 else {
        throw PostgreSQLError(state: PostgreSQLError.lost, message: String(cString: PQerrorMessage(connection)))
      }
    }
  }

  // MARK: Transactions

  /// Sends the statements that begin a transaction.
  func begin(_ statements: [String]) throws {
    if isInTransaction { try rollBack() }
    failure = nil
    ahead = [:]
    isPipelined = true
    for statement in statements {
      try send(nil) { PQsendQueryParams(connection, statement, 0, nil, nil, nil, nil, 0) }
    }
  }

  func commit() throws {
    try throwFailure()
    let answer = try asked { try send($0) { PQsendQueryParams(connection, "COMMIT", 0, nil, nil, nil, nil, 0) } }
    isPipelined = false
    unusedReads += ahead.values.reduce(0) { $0 + $1.count }
    ahead = [:]
    // After an error a COMMIT is a ROLLBACK, without an error of its own.
    guard answer.isCommit else {
      throw PostgreSQLError(state: PostgreSQLError.failedTransaction, message: "The transaction was rolled back")
    }
  }

  func rollBack() throws {
    settle()
    failure = nil
    isPipelined = false
    ahead = [:]
    roundTrips += 1
    _ = try Answer(PQexec(connection, "ROLLBACK"), connection)
  }

  // MARK: The pipeline

  private func send(_ expected: Expected?, _ call: () -> Int32) throws {
    if pending.isEmpty { PQenterPipelineMode(connection) }
    guard call() == 1 else {
      throw PostgreSQLError(state: PostgreSQLError.lost, message: String(cString: PQerrorMessage(connection)))
    }
    pending.append(expected)
  }

  /// Sends a statement, and reads the answers up to its own.
  private func asked(_ send: (Expected) throws -> Void) throws -> Answer {
    let expected = Expected()
    try send(expected)
    return try answer(to: expected)
  }

  private func answer(to expected: Expected) throws -> Answer {
    if expected.answer == nil { settle() }
    try throwFailure()
    guard let answer = expected.answer else {
      throw PostgreSQLError(state: PostgreSQLError.lost, message: "There is no answer")
    }
    return answer
  }

  /// Reads the answers to everything that was sent.
  private func settle() {
    guard !pending.isEmpty else { return }
    defer {
      pending = []
      PQexitPipelineMode(connection)
    }
    PQpipelineSync(connection)
    roundTrips += 1
    for expected in pending {
      do {
        let answer = try Answer(PQgetResult(connection), connection)
        if let expected { expected.answer = answer } else { changed = answer.changes }
      } catch {
        failure = failure ?? error as? PostgreSQLError
      }
      // After an error PostgreSQL skips the others.
      while let rest = PQgetResult(connection) { PQclear(rest) }
    }
    // The answer to the end of the pipeline.
    PQclear(PQgetResult(connection))
  }

  private func settleWell() throws {
    settle()
    try throwFailure()
  }

  private func throwFailure() throws { if let failure { throw failure } }

  // MARK: Ahead

  /// A statement with its values.
  private struct Query: Hashable {
    var name: String
    var values: PostgreSQLValues
  }

  /// The answer to a statement that was sent; `nil` until it was read.
  private final class Expected {
    var answer: Answer?
  }

  func readAhead(_ queries: () -> Void) {
    guard isPipelined else { return }
    isAhead = true
    defer { isAhead = false }
    queries()
  }

  // MARK: Statements

  func statement(_ sql: SQL) throws -> any SQLStatement {
    if let known = statements[sql.start] { return known }
    try settleWell()
    roundTrips += 1
    let new = PostgreSQLStatement(name: "s\(statements.count)", of: self)
    _ = try Answer(PQprepare(connection, new.name, Self.translated(sql.text), 0, nil), connection)
    statements[sql.start] = new
    return new
  }

  /// The rows of a query without values that is run once.
  func rows(of sql: String) throws -> PostgreSQLStatement {
    try settleWell()
    return PostgreSQLStatement(name: "", of: self, answer: try Answer(PQexec(connection, sql), connection))
  }

  /// `?` becomes `$1`, `$2`, …, and what is for PostgreSQL alone a part of the statement.
  static func translated(_ sql: String) -> String {
    var text = ""
    var rest = sql[...]
    var number = 0
    var isQuoted = false
    while let character = rest.popFirst() {
      switch character {
      case "'":
        isQuoted.toggle()
        text.append(character)
      case "?" where !isQuoted:
        number += 1
        text += "$\(number)"
      case "/" where !isQuoted && rest.hasPrefix("*pg:"):
        rest.removeFirst("*pg:".count)
        guard let end = rest.firstRange(of: "*/") else { continue }
        text += rest[..<end.lowerBound]
        rest = rest[end.upperBound...]
      default: text.append(character)
      }
    }
    return text
  }

  /// Runs a prepared statement with values in one buffer, each with its place; a text ends with a zero.
  /// - Returns: `nil` for a query that was sent ahead.
  fileprivate func execute(_ name: String, _ values: PostgreSQLValues) throws -> Answer? {
    try throwFailure()
    if isAhead {
      let expected = Expected()
      try send(name, values, expected)
      ahead[Query(name: name, values: values), default: []].append(expected)
      return nil
    }
    // Hashing long values for nothing is left out.
    if !ahead.isEmpty {
      let query = Query(name: name, values: values)
      if var expected = ahead.removeValue(forKey: query) {
        let first = expected.removeFirst()
        if !expected.isEmpty { ahead[query] = expected }
        return try answer(to: first)
      }
    }
    let answer =
      if pending.isEmpty {
        try values.withPointers { count, pointers, lengths, formats in
          roundTrips += 1
          return try Answer(PQexecPrepared(connection, name, count, pointers, lengths, formats, 0), connection)
        }
      } else {
        try asked { try send(name, values, $0) }
      }
    changed = answer.changes
    return answer
  }

  /// Runs a prepared statement whose rows nobody wants.
  fileprivate func run(_ name: String, _ values: PostgreSQLValues) throws {
    guard isPipelined else { return _ = try execute(name, values) }
    try send(name, values, nil)
  }

  private func send(_ name: String, _ values: PostgreSQLValues, _ expected: Expected?) throws {
    try throwFailure()
    try values.withPointers { count, pointers, lengths, formats in
      try send(expected) { PQsendQueryPrepared(connection, name, count, pointers, lengths, formats, 0) }
    }
  }

  /// The rows of a statement, as text.
  final class Answer {
    private let result: OpaquePointer
    let rows: Int32

    /// - Throws: `PostgreSQLError`.
    init(_ result: OpaquePointer?, _ connection: OpaquePointer) throws {
      guard let result else {
        throw PostgreSQLError(state: PostgreSQLError.lost, message: String(cString: PQerrorMessage(connection)))
      }
      switch PQresultStatus(result) {
      case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
        self.result = result
        rows = PQntuples(result)
      default:
        defer { PQclear(result) }
        func field(_ code: Unicode.Scalar) -> String? {
          PQresultErrorField(result, Int32(code.value)).map { String(cString: $0) }
        }
        // PG_DIAG_SQLSTATE and PG_DIAG_MESSAGE_PRIMARY.
        throw PostgreSQLError(
          state: field("C") ?? PostgreSQLError.lost, message: field("M") ?? String(cString: PQerrorMessage(connection)))
      }
    }

    deinit { PQclear(result) }

    var changes: Int { Int(String(cString: PQcmdTuples(result))) ?? 0 }
    var isCommit: Bool { String(cString: PQcmdStatus(result)) == "COMMIT" }

    func isNull(_ row: Int32, _ column: Int32) -> Bool { PQgetisnull(result, row, column) == 1 }

    func bytes(_ row: Int32, _ column: Int32) -> UnsafeRawBufferPointer {
      UnsafeRawBufferPointer(
        start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column)))
    }

    func text(_ row: Int32, _ column: Int32) -> String { String(decoding: bytes(row, column), as: UTF8.self) }
  }
}

final class PostgreSQLStatement: SQLStatement {
  let name: String
  private unowned let connection: PostgreSQLConnection
  private var values = PostgreSQLValues()
  private var answer: PostgreSQLConnection.Answer?
  private var row: Int32 = -1

  init(name: String, of connection: PostgreSQLConnection, answer: PostgreSQLConnection.Answer? = nil) {
    self.name = name
    self.connection = connection
    self.answer = answer
  }

  func bindNull(at index: Int) throws { values.setNull(at: index) }
  func bind(_ value: Int64, at index: Int) throws { values.set(String(value), at: index) }
  func bind(_ value: String, at index: Int) throws { values.set(value, at: index) }
  func bind(_ value: [UInt8], at index: Int) throws { values.set(value, at: index) }

  func run() throws { try connection.run(name, values) }

  func step() throws -> Bool {
    guard let answer = try self.answer ?? connection.execute(name, values) else { return false }
    self.answer = answer
    row += 1
    return row < answer.rows
  }

  func reset() {
    answer = nil
    row = -1
    values.removeAll()
  }

  private func present(_ column: Int) throws -> PostgreSQLConnection.Answer {
    guard let answer, !isNull(column) else { throw StoredForm.Unstorable() }
    return answer
  }

  func isNull(_ column: Int) -> Bool {
    guard let answer, row >= 0, row < answer.rows else { return true }
    return answer.isNull(row, Int32(column))
  }

  func integer(_ column: Int) throws -> Int64 {
    guard let integer = Int64(try text(column)) else { throw StoredForm.Unstorable() }
    return integer
  }

  func text(_ column: Int) throws -> String { try present(column).text(row, Int32(column)) }

  /// PostgreSQL writes bytes as `\x` and two hexadecimal digits each (its manual, 8.4.1).
  func blob(_ column: Int) throws -> [UInt8] {
    let answer = try present(column)
    let digits = answer.bytes(row, Int32(column))
    guard digits.count >= 2, digits.count.isMultiple(of: 2), digits[0] == 0x5C, digits[1] == 0x78 else {
      throw StoredForm.Unstorable()
    }
    return try [UInt8](unsafeUninitializedCapacity: digits.count / 2 - 1) { bytes, count in
      for index in 0..<digits.count / 2 - 1 {
        guard let high = Self.value(digits[2 + 2 * index]), let low = Self.value(digits[3 + 2 * index]) else {
          throw StoredForm.Unstorable()
        }
        bytes[index] = high << 4 | low
        count = index + 1
      }
    }
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case 0x30...0x39: digit - 0x30
    case 0x61...0x66: digit - 0x61 + 10
    default: nil
    }
  }
}
