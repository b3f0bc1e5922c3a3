import Foundation
import Ledger
import Resilience
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Validation

/// A purchase that comes while Apple cannot be asked: acknowledged only once it is recorded, settled when Apple is back.
@Suite struct PendingReceiptHTTPTests {
  static let settings = Settings(appStore: ["deadline": "4s"])

  @Test
  func `a receipt that Apple cannot be asked about is answered 202 with what stands, and settled when Apple is back`()
    async throws
  {
    let clock = MovingClock()
    try await RunningService.besideStore(settings: Self.settings, now: { clock.date }) {
      service, store in
      let ended = try store.simulator.issueReceipt(.expiredVoluntary, subscriber: 2)
      #expect(try await service.validate(ended.receiptData, user: "known").verdict == "free expired voluntary")
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      // The same original transaction ID, another transaction that ends later.
      let again = try store.simulator.issueReceipt(.renewing, subscriber: 2)
      #expect(again.originalTransactionIDs == ended.originalTransactionIDs)
      let known = try await service.validate(again.receiptData, user: "known")
      #expect(known.status == 202 && known.verdict == "free expired voluntary", "\(known.text)")
      // The old receipt proves nothing new.
      #expect(try await service.validate(ended.receiptData, user: "known").status == 200)
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      let answer = try await service.validate(receipt.receiptData)
      #expect(answer.status == 202)
      #expect(answer.verdict == "free active no_purchases")
      #expect(answer["stale"] == "true")
      #expect(answer["provisional"] == "false")
      #expect(answer["source"] == "ledger")
      #expect(try await service.profile().verdict == "free active no_purchases")

      store.simulator.setTrouble(nil, count: nil, environment: nil)
      for user in ["user-1", "known"] {
        try await eventually(clock, step: 600) { try await service.profile(user).verdict == "pro active renewing" }
      }
      try await eventually(clock, step: 600) {
        try await service.ledger.backlog(at: .distantFuture).pendingReceipts == 0
      }
    }
  }

  /// The app has finished the transaction after the 202: nobody posts it again.
  @Test func `a receipt that Apple rejects after its 202 is not lost, and kept no longer than a week`() async throws {
    let clock = MovingClock()
    try await RunningService.besideStore(settings: Self.settings, now: { clock.date }) {
      service, store in
      store.simulator.setTrouble(.http500, count: nil, environment: nil)
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      #expect(try await service.validate(receipt.receiptData).status == 202)
      store.simulator.setTrouble(.status21003, count: nil, environment: nil)
      try await eventually(clock, step: 600) {
        service.log.lines.contains { $0.contains("a pending receipt was refused, and waits") }
      }
      #expect(try await service.profile().verdict == "free active no_purchases")
      store.simulator.setTrouble(nil, count: nil, environment: nil)
      try await eventually(clock, step: 600) { try await service.profile().verdict == "pro active renewing" }
      try await eventually(clock, step: 600) {
        try await service.ledger.backlog(at: .distantFuture).pendingReceipts == 0
      }
      // Another one is rejected until its time is over.
      store.simulator.setTrouble(.http500, count: nil, environment: nil)
      let other = try store.simulator.issueReceipt(.lifetime, subscriber: 2)
      #expect(try await service.validate(other.receiptData, user: "user-2").status == 202)
      store.simulator.setTrouble(.status21003, count: nil, environment: nil)
      try await eventually(clock, step: 600) {
        try await service.ledger.pendingReceipts(dueAt: .distantFuture, limit: 1).first?.attempts ?? 0 > 0
      }
      #expect(!service.log.lines.contains { $0.contains(#""a pending receipt was refused""#) })
      clock.advance(by: 7 * 86_400)
      try await eventually(clock, step: 600) {
        // Our clock agrees with Apple's.
        store.simulator.setClock(clock.date)
        return try await service.ledger.backlog(at: .distantFuture).pendingReceipts == 0
      }
      #expect(try await service.profile("user-2").verdict == "free active no_purchases")
      try await eventually { service.log.lines.contains { $0.contains(#""a pending receipt was refused""#) } }
    }
  }

  @Test func `a user with too many waiting is told that nothing was recorded`() async throws {
    try await RunningService.besideStore(settings: Self.settings) { service, store in
      store.simulator.setTrouble(.status21004, count: nil, environment: nil)
      for number in 0..<20 {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number + 1))
        #expect(try await service.validate(receipt.receiptData).status == 202)
      }
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 21)
      let answer = try await service.validate(receipt.receiptData)
      #expect(answer.status == 503)
      #expect(answer["code"] == "app_store_unavailable")
      #expect(answer["apple_status"] == "21004")
      #expect(answer.header("Retry-After") == "30")
    }
  }

  @Test(arguments: [
    (0, 10), (1, 20), (2, 40), (8, 2560), (9, 5120), (11, 20_480), (12, 21_600), (1_000_000, 21_600), (-1, 10),
  ])
  func `a receipt that fails again waits longer, up to six hours`(attempts: Int, seconds: Int) {
    #expect(PendingSettler.retry.ceiling(after: attempts) == .seconds(seconds))
  }
}
