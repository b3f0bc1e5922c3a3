import Entitlements
import Foundation
import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

/// The round trips of a record, the largest cost of a ledger on another machine; queries that are sent ahead; and plans.
@Suite struct RoundTripTests {
  private static func connected(_ body: (PostgreSQLConnection) throws -> Void) async throws {
    let url = try await TestEngine.newURL()
    await (try await Ledger.open(url: url, connections: 1)).close()
    try body(try PostgreSQLAddress(url).connect())
  }

  private static func record(
    _ user: UserID, _ id: String, time: Double, receipt: String, in tables: LedgerTables
  ) throws {
    let answer = entry(user, [evidence(id, time: time, expires: time + 1_000)], receipt: receipt, rules: rules)
    #expect(try RecordOperation(prepared: PreparedEntry(answer), tables: tables).run().recorded != nil)
  }

  /// The round trips of a transaction whose statements are all prepared.
  private static func roundTrips(
    _ connection: PostgreSQLConnection, _ body: (LedgerTables) throws -> Void
  ) throws -> Int {
    let tables = LedgerTables(connection)
    let before = connection.roundTrips
    try connection.begin(["BEGIN ISOLATION LEVEL SERIALIZABLE"])
    try body(tables)
    try connection.commit()
    return connection.roundTrips - before
  }

  @Test func `a record waits for few answers`() async throws {
    try await Self.connected { connection in
      let (anna, ben) = (UserID(UUID().uuidString), UserID(UUID().uuidString))
      for (time, receipt) in [(0.0, "first"), (1_000, "first"), (2_000, "second")] {
        _ = try Self.roundTrips(connection) { try Self.record(anna, "1", time: time, receipt: receipt, in: $0) }
      }
      // The known records; the numbers of the new rows; the commit.
      #expect(try Self.roundTrips(connection) { try Self.record(ben, "2", time: 0, receipt: "first", in: $0) } == 3)
      // Besides: the former verdict and proof.
      #expect(try Self.roundTrips(connection) { try Self.record(ben, "2", time: 1_000, receipt: "first", in: $0) } == 4)
      // Whether the proof could be replaced is answered with the new rows' numbers.
      #expect(
        try Self.roundTrips(connection) { try Self.record(ben, "2", time: 2_000, receipt: "second", in: $0) } == 4)
      #expect(connection.unusedReads == 0)
    }
  }

  @Test func `a statement that goes through rows in portions uses an index for each`() async throws {
    try await Self.connected { connection in
      let tables = LedgerTables(connection)
      try connection.begin(["BEGIN ISOLATION LEVEL SERIALIZABLE"])
      _ = try tables.notifications.prune(before: at(0), limit: 500)
      for table in SupportTable.EvidenceTable.allCases {
        _ = try tables.support.purchases(with: "1", in: table, below: .max, limit: 500)
      }
      _ = try tables.outbox.release(putOffBeyond: at(0), limit: 500)
      try connection.commit()
      // The plans are generic, so that NULL stands for any value.
      let statements = try Self.column(
        """
        SELECT name || '(' || array_to_string(array_fill('NULL'::text, ARRAY[cardinality(parameter_types)]), ', ') || ')'
        FROM pg_prepared_statements ORDER BY name
        """, connection)
      #expect(statements.count == 8)
      for statement in statements {
        let plan = try Self.column("EXPLAIN EXECUTE \(statement)", connection)
        #expect(!plan.contains { $0.contains("Seq Scan") }, "\(plan.joined(separator: "\n"))")
      }
    }
  }

  private static func column(_ sql: String, _ connection: PostgreSQLConnection) throws -> [String] {
    let rows = try connection.rows(of: sql)
    var texts: [String] = []
    while try rows.step() { texts.append(try rows.text(0)) }
    return texts
  }

  @Test func `a record of a further purchase reads ahead the others, and nothing else`() async throws {
    try await Self.connected { connection in
      for (user, trips) in [(UserID(UUID().uuidString), nil), (UserID(UUID().uuidString), 4)] {
        let ids = [1, 2].map { "\($0) of \(user)" }
        _ = try Self.roundTrips(connection) { try Self.record(user, ids[0], time: 0, receipt: ids[0], in: $0) }
        let further = try Self.roundTrips(connection) {
          try Self.record(user, ids[1], time: 1_000, receipt: ids[1], in: $0)
        }
        // The known records; the former verdict and the other purchase; the numbers of the new rows; the commit. The
        // first user's statements had to be prepared.
        if let trips { #expect(further == trips) }
        #expect(connection.unusedReads == 0)
      }
    }
  }

  @Test func `a query that was sent ahead is answered once, as it was then`() async throws {
    try await Self.connected { connection in
      let tables = LedgerTables(connection)
      try connection.begin(["BEGIN"])
      try tables.keepMemo("one", "first")
      tables.readAhead {
        #expect((try? tables.memo("one")) == .some(nil))
        _ = try? tables.memo("two")
      }
      try tables.keepMemo("one", "second")
      #expect(try tables.memo("two") == nil)
      #expect(try tables.memo("one") == "first")
      #expect(try tables.memo("one") == "second")
      try connection.commit()
    }
  }

  @Test func `an answer that nobody asked for is gone with its transaction`() async throws {
    try await Self.connected { connection in
      let tables = LedgerTables(connection)
      try connection.begin(["BEGIN"])
      tables.readAhead { _ = try? tables.memo("one") }
      try tables.keepMemo("one", "first")
      try connection.commit()
      #expect(connection.unusedReads == 1)
      try connection.begin(["BEGIN"])
      #expect(try tables.memo("one") == "first")
      tables.readAhead { _ = try? tables.memo("one") }
      try connection.rollBack()
      try tables.keepMemo("one", "second")
      #expect(try tables.memo("one") == "second")
    }
  }

  @Test func `an error of a query that was sent ahead ends the transaction`() async throws {
    try await Self.connected { connection in
      let tables = LedgerTables(connection)
      try connection.begin(["BEGIN"])
      _ = try tables.memo("one")
      _ = try connection.run("DROP TABLE memo")
      tables.readAhead { _ = try? tables.memo("one") }
      #expect(throws: PostgreSQLError.self) { try tables.memo("one") }
      #expect(throws: PostgreSQLError.self) { try connection.commit() }
      try connection.rollBack()
      #expect(try tables.memo("one") == nil)
    }
  }
}
