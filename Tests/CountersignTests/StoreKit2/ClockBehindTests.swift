import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// A clock of ours that goes wrong must not cost a notification: Apple sends one no more that was answered with 200.
@Suite struct ClockBehindTests {
  @Test func `a notification signed ahead of our clock is sent again, and counts when the clock is right`() async throws
  {
    let clock = MovingClock()
    try await RunningService.besideStore(now: { clock.date }) { service, store in
      let signed = try store.simulator.issueTransaction(.subscriber)
      _ = try await service.validate(signed.signedTransaction)
      store.simulator.setClock(noon.addingTimeInterval(31 * 86_400))
      let reported = try store.simulator.notifications(of: signed.originalTransactionID, from: noon)
      let renewal = try #require(reported.last)
      #expect(renewal.type == "DID_RENEW")
      let answer = try await service.notify(renewal)
      #expect(answer.status == 503)
      #expect(answer["detail"]?.contains("clock") == true)
      #expect(service.log.text.contains("a notification is signed ahead of our clock"))
      clock.advance(by: 31 * 86_400)
      #expect(try await service.notify(renewal)["outcome"] == "recorded")
      #expect(try await service.state().hasSuffix("until 2024-08-15T12:00:00Z"))
      // Anybody can write a date.
      let forged = renewal.body.dropLast(12) + #"AAAAAAAAAA"}"#
      #expect(try await service.notify(String(forged))["outcome"] == "refused")
    }
  }
}
