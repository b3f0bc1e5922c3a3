import Entitlements
import Foundation
import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

@Suite struct PendingReceiptTests {
  private func receipt(_ number: Int, of user: String = "u") -> PendingReceipt {
    PendingReceipt(
      user: UserID(user), base64: "receipt-\(number)", requestID: "request-\(number)", receivedAt: clock(Double(number))
    )
  }

  @Test func `a postponed receipt is there after the ledger was opened anew`() async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    #expect(try await ledger.postpone(receipt(1)) == .kept)
    await ledger.close()
    let reopened = try await scratch.open()
    let waiting = try await reopened.pendingReceipts(dueAt: clock(1), limit: 10)
    #expect(waiting.map(\.base64) == ["receipt-1"])
    #expect(waiting.map(\.requestID) == ["request-1"])
    #expect(waiting.map(\.receivedAt) == [at(1)])
    await reopened.close()
  }

  @Test func `the same receipt of the same user is kept once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for _ in 0..<3 { #expect(try await ledger.postpone(receipt(1)) == .kept) }
      #expect(try await ledger.postpone(receipt(1, of: "other")) == .kept)
      let waiting = try await ledger.pendingReceipts(dueAt: clock(100), limit: 10)
      #expect(waiting.count == 2)
    }
  }

  @Test func `a user may have twenty waiting, and others are not held up by that`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 0..<20 { #expect(try await ledger.postpone(receipt(number)) == .kept) }
      #expect(try await ledger.postpone(receipt(20)) == .tooMany)
      #expect(try await ledger.postpone(receipt(3)) == .kept, "one that waits already is kept")
      #expect(try await ledger.postpone(receipt(20, of: "other")) == .kept)
      let first = try #require(try await ledger.pendingReceipts(dueAt: clock(100), limit: 1).first)
      try await ledger.settlePending(first.id)
      #expect(try await ledger.postpone(receipt(20)) == .kept)
    }
  }

  private func large(_ number: Int, bytes: Int, of user: UserID = "u") -> PendingReceipt {
    PendingReceipt(
      user: user, base64: "\(number)" + String(repeating: "x", count: bytes - "\(number)".count), requestID: "r",
      receivedAt: clock(0))
  }

  @Test func `a user's waiting receipts are bounded by their bytes, and others' are not`() async throws {
    let mebibyte = 1 << 20
    try await Scratch.withLedger { ledger, _ in
      #expect(try await ledger.postpone(large(0, bytes: 4 * mebibyte + 1)) == .tooMany)
      #expect(try await ledger.postpone(large(1, bytes: 3 * mebibyte)) == .kept)
      #expect(try await ledger.postpone(large(2, bytes: mebibyte + 1)) == .tooMany)
      #expect(try await ledger.postpone(large(3, bytes: mebibyte)) == .kept)
      #expect(try await ledger.postpone(receipt(4)) == .tooMany)
      #expect(try await ledger.postpone(large(1, bytes: 3 * mebibyte)) == .kept, "one that waits already is kept")
      #expect(try await ledger.postpone(large(5, bytes: 4 * mebibyte, of: "other")) == .kept)
      #expect(try await ledger.backlog(at: clock(0)).pendingReceipts == 3)
      let first = try #require(try await ledger.pendingReceipts(dueAt: clock(0), limit: 1).first)
      try await ledger.settlePending(first.id)
      #expect(try await ledger.postpone(receipt(4)) == .kept)
    }
  }

  @Test(.ofTheFile) func `waiting receipts are bounded together, and one that goes makes room`() async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    #expect(try await ledger.postpone(large(1, bytes: 100)) == .kept)
    #expect(try await ledger.postpone(large(2, bytes: 50)) == .kept)
    await ledger.close()
    // As if others' receipts took all but 120 bytes of the room that is left.
    let file = try SQLiteFile(scratch.path)
    #expect(try file.first("SELECT bytes FROM pending_total", as: Int.self) == 150)
    try file.run("UPDATE pending_total SET bytes = (1 << 30) - 120")
    file.close()
    let full = try await scratch.open()
    #expect(try await full.postpone(large(3, bytes: 121, of: "other")) == .full)
    #expect(try await full.backlog(at: clock(0)).pendingReceipts == 2)
    #expect(try await full.postpone(large(1, bytes: 100)) == .kept, "one that waits already is kept")
    let first = try #require(try await full.pendingReceipts(dueAt: clock(0), limit: 1).first)
    try await full.settlePending(first.id)
    #expect(try await full.postpone(large(3, bytes: 121, of: "other")) == .kept)
    #expect(try await full.postpone(large(4, bytes: 100, of: "another")) == .full)
    await full.close()
  }

  @Test func `in PostgreSQL dead rows of the table take no room of the queue's`() async throws {
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    let ledger = try await Ledger.open(url: server.url(of: database), connections: 1)
    #expect(try await ledger.postpone(large(1, bytes: 100)) == .kept)
    // As after an outage that filled the queue.
    try await server.run(
      "CREATE OR REPLACE VIEW pending_total AS SELECT 1 AS id, 1::BIGINT << 30 AS bytes", on: database)
    #expect(try await ledger.postpone(large(2, bytes: 100, of: "other")) == .kept)
    #expect(try await ledger.postpone(large(2, bytes: 100, of: "other")) == .kept, "one that waits already is kept")
    #expect(try await ledger.backlog(at: clock(0)).pendingReceipts == 2)
    let size = try await ledger.read { tables in try tables.pending.size() }
    #expect(size == 200)
    let third = Postpone(large(3, bytes: 100), provisional: [], evaluationContext)
    let room = 1 << 30
    let full = try await ledger.engine.submit { tables in try third.run(tables, waiting: room - 99) }
    #expect(full == .full)
    await ledger.close()
  }

  @Test(.ofTheFile) func `the longest waiting is due first, and one put back waits for its time`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in [3, 1, 2] { #expect(try await ledger.postpone(receipt(number)) == .kept) }
      #expect(try await ledger.pendingReceipts(dueAt: clock(2), limit: 10).map(\.base64) == ["receipt-1", "receipt-2"])
      #expect(try await ledger.pendingReceipts(dueAt: clock(100), limit: 2).count == 2)
      let first = try #require(try await ledger.pendingReceipts(dueAt: clock(1), limit: 1).first)
      try await ledger.retryPending(first.id, at: at(50))
      #expect(
        try await ledger.pendingReceipts(dueAt: clock(49.999), limit: 10).map(\.base64) == ["receipt-2", "receipt-3"])
      let again = try #require(try await ledger.pendingReceipts(dueAt: clock(50), limit: 10).last)
      #expect(again.base64 == "receipt-1")
      #expect(again.attempts == 1)
      try await ledger.retryPending(first.id, at: at(60), isCounted: false)
      #expect(try await ledger.pendingReceipts(dueAt: clock(60), limit: 10).last?.attempts == 1)
      try await ledger.makePendingDue(at: clock(10), within: .seconds(49))
      #expect(try await ledger.pendingReceipts(dueAt: clock(10), limit: 10).count == 2)
      try await ledger.makePendingDue(at: clock(10), within: .seconds(50))
      #expect(try await ledger.pendingReceipts(dueAt: clock(10), limit: 10).last?.base64 == "receipt-1")
    }
  }
}
