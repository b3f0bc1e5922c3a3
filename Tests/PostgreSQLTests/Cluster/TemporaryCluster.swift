import TestSupport

/// The server of this run, with the templates of its databases.
enum TemporaryCluster {
  private static let shared = Task.detached {
    let server = try await PostgreSQLServer.start(isDurable: false)
    try await TestDatabase.makeTemplates(on: server)
    return server
  }

  static func running() async throws -> PostgreSQLServer { try await shared.value }
}
