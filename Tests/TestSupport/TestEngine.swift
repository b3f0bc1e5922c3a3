import Foundation

/// The engine on which the tests of the ledger and the service run. `COUNTERSIGN_TEST_ENGINE=postgresql` has them run on
/// PostgreSQL; those about SQLite's file are skipped then.
package enum TestEngine {
  package static let isPostgreSQL = ProcessInfo.processInfo.environment["COUNTERSIGN_TEST_ENGINE"] == "postgresql"

  private static let server = Task.detached { try await PostgreSQLServer.start(isDurable: true) }

  /// The server of this run; it keeps what it acknowledges, as a ledger asks for.
  package static func running() async throws -> PostgreSQLServer { try await server.value }
}
