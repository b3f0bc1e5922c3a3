import CPostgreSQL
import Foundation
import TestSupport

/// One connection, by libpq. Its calls block, so it has a thread of its own to run on.
actor Connection {
  private let server: ServerConnection
  private let executor: QueueExecutor

  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  private init(executor: QueueExecutor, server: sending ServerConnection) {
    self.executor = executor
    processID = server.processID
    self.server = server
  }

  static func open(
    _ database: String, on cluster: PostgreSQLServer, as role: String = "postgres"
  ) async throws -> Connection {
    let executor = QueueExecutor()
    let conninfo =
      "host=\(cluster.directory) dbname=\(database) user=\(role) application_name=tests client_encoding=UTF8"
    let server = try await withCheckedThrowingContinuation { continuation in
      executor.queue.async {
        do {
          continuation.resume(returning: try ServerConnection(conninfo))
        } catch {
          continuation.resume(throwing: error)
        }
      }
    }
    return Connection(executor: executor, server: server)
  }

  /// One statement. Parameters are text; PostgreSQL infers their types.
  @discardableResult
  func query(_ sql: String, _ parameters: [String?] = []) throws -> [[String?]] {
    try server.query(sql, parameters)
  }

  /// Any number of statements, in one transaction unless they say otherwise.
  func run(_ script: String) throws { try server.run(script) }

  /// How many rows the statement touched.
  func execute(_ sql: String, _ parameters: [String?] = []) throws -> Int {
    _ = try server.query(sql, parameters)
    return server.rowsTouched
  }

  /// The first column of the first row.
  func value(_ sql: String, _ parameters: [String?] = []) throws -> String? {
    try server.query(sql, parameters).first?.first ?? nil
  }

  /// As PostgREST does it: one transaction, in which the connection is this caller.
  func `as`<Result: Sendable>(
    _ caller: Caller, readOnly: Bool = false, _ body: @Sendable (isolated Connection) throws -> Result
  ) throws -> Result {
    try begin(caller, readOnly: readOnly)
    do {
      let result = try body(self)
      try server.query("commit", [])
      return result
    } catch {
      _ = try? server.query("rollback", [])
      throw error
    }
  }

  /// Leaves the transaction open.
  func begin(_ caller: Caller, readOnly: Bool = false) throws {
    try server.query(readOnly ? "begin read only" : "begin", [])
    try server.query(
      "select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)",
      [caller.role, caller.claims])
  }

  func commit() throws { try server.query("commit", []) }

  /// Of the server's process for this connection.
  let processID: String
}

/// Runs an actor on a dispatch queue's threads, which may block.
private final class QueueExecutor: SerialExecutor {
  let queue = DispatchQueue(label: "postgresql")

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
  }
}

/// Owns a `PGconn`.
private final class ServerConnection {
  private let connection: OpaquePointer
  private(set) var rowsTouched = 0
  let processID: String

  init(_ conninfo: String) throws {
    guard let connection = PQconnectdb(conninfo) else {
      throw PostgreSQLError(sqlState: "53200", message: "out of memory")
    }
    guard PQstatus(connection) == CONNECTION_OK else {
      defer { PQfinish(connection) }
      throw PostgreSQLError(sqlState: "08006", message: String(cString: PQerrorMessage(connection)))
    }
    PQsetNoticeProcessor(connection, { _, _ in }, nil)
    processID = "\(PQbackendPID(connection))"
    self.connection = connection
  }

  deinit { PQfinish(connection) }

  func run(_ script: String) throws {
    _ = try rows(of: PQexec(connection, script))
  }

  @discardableResult
  func query(_ sql: String, _ parameters: [String?]) throws -> [[String?]] {
    let texts = parameters.map { $0.map { strdup($0) } ?? nil }
    defer { for text in texts { free(text) } }
    let values = texts.map { $0.map { UnsafePointer<CChar>($0) } }
    return try rows(of: PQexecParams(connection, sql, Int32(values.count), nil, values, nil, nil, 0))
  }

  /// Frees the result.
  private func rows(of result: OpaquePointer?) throws -> [[String?]] {
    guard let result else {
      throw PostgreSQLError(sqlState: "08006", message: String(cString: PQerrorMessage(connection)))
    }
    defer { PQclear(result) }
    switch PQresultStatus(result) {
    case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
      rowsTouched = Int(String(cString: PQcmdTuples(result))) ?? 0
      return (0..<PQntuples(result)).map { row in
        (0..<PQnfields(result)).map { column in
          PQgetisnull(result, row, column) == 1 ? nil : String(cString: PQgetvalue(result, row, column))
        }
      }
    default:
      func field(_ code: Character) -> String? {
        PQresultErrorField(result, Int32(code.asciiValue ?? 0)).map { String(cString: $0) }
      }
      throw PostgreSQLError(
        sqlState: field("C") ?? "08006", message: field("M") ?? String(cString: PQerrorMessage(connection)),
        detail: field("D"), hint: field("H"))
    }
  }
}
