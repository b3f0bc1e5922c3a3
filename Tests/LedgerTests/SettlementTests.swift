import Entitlements
import LedgerFixtures
import Testing

@testable import Ledger

/// A profile row that was written is settled with a later commit.
@Suite(.ofTheFile, .timeLimit(.minutes(10))) struct SettlementTests {
  @Test func `a row whose settlement fails waits again`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      let update = try #require(try await ledger.waitingUpdate(of: "anna"))
      try await ledger.engine.submit { tables in try tables.execute("PRAGMA query_only = 1") }
      ledger.settleLater(update, isDoubtful: false, confirmingAt: nil)
      while try await ledger.waitingUpdate(of: "anna") == nil { try Task.checkCancellation() }
      #expect(try await ledger.waitingUpdate(of: "anna") == update)
    }
  }

  @Test func `a settlement that failed forgets no newer row`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let rows = ledger.memory.rows
      rows.settle(7, of: "anna")
      rows.forget(6, of: "anna")
      #expect(rows.isSettled(7, of: "anna"))
      rows.forget(7, of: "anna")
      #expect(!rows.isSettled(7, of: "anna"))
    }
  }

  @Test func `only some of the rows that a long queue had written are remembered`() {
    let rows = RowsInFlight()
    for number in 0...RowsInFlight.limit { rows.settle(1, of: UserID("u\(number)")) }
    #expect(rows.isSettled(1, of: UserID("u\(RowsInFlight.limit)")))
    #expect(!rows.isSettled(1, of: "u0"))
  }
}
