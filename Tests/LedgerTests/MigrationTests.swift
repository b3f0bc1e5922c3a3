import Entitlements
import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

/// A ledger under a schema with one more migration than the present one, as the next release may have.
@Suite struct MigrationTests {
  private static let next = LedgerSchema(
    migrations: LedgerSchema.present.migrations + [
      LedgerSchema.Migration(
        identifier: "0002",
        sql: """
          CREATE TABLE coupon (
            code TEXT NOT NULL PRIMARY KEY CHECK (code <> ''),
            user_id TEXT NOT NULL
          ) STRICT, WITHOUT ROWID;
          CREATE INDEX coupon_user_id ON coupon (user_id);
          ALTER TABLE device ADD COLUMN language TEXT;
          INSERT INTO coupon (code, user_id) SELECT 'welcome', key FROM account;
          """,
        postgreSQL: """
          ALTER TABLE device ADD COLUMN language TEXT COLLATE "C";
          INSERT INTO coupon (code, user_id) SELECT 'welcome', key FROM account;
          """)
    ])

  @Test(.ofTheFile) func `a migration keeps what is recorded, and an older release refuses the file`() async throws {
    let scratch = try Scratch()
    var ledger = try await scratch.open()
    _ = try await ledger.record(entry("anna", [evidence("1")], rules: rules))
    await ledger.close()
    ledger = try await Ledger.open(path: scratch.path, synchronous: .full, onFatal: { _ in }, schema: Self.next)
    #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
    _ = try await ledger.record(entry("ben", [evidence("2")], rules: rules))
    await ledger.close()
    #expect(try await scratch.rows("SELECT code, user_id FROM coupon") == [["welcome", "anna"]])
    await #expect(throws: LedgerOpenError.newerSchema(path: scratch.path)) { try await scratch.open() }
    await #expect(throws: LedgerOpenError.newerSchema(path: scratch.path)) {
      try await LedgerVerification.verify(path: scratch.path)
    }
  }

  @Test(.ofTheFile) func `a migration that fails leaves nothing, and those before it stay`() throws {
    let connection = try SQLiteConnection(path: ":memory:")
    let broken = LedgerSchema(
      migrations: LedgerSchema.present.migrations + [
        LedgerSchema.Migration(
          identifier: "0002",
          sql: "CREATE TABLE coupon (code TEXT) STRICT; INSERT INTO heartbeat VALUES (2, 0);")
      ])
    let error = try #require(throws: SQLiteError.self) { try broken.migrate(connection) }
    #expect(error.kind == .constraint)
    #expect(try !connection.isInTransaction && !connection.hasTable("coupon"))
    #expect(try LedgerSchema.present.isComplete(in: connection) && !broken.isComplete(in: connection))
    // A first migration that fails leaves not even the table of those applied.
    let empty = try SQLiteConnection(path: ":memory:")
    #expect(throws: SQLiteError.self) { try LedgerSchema(migrations: [broken.migrations[1]]).migrate(empty) }
    #expect(try empty.value(of: "SELECT count(*) FROM sqlite_master") == 0)
  }

  @Test(.ofTheFile) func `connections that migrate together do so once`() async throws {
    let scratch = try Scratch()
    try await withThrowingTaskGroup { group in
      for _ in 0..<4 {
        group.addTask {
          let connection = try SQLiteConnection(path: scratch.path, patience: .seconds(60))
          try Self.next.migrate(connection)
          #expect(try Self.next.isComplete(in: connection) && !Self.next.isSuperseded(in: connection))
          #expect(try LedgerSchema.present.isSuperseded(in: connection))
        }
      }
      try await group.waitForAll()
    }
    let applied: [[String?]] = try await scratch.rows("SELECT identifier FROM ledger_migration ORDER BY identifier")
    #expect(applied == Self.next.migrations.map { [$0.identifier] })
  }

  @Test func `replicas of both releases record in a migrated database`() async throws {
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    let url = server.url(of: database)
    let former = try await Ledger.open(url: url, connections: 1)
    #expect(former.isNew)
    _ = try await former.record(entry("anna", [evidence("1")], rules: rules))
    // Those that start together migrate once.
    let replicas = try await withThrowingTaskGroup(of: Ledger.self) { group in
      for _ in 0..<3 {
        group.addTask { try await Ledger.open(url: url, connections: 1, settings: .init(), schema: Self.next) }
      }
      return try await group.reduce(into: [Ledger]()) { $0.append($1) }
    }
    for replica in replicas { #expect(!replica.isNew) }
    for (ledger, user) in zip([former] + replicas, ["ben", "carl", "dora", "emil"] as [UserID]) {
      _ = try await ledger.record(entry(user, [evidence(user.rawValue)], rules: rules))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
    }
    #expect(try await former.profile(of: "emil")?.entitlement.tier == "pro")
    for ledger in [former] + replicas { await ledger.close() }
    #expect(try await server.run("SELECT code, user_id FROM coupon", on: database) == [["welcome", "anna"]])
    #expect(try await server.run("SELECT language FROM device", on: database) == [])
    // The older release neither starts nor verifies any more.
    await #expect { try await LedgerVerification.verify(url: url) } throws: {
      if case LedgerOpenError.newerSchema = $0 { true } else { false }
    }
    await #expect(throws: LedgerOpenError.self) { _ = try await Ledger.open(url: url, connections: 1) }
  }

  /// Replicas of the release before go on beside a migrated database.
  @Test func `a later migration changes no table but by columns`() throws {
    let first = try PostgreSQLSchema.statements(of: .present, after: [])
    let later = try PostgreSQLSchema.statements(of: Self.next, after: LedgerSchema.present.migrations.map(\.identifier))
    #expect(first.count > 80)
    #expect(later.count == 3)
    #expect(later.first?.hasPrefix("CREATE TABLE coupon") == true)
    #expect(later.last == Self.next.migrations.last?.postgreSQL)
  }
}
