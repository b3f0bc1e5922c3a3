import TestSupport
import Testing

@Suite struct TemporaryClusterTests {
  @Test func `without PostgreSQL the tests fail and say what to run`() throws {
    let error = #expect(throws: PostgreSQLServer.Failure.self) {
      try PostgreSQLServer.directoryOfPrograms(root: "/nowhere", otherwise: ["/nowhere"])
    }
    #expect(error?.description.contains("make test-deps") == true)
  }

  @Test func `the cluster is this run's own and listens on its socket alone`() async throws {
    let owner = try await TestDatabase(.wide, .app).owner()
    #expect(try await owner.value("show listen_addresses") == "")
    #expect(
      try await owner.value("select setting from pg_settings where name = 'data_directory'")?.contains(
        "/countersign-postgresql.") == true
    )
  }
}
