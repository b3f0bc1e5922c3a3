import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

/// The writes of a record, counted in the pages that SQLite appends to its log. In a ledger so small that each B-tree
/// is one page, that is the number of B-trees that the record changes.
@Suite(.ofTheFile) struct RecordCostTests {
  /// account, purchase with two indexes, proof, event with the index of changes, outbox with one, the count of users with access,
  /// what others are told, and what is to be counted of the purchase and of the user.
  @Test func `a new user's receipt changes thirteen B-trees`() async throws {
    let pages = try await Self.pages { try Self.record("ben", "2", in: $0) }
    #expect(pages == 13)
  }

  /// account, purchase with the index of what is due, proof, event, outbox with one, what others are told, and what is to
  /// be counted. Nobody comes to own anything. The period before is kept for the figures.
  @Test func `an answer of a later period changes ten`() async throws {
    let pages = try await Self.pages { try Self.record("anna", "1", time: 2_000, in: $0) }
    #expect(pages == 10)
  }

  @Test func `a row that was told changes two`() async throws {
    let pages = try await Self.pages {
      try $0.outbox.settle(updateOf: "anna", version: milliseconds(0), isDoubtful: false, confirmingAt: nil)
    }
    #expect(pages == 2)
  }

  @Test func `the same answer again writes nothing`() async throws {
    #expect(try await Self.pages { try Self.record("anna", "1", in: $0) } == 0)
  }

  private static func record(_ user: UserID, _ id: String, time: Double = 0, in tables: LedgerTables) throws {
    let answer = entry(
      user, [evidence(id, time: time, expires: time + 1_000)], receipt: "receipt-\(id)-\(time)",
      rules: checkedRules)
    let outcome = try RecordOperation(prepared: PreparedEntry(answer), tables: tables).run()
    #expect(outcome.recorded != nil)
  }

  /// The pages that one transaction writes on a ledger in which Anna has a subscription.
  private static func pages(_ write: @escaping @Sendable (LedgerTables) throws -> Void) async throws -> Int {
    let scratch = try Scratch()
    await (try await scratch.open()).close()
    let file = try SQLiteConnection(path: scratch.path)
    let tables = LedgerTables(file)
    try file.run("PRAGMA wal_autocheckpoint = 0")
    try file.write { try record("anna", "1", in: tables) }
    try file.copyLog(emptying: true)
    try file.write { try write(tables) }
    let log = try FileManager.default.attributesOfItem(atPath: scratch.path + "-wal")[.size] as? Int ?? 0
    file.close()
    // https://www.sqlite.org/fileformat2.html#the_write_ahead_log: a header, then pages with a header each.
    return max(0, log - 32) / (4_096 + 24)
  }
}
