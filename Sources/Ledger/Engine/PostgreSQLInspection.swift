/// A PostgreSQL server with a ledger, looked at by another process than the service. Nothing is changed.
package struct PostgreSQLInspection: Hashable, Sendable {
  package var version: String
  package var synchronousCommit: String
  /// Standbys that are connected to the server.
  package var standbys: Int
  /// Connections that the server would still take.
  package var connectionsLeft: Int
  /// Processes that have the ledger open; `nil` for a database without its tables.
  package var replicas: Int?

  package static func inspect(url: String) async throws(LedgerOpenError) -> PostgreSQLInspection {
    let address = try PostgreSQLAddress(url)
    return try await blocking { () throws(LedgerOpenError) in
      try address.checked { connection in
        func integer(_ sql: String) throws -> Int { Int(try connection.run(sql) ?? "") ?? 0 }
        let hasTables = try connection.run("SELECT to_regclass('replica')::text") != nil
        return PostgreSQLInspection(
          version: try connection.run("SHOW server_version") ?? "",
          synchronousCommit: try connection.run("SHOW synchronous_commit") ?? "",
          standbys: try integer("SELECT count(*) FROM pg_stat_replication"),
          connectionsLeft: try integer(
            "SELECT current_setting('max_connections')::int - count(*) FROM pg_stat_activity"),
          replicas: hasTables ? try LedgerTables(connection).replicasAlive() : nil)
      }
    }
  }
}
