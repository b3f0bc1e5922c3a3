import TestSupport
import Testing

@testable import Ledger

/// Statements whose rows nobody wants are answered later: nothing of them may be lost, nor their errors.
@Suite struct PostgreSQLPipelineTests {
  private static func connected(_ body: (PostgreSQLConnection) throws -> Void) async throws {
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    _ = try await server.run("CREATE TABLE one (id BIGINT PRIMARY KEY, text TEXT)", on: database)
    try body(try PostgreSQLAddress(server.url(of: database)).connect())
  }

  private static func add(_ id: Int64, _ connection: PostgreSQLConnection) throws {
    try connection.execute("INSERT INTO one (id, text) VALUES (?, ?)", id, "text")
  }

  private static func ids(_ connection: PostgreSQLConnection) throws -> [Int64] {
    try connection.all("SELECT id FROM one ORDER BY id") { try $0.get(0) }
  }

  @Test func `a statement that was sent is seen by the next read, and after the commit`() async throws {
    try await Self.connected { connection in
      try connection.begin(["BEGIN ISOLATION LEVEL SERIALIZABLE"])
      for id in 1...3 { try Self.add(Int64(id), connection) }
      #expect(try Self.ids(connection) == [1, 2, 3])
      try connection.execute("UPDATE one SET text = ? WHERE id > ?", "new", 1)
      #expect(connection.changes == 2)
      try Self.add(4, connection)
      #expect(connection.isInTransaction)
      try connection.commit()
      #expect(!connection.isInTransaction)
      #expect(try Self.ids(connection) == [1, 2, 3, 4])
    }
  }

  @Test func `an error is thrown by the next that reads, or by the commit, and nothing is kept`() async throws {
    try await Self.connected { connection in
      try connection.begin(["BEGIN"])
      try Self.add(1, connection)
      try Self.add(1, connection)
      try Self.add(2, connection)
      let error = try #require(#expect(throws: PostgreSQLError.self) { try connection.commit() })
      #expect(error.state == "23505")
      try connection.begin(["BEGIN"])
      #expect(try Self.ids(connection) == [])
      try Self.add(1, connection)
      try Self.add(1, connection)
      #expect(throws: error) { try Self.ids(connection) }
      // The transaction has failed, whoever caught the error.
      #expect(throws: error) { try Self.add(3, connection) }
      #expect(throws: error) { try connection.commit() }
      try connection.rollBack()
      try Self.add(5, connection)
      #expect(try Self.ids(connection) == [5])
    }
  }

  @Test func `an error that only a count has met is thrown by the commit`() async throws {
    try await Self.connected { connection in
      try connection.begin(["BEGIN"])
      try Self.add(1, connection)
      try Self.add(1, connection)
      _ = connection.changes
      #expect(throws: PostgreSQLError.self) { try connection.commit() }
      try connection.begin(["BEGIN"])
      try Self.add(2, connection)
      try connection.commit()
      #expect(try Self.ids(connection) == [2])
    }
  }

  @Test func `without a transaction a statement is run at once`() async throws {
    try await Self.connected { connection in
      try Self.add(1, connection)
      #expect(throws: PostgreSQLError.self) { try Self.add(1, connection) }
      #expect(try connection.run("SELECT count(*) FROM one") == "1")
    }
  }

  @Test func `an open transaction is gone with its connection`() async throws {
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    _ = try await server.run("CREATE TABLE one (id BIGINT PRIMARY KEY, text TEXT)", on: database)
    let connection = try PostgreSQLAddress(server.url(of: database)).connect()
    try connection.begin(["BEGIN"])
    try Self.add(1, connection)
    _ = try await server.run(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(database)' AND pid <> pg_backend_pid()",
      on: database)
    let error = #expect(throws: PostgreSQLError.self) { try connection.commit() }
    #expect(error?.endsConnection == true)
    #expect(!connection.isUsable)
    #expect(try await server.run("SELECT count(*) FROM one", on: database) == [["0"]])
  }
}
