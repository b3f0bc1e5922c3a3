import ArgumentParser
import Entitlements
import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Ledger

/// `retention.history`, as it is configured and as support sees it.
@Suite struct RetentionTests {
  @Test func `after the span a history says in one line what is gone, in a page and in an export`() async throws {
    let directory = try TemporaryDirectory()
    let clock = MovingClock()
    try await SimulatedStore.run { store in
      let receipt = try store.simulator.issueReceipt(.subscriber, subscriber: 1).receiptData
      try await RunningService.run(
        apple: store.apple, directory: directory.url, jobPause: .seconds(3_600), now: { clock.date }
      ) { service in
        for _ in 0..<12 {
          #expect(try await service.validate(receipt, user: "anna").status == 200)
          clock.advance(by: 31 * 86_400)
          store.simulator.setClock(clock.date)
        }
        _ = try await service.ledger.pruneChangeEvents(before: .distantFuture, limit: 100)
      }
      var settings = Settings()
      (settings.events, settings.retention) = (["keep": "30d"], ["history": "90d"])
      try await RunningService.run(
        apple: store.apple, settings: settings, directory: directory.url, jobPause: .seconds(3_600), now: { clock.date }
      ) { service in
        let path = "/v1/profiles/anna"
        try await eventually {
          let history = try await service.send(.get, "\(path)/history", key: RunningService.supportKey)
          return history.array("entries").contains { $0["kind"] as? String == "removed" }
        }
        let history = try await service.send(.get, "\(path)/history", key: RunningService.supportKey)
        let removed = try #require(history.array("entries").first { $0["kind"] as? String == "removed" })
        #expect(removed["lines"] as? Int == 8 && removed["note"] is NSNull)
        #expect(removed["first_at"] as? String == "2024-07-16T12:00:00Z")
        #expect(removed["recorded_at"] as? String == "2025-02-18T12:00:00Z")
        #expect(
          removed["explanation"] as? String
            == "8 lines from 16 July 2024 to 18 February 2025 that changed nothing were removed by retention.")
        let exported = try await service.send(.get, "\(path)/export")
        #expect(exported.array("history").contains { $0["lines"] as? Int == 8 })
        // Apple is asked at the start, as the period of the last verdict is over.
        try await eventually { try await service.profile("anna").verdict == "pro active renewing" }
        let metrics = try await service.send(.get, "/metrics", key: nil).text
        #expect(metrics.contains("\ncountersign_history_removed_total 8\n"))
      }
    }
  }

  @Test func `the command says what would go and what stays`() {
    func text(_ report: RetentionReport, _ span: Duration? = .seconds(60 * 86_400)) -> String {
      LedgerCommand.Retention.text(of: report, span)
    }
    let young = RetentionReport(events: 1_200)
    #expect(
      text(young, nil)
        == "Lines of the history: 1,200. None was removed so far.\nretention.history is not set, so that none will be.")
    #expect(text(young) == "Lines of the history: 1,200. None was removed so far.\nOlder than 60d: 0.")
    let needed = RetentionReport(events: 12, old: 2, removed: 8)
    #expect(text(needed) == "Lines of the history: 12. 8 were removed so far.\nOlder than 60d: 2. All of them stay.")
    let some = RetentionReport(events: 12, old: 9, needless: 7, users: 3)
    #expect(
      text(some).hasSuffix("Older than 60d: 9. 7 of them would be removed, and 2 stay. Users with lines to remove: 3."))
  }

  @Test func `a span that is none is wrong usage of this command`() throws {
    let error = try #require(throws: (any Error).self) {
      try LedgerCommand.Retention.parse(["--history", "soon"])
    }
    let message = LedgerCommand.Retention.fullMessage(for: error)
    #expect(message.contains("--history must be a duration"), "\(message)")
    #expect(LedgerCommand.Retention.exitCode(for: error) == .validationFailure)
  }

  @Test func `a span may be in years`() throws {
    let configuration = try SampleConfiguration().setting("retention.history", "3y").load()
    #expect(configuration.retention.history == .seconds(3 * 365 * 86_400))
  }

  @Test func `a history that is kept for less than the events is refused`() {
    let problems = SampleConfiguration().setting("events.keep", "100d").setting("retention.history", "99d").problems()
    #expect(
      problems.count == 1
        && problems[0].contains("must not be shorter than events.keep, which is 100d"), "\(problems)")
  }
}
