import Entitlements
import Foundation
import SeededRandom
import Testing

@testable import AppStoreSimulator

/// A subscriber's year, told by notifications as they really come, ends where the same year told by verifyReceipt does.
@Suite struct YearOfNotificationsTests {
  static let end = noon.addingTimeInterval(400 * 86_400)

  /// The state that has to be the same, whoever told it.
  private static func state(_ answer: Answer) -> [String] {
    [
      "tier", "status", "reason", "expires_at", "access_until", "product_id", "original_transaction_id", "environment",
      "is_trial", "ownership",
    ].map { "\($0): \(answer[$0] ?? "-")" }
  }

  /// The verdict of verifyReceipt at a moment.
  private static func verdict(
    at moment: Date, _ store: SimulatedStore, _ service: RunningService, user: String, receipt: String
  ) async throws -> [String] {
    store.simulator.setClock(moment)
    return state(try await service.validate(receipt, user: user))
  }

  @Test(arguments: 0..<UInt64(SeededRandom.cases(40)))
  func `in any order, with duplicates and losses, it ends in the same state`(seed: UInt64) async throws {
    let clock = MovingClock(Self.end)
    try await RunningService.besideStore(now: { clock.date }) { service, store in
      let receipt = try store.simulator.issueReceipt(.eventfulYear, subscriber: 1)
      let id = try #require(receipt.originalTransactionIDs.first)
      let reported = try store.simulator.notifications(of: id, to: Self.end)
      #expect(reported.count > 20)
      let last = try #require(reported.last)
      var chance = SeededRandom(seed: seed)
      var order: [SimulatedNotification] = []
      // Some are lost, some come twice or three times, and none where it belongs. What was last is not lost: nothing but
      // it tells of the end, and that Apple has to be asked for.
      for notification in reported {
        if notification != last, Int.random(in: 0..<5, using: &chance) == 0 { continue }
        for _ in 0...Int.random(in: 0...2, using: &chance) { order.append(notification) }
      }
      order.shuffle(using: &chance)
      let claim = Int.random(in: 0..<order.count, using: &chance)
      let transaction = try store.simulator.newestTransaction(ofOriginal: id)
      for (index, notification) in order.enumerated() {
        // Somewhere in between the app posts the first transaction; what came before waited for that.
        if index == claim { #expect(try await service.validate(transaction.signedTransaction).status == 200) }
        #expect(try await service.notify(notification).status == 200)
      }
      let byNotifications = Self.state(try await service.profile())
      let expected = try await Self.verdict(
        at: Self.end, store, service, user: "user-1", receipt: receipt.receiptData)
      #expect(byNotifications == expected, "\(order.map { "\($0.type) \($0.subtype ?? "")" })")
    }
  }

  @Test func `told in order it is the same at every moment at which something happens`() async throws {
    let clock = MovingClock()
    try await RunningService.besideStore(jobPause: .seconds(3600), now: { clock.date }) {
      reported, store in
      try await RunningService.run(apple: store.apple, jobPause: .seconds(3600), now: { clock.date }) { asked in
        let receipt = try store.simulator.issueReceipt(.eventfulYear, subscriber: 1)
        let id = try #require(receipt.originalTransactionIDs.first)
        let transaction = try store.simulator.newestTransaction(ofOriginal: id)
        _ = try await reported.validate(transaction.signedTransaction)
        for notification in try store.simulator.notifications(of: id, to: Self.end) {
          clock.advance(by: max(0, notification.at.timeIntervalSince(clock.date)))
          #expect(try await reported.notify(notification).status == 200)
          let expected = try await Self.verdict(
            at: notification.at, store, asked, user: "user-1", receipt: receipt.receiptData)
          #expect(
            Self.state(try await reported.profile()) == expected, "\(notification.type) \(notification.subtype ?? "")"
          )
        }
      }
    }
  }

  @Test func `events that no notification told are found when Apple is asked`() async throws {
    let clock = MovingClock()
    try await RunningService.besideStore(withServerAPI: true, now: { clock.date }) { service, store in
      let first = try store.simulator.issueTransaction(.eventfulYear)
      _ = try await service.validate(first.signedTransaction)
      let reported = try store.simulator.notifications(of: first.originalTransactionID, to: Self.end)
      for notification in reported.dropLast(5) { _ = try await service.notify(notification) }
      store.simulator.setClock(Self.end)
      clock.advance(by: Self.end.timeIntervalSince(clock.date))
      // The scheduler asks by itself when what is known has ended.
      try await eventually(clock) { try await service.profile().verdict == "free expired refunded" }
    }
  }

  @Test func `a year delivered as the store's clock moves ends with the refund`() async throws {
    let clock = MovingClock()
    try await RunningService.besideStore(now: { clock.date }) { service, store in
      try store.simulator.deliverNotifications(to: "\(service.origin)/v1/notifications/app-store")
      let first = try store.simulator.issueTransaction(.eventfulYear)
      _ = try await service.validate(first.signedTransaction)
      for _ in 0..<40 {
        clock.advance(by: 10 * 86_400)
        store.simulator.setClock(clock.date)
        let deliveries = await store.simulator.deliveries()
        #expect(deliveries.allSatisfy { $0.status == 200 })
      }
      #expect(await store.simulator.deliveries().count > 20)
      #expect(try await service.profile().verdict == "free expired refunded")
    }
  }
}
