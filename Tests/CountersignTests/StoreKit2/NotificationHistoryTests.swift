import Foundation
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// The history that support reads of notifications.
@Suite struct NotificationHistoryTests {
  @Test func `notifications from before anybody had the purchase are in the words of the first verdict`() async throws {
    try await RunningService.besideStore { service, store in
      let signed = try store.simulator.issueTransaction(.renewing)
      let reported = try store.simulator.notifications(of: signed.originalTransactionID)
      for notification in reported { _ = try await service.notify(notification) }
      _ = try await service.validate(signed.signedTransaction)
      let history = try await service.history()
      #expect(history.kinds == ["verdict", "ownership_change"])
      #expect(history.now["will_renew"] as? Bool == true)
      #expect(history.explanations.first?.contains("renews by itself") == true, "\(history.explanations)")
      #expect(history.periods.count == 2)
    }
  }

  @Test func `a period that an upgrade cut off is marked, though no notification says so`() async throws {
    let clock = MovingClock()
    try await RunningService.besideStore(now: { clock.date }) { service, store in
      let signed = try store.simulator.issueTransaction(.eventfulYear)
      _ = try await service.validate(signed.signedTransaction)
      let end = noon.addingTimeInterval(400 * 86_400)
      let reported = try store.simulator.notifications(of: signed.originalTransactionID, to: end)
      let upgrade = try #require(reported.first { $0.subtype == "UPGRADE" })
      clock.advance(by: upgrade.at.timeIntervalSince(noon))
      for notification in reported where notification.at <= upgrade.at { _ = try await service.notify(notification) }

      let history = try await service.history()
      #expect(history.now["tier"] as? String == "premium")
      let marked = history.periods.filter { $0["is_upgraded"] as? Bool == true }
      #expect(marked.map { $0["product_id"] as? String } == ["com.example.app.pro.monthly"])
      let running = try #require(history.periods.first)
      #expect(running["product_id"] as? String == "com.example.app.premium.monthly")
      #expect(running["is_upgraded"] as? Bool == false)

      let entry = try #require(history.entries.first)
      #expect(entry["source"] as? String == "notification")
      #expect(entry["request_id"] as? String == upgrade.uuid)
      #expect(history.explanations.first?.contains("was replaced by an upgrade") == true, "\(history.explanations)")
    }
  }

  @Test func `support is told that nothing newer came of a purchase that nobody told about for long`() async throws {
    let clock = MovingClock()
    try await RunningService.besideStore(now: { clock.date }) { service, store in
      let signed = try store.simulator.issueTransaction(.subscriber)
      _ = try await service.validate(signed.signedTransaction)
      clock.advance(by: 33 * 86_400)
      let held = try await service.history().now["explanation"] as? String
      #expect(held?.contains("Access is kept for 7 days after that, or until a newer") == true, "\(held ?? "")")
      clock.advance(by: 300 * 86_400)
      let words = try await service.history().now["explanation"] as? String
      #expect(words?.contains("for longer than the 7 days that this app waits") == true, "\(words ?? "")")
      #expect(words?.contains("Access is kept") == false)
    }
  }
}
