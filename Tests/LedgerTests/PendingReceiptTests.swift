import Entitlements
import Foundation
import Testing

@testable import Ledger

@Suite struct PendingReceiptTests {
  private func receipt(_ number: Int, of user: String = "u") -> PendingReceipt {
    PendingReceipt(
      user: UserID(user), base64: "receipt-\(number)", requestID: "request-\(number)", receivedAt: at(Double(number)))
  }

  @Test func `a postponed receipt is there after the ledger was opened anew`() async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    #expect(try await ledger.postpone(receipt(1)) == .kept)
    await ledger.close()
    let reopened = try await scratch.open()
    let waiting = try await reopened.pendingReceipts(dueAt: at(1), limit: 10)
    #expect(waiting.map(\.base64) == ["receipt-1"])
    #expect(waiting.map(\.requestID) == ["request-1"])
    #expect(waiting.map(\.receivedAt) == [at(1)])
    await reopened.close()
  }

  @Test func `the same receipt of the same user is kept once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for _ in 0..<3 { #expect(try await ledger.postpone(receipt(1)) == .kept) }
      #expect(try await ledger.postpone(receipt(1, of: "other")) == .kept)
      let waiting = try await ledger.pendingReceipts(dueAt: at(100), limit: 10)
      #expect(waiting.count == 2)
    }
  }

  @Test func `a user may have twenty waiting, and others are not held up by that`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 0..<20 { #expect(try await ledger.postpone(receipt(number)) == .kept) }
      #expect(try await ledger.postpone(receipt(20)) == .tooMany)
      #expect(try await ledger.postpone(receipt(3)) == .kept, "one that waits already is kept")
      #expect(try await ledger.postpone(receipt(20, of: "other")) == .kept)
      let first = try #require(try await ledger.pendingReceipts(dueAt: at(100), limit: 1).first)
      try await ledger.settlePending(first.id)
      #expect(try await ledger.postpone(receipt(20)) == .kept)
    }
  }

  @Test func `the longest waiting is due first, and one put back waits for its time`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in [3, 1, 2] { #expect(try await ledger.postpone(receipt(number)) == .kept) }
      #expect(try await ledger.pendingReceipts(dueAt: at(2), limit: 10).map(\.base64) == ["receipt-1", "receipt-2"])
      #expect(try await ledger.pendingReceipts(dueAt: at(100), limit: 2).count == 2)
      let first = try #require(try await ledger.pendingReceipts(dueAt: at(1), limit: 1).first)
      try await ledger.retryPending(first.id, at: at(50))
      #expect(
        try await ledger.pendingReceipts(dueAt: at(49.999), limit: 10).map(\.base64) == ["receipt-2", "receipt-3"])
      let again = try #require(try await ledger.pendingReceipts(dueAt: at(50), limit: 10).last)
      #expect(again.base64 == "receipt-1")
      #expect(again.attempts == 1)
    }
  }
}
