import Foundation
import Ledger
import Resilience
import Synchronization
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Validation

/// A purchase that comes while Apple cannot be asked: acknowledged only once it is recorded, settled when Apple is back.
@Suite struct PendingReceiptHTTPTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800)
  static let settings = Settings(appStore: ["deadline": "4s"])

  /// Our clock in these tests: it goes an hour further each time it is asked to, so that whatever waits is due.
  private final class Clock: Sendable {
    private let now = Mutex(PendingReceiptHTTPTests.clock)
    var date: Date { now.withLock { $0 } }
    func advance(by seconds: TimeInterval = 3600) { now.withLock { $0 += seconds } }
  }

  /// Lets time go by until a condition holds; the settling tells nobody when it is done.
  private func wait(
    _ clock: Clock, sourceLocation: SourceLocation = #_sourceLocation, until condition: () async throws -> Bool
  ) async throws {
    for _ in 0..<1000 {
      if try await condition() { return }
      clock.advance()
      try await Task.sleep(for: .milliseconds(50))
    }
    Issue.record("it did not come about", sourceLocation: sourceLocation)
  }

  @Test
  func `a receipt that Apple cannot be asked about is answered 202 with what stands, and settled when Apple is back`()
    async throws
  {
    let clock = Clock()
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, settings: Self.settings, now: { clock.date }) {
        service in
        store.simulator.setTrouble(.http503, count: nil, environment: nil)
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
        let answer = try await service.validate(receipt.receiptData)
        #expect(answer.status == 202)
        #expect(answer.verdict == "free active no_purchases")
        #expect(answer["stale"] == "true")
        #expect(answer["provisional"] == "false")
        #expect(answer["source"] == "ledger")
        #expect(try await service.profile().verdict == "free active no_purchases")

        store.simulator.setTrouble(nil, count: nil, environment: nil)
        try await wait(clock) { try await service.profile().verdict == "pro active renewing" }
        try await wait(clock) {
          try await service.ledger.backlog(at: .distantFuture).pendingReceipts == 0
        }
      }
    }
  }

  @Test func `a new purchase of a user who is known already is kept too`() async throws {
    let clock = Clock()
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, settings: Self.settings, now: { clock.date }) {
        service in
        let pro = try store.simulator.issueReceipt(.renewing, subscriber: 1)
        #expect(try await service.validate(pro.receiptData).verdict == "pro active renewing")
        store.simulator.setTrouble(.html, count: nil, environment: nil)
        let lifetime = try store.simulator.issueReceipt(.lifetime, subscriber: 2)
        let answer = try await service.validate(lifetime.receiptData)
        #expect(answer.status == 202)
        #expect(answer.verdict == "pro active renewing")
        store.simulator.setTrouble(nil, count: nil, environment: nil)
        try await wait(clock) { try await service.profile().verdict == "premium active lifetime" }
      }
    }
  }

  @Test func `a subscription bought again while Apple is away is kept, though its original ID is known`() async throws {
    let clock = Clock()
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, settings: Self.settings, now: { clock.date }) { service in
        let ended = try store.simulator.issueReceipt(.expiredVoluntary, subscriber: 1)
        #expect(try await service.validate(ended.receiptData).verdict == "free expired voluntary")
        store.simulator.setTrouble(.http503, count: nil, environment: nil)
        // The same original transaction ID, another transaction that ends later.
        let again = try store.simulator.issueReceipt(.renewing, subscriber: 1)
        #expect(again.originalTransactionIDs == ended.originalTransactionIDs)
        let answer = try await service.validate(again.receiptData)
        #expect(answer.status == 202)
        #expect(answer.verdict == "free expired voluntary")
        // The old receipt proves nothing new.
        let old = try await service.validate(ended.receiptData)
        #expect(old.status == 200)
        store.simulator.setTrouble(nil, count: nil, environment: nil)
        try await wait(clock) { try await service.profile().verdict == "pro active renewing" }
      }
    }
  }

  @Test func `acknowledged receipts are settled after a restart`() async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "countersign-\(UUID())")
    defer { try? FileManager.default.removeItem(at: directory) }
    try await SimulatedStore.run(at: Self.clock) { store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      var away = store.apple
      away.productionURL = Apple.unreachable.productionURL
      away.sandboxURL = Apple.unreachable.sandboxURL
      try await RunningService.run(apple: away, settings: Self.settings, directory: directory, now: { Self.clock }) {
        service in
        let answer = try await service.validate(receipt.receiptData)
        #expect(answer.status == 202)
      }
      let clock = Clock()
      try await RunningService.run(
        apple: store.apple, settings: Self.settings, directory: directory, now: { clock.date }
      ) { service in
        try await wait(clock) { try await service.profile().verdict == "pro active renewing" }
      }
    }
  }

  /// The app has finished the transaction after the 202: nobody posts it again.
  @Test func `a receipt that Apple rejects after its 202 is not lost`() async throws {
    let clock = Clock()
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, settings: Self.settings, now: { clock.date }) {
        service in
        store.simulator.setTrouble(.http500, count: nil, environment: nil)
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
        #expect(try await service.validate(receipt.receiptData).status == 202)
        store.simulator.setTrouble(.status21003, count: nil, environment: nil)
        try await wait(clock) {
          service.log.lines.contains { $0.contains("a pending receipt was refused, and waits") }
        }
        #expect(try await service.profile().verdict == "free active no_purchases")
        store.simulator.setTrouble(nil, count: nil, environment: nil)
        try await wait(clock) { try await service.profile().verdict == "pro active renewing" }
        try await wait(clock) {
          try await service.ledger.backlog(at: .distantFuture).pendingReceipts == 0
        }
      }
    }
  }

  @Test func `a receipt that is refused for a week is kept no longer, and changes nothing`() async throws {
    let clock = Clock()
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, settings: Self.settings, now: { clock.date }) {
        service in
        store.simulator.setTrouble(.http500, count: nil, environment: nil)
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
        #expect(try await service.validate(receipt.receiptData).status == 202)
        store.simulator.setTrouble(.status21003, count: nil, environment: nil)
        try await wait(clock) { service.log.lines.contains { $0.contains("a pending receipt was refused, and waits") } }
        clock.advance(by: 7 * 86_400)
        try await wait(clock) {
          try await service.ledger.backlog(at: .distantFuture).pendingReceipts == 0
        }
        #expect(try await service.profile().verdict == "free active no_purchases")
        #expect(service.log.lines.contains { $0.contains(#""a pending receipt was refused""#) })
      }
    }
  }

  @Test func `another app's receipt is refused at once, where the signature proves whose it is`() async throws {
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, settings: Self.settings, now: { Self.clock }) { service in
        store.simulator.setTrouble(.http503, count: nil, environment: nil)
        let receipt = try store.simulator.issueReceipt(.wrongApp, subscriber: 1)
        let answer = try await service.validate(receipt.receiptData)
        #expect(answer.status == 422)
        #expect(answer["code"] == "wrong_app")
      }
    }
  }

  @Test func `a user with too many waiting is told that nothing was recorded`() async throws {
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, settings: Self.settings, now: { Self.clock }) { service in
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
  }

  @Test(arguments: [
    (0, 10), (1, 20), (2, 40), (8, 2560), (9, 5120), (11, 20_480), (12, 21_600), (1_000_000, 21_600), (-1, 10),
  ])
  func `a receipt that fails again waits longer, up to six hours`(attempts: Int, seconds: Int) {
    #expect(PendingSettler.retry.ceiling(after: attempts) == .seconds(seconds))
  }
}
