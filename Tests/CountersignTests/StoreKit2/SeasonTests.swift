import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Subscriptions that do not renew: Apple names no end of them, and the catalog does.
@Suite struct SeasonTests {
  @Test func `a season by its signature alone runs for its period, ends in the app's row too, and is bought again`()
    async throws
  {
    try await RunningService.besideStores(deadline: "1m") { service, store, rows, clock in
      let first = try store.simulator.issueTransaction(.nonRenewing)
      let answer = try await service.validate(first.signedTransaction)
      #expect(answer.verdict == "pro active non_renewing" && answer["source"] == "signature", "\(answer.text)")
      // A month from the fifth of June, by the calendar.
      #expect(answer["access_until"] == "2024-07-05T12:00:00Z")
      clock.advance(by: 20 * 86_400 - 1)
      #expect(try await service.profile().verdict == "pro active non_renewing")
      clock.advance(by: 61)
      #expect(try await service.profile().verdict == "free expired period_over")
      try await eventually(clock) { rows.row("user-1")?["subscription_tier"] == .text("free") }
      // The former one, posted again, is over as before.
      #expect(try await service.validate(first.signedTransaction).verdict == "free expired period_over")

      store.simulator.setClock(clock.date)
      let second = try store.simulator.newestTransaction(ofOriginal: "480000000011000")
      let again = try await service.validate(second.signedTransaction)
      #expect(again.verdict == "pro active non_renewing", "\(again.text)")
      #expect(again["access_until"] == "2024-08-05T12:00:00Z")
      #expect(rows.row("user-1")?["subscription_tier"] == .text("pro"))
      #expect(store.simulator.callsInAll == 0)
    }
  }

  @Test(arguments: ["receipt", "transaction"])
  func `a season that is catalogued as a subscription is named in the log, with what the catalog needs`(proof: String)
    async throws
  {
    let warning =
      "Apple names no end of a subscription: if it does not renew, the catalog needs kind: non_renewing and period"
    var settings = Settings()
    settings.products["com.example.app.pro.season"] = "{ tier: pro }"
    try await RunningService.besideStore(settings: settings) { service, store in
      for (number, scenario) in [Scenario.renewing, .expiredUnknown].enumerated() {
        let other = try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 2)).receiptData
        #expect(try await service.validate(other, user: "other-\(number)").status == 200)
      }
      #expect(!service.log.text.contains(warning))
      let season =
        proof == "receipt"
        ? try store.simulator.issueReceipt(.nonRenewing).receiptData
        : try store.simulator.issueTransaction(.nonRenewing).signedTransaction
      #expect(try await service.validate(season).verdict == "free expired unknown")
      let lines = service.log.lines.filter { $0.contains(warning) }
      #expect(lines.count == 1)
      let line = try #require(lines.first)
      #expect(line.contains(#""level":"warning""#), "\(line)")
      #expect(line.contains(#""product":"com.example.app.pro.season""#), "\(line)")
    }
  }
}
