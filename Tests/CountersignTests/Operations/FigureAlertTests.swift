import Access
import Entitlements
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Figures
@testable import Ledger

/// The sample alerts about figures, by the metrics of a service whose ledger has such figures.
@Suite struct FigureAlertTests {
  /// Figures of a month: what is counted, of how many.
  private struct Month: Sendable {
    var users: Int64 = 200
    var conversion = 0.06
    var paywall = 0.12
    var trials = 0.45
    var churn = 0.04
    var webhooks = 0.999
  }

  /// An alert of the file: `max by (figure) (RATIO{…}) < BOUND and max by (figure) (BASE{…}) >= LEAST`.
  private struct Alert {
    var name: String
    var figure: String
    var isBelow: Bool
    var bound: Double
    var least: Double

    func fires(_ page: Exposition) -> Bool {
      guard let ratio = page["countersign_figure_ratio", ["figure": figure]],
        let base = page["countersign_figure_base", ["figure": figure]]
      else { return false }
      return (isBelow ? ratio < bound : ratio > bound) && base >= least
    }
  }

  private static func alerts() throws -> [Alert] {
    let rule =
      #/
      -\ alert:\ (\w+)\n\s+expr:\ >-\n
      \s+max\ by\ \(figure\)\ \(countersign_figure_ratio\{figure="(\w+)"\}\)\ ([<>])\ ([0-9.]+)\n
      \s+and\ max\ by\ \(figure\)\ \(countersign_figure_base\{figure="(\w+)"\}\)\ >=\ ([0-9]+)\n
      /#
    return try SamplesTests.text("monitoring/alerts.yaml").matches(of: rule).map { match in
      #expect(match.2 == match.5)
      return Alert(
        name: String(match.1), figure: String(match.2), isBelow: match.3 == "<",
        bound: try #require(Double(match.4)), least: try #require(Double(match.6)))
    }
  }

  /// The alerts that fire for a month.
  private static func firing(_ month: Month) async throws -> Set<String> {
    try await RunningService.run(apple: .unreachable) { service in
      let today = noon.utcDay
      let (users, day) = (month.users, today - 20)
      @Sendable func part(_ ratio: Double) -> Int64 { Int64((Double(users) * ratio).rounded()) }
      // The job adds up what there is.
      try await eventually {
        try await service.ledger.engine.read { try $0.memo("figure rules") != nil && $0.figures.recount() == nil }
      }
      try await service.ledger.engine.submit { tables in
        var before = FigureCounts()
        before[.active] = users
        var counts = FigureCounts()
        counts[.ended] = part(month.churn)
        counts[.trialStarts] = users
        counts[.trialConversions] = part(month.trials)
        var sums = CountSums()
        sums.add([
          FigureKey(day: today - 60, product: "pro", currency: "USD"): before,
          FigureKey(day: day, product: "pro", currency: "USD"): counts,
        ])
        try tables.figures.add(sums)
        for (step, count) in [
          ("users", users), ("conversions", part(month.conversion)), ("viewers", users),
          ("purchasers", part(month.paywall)),
        ] { try tables.marks.mark(count, to: Tally(name: .funnel, day: day, label: step)) }
        let delivered = Int64((Double(users) * 10 * month.webhooks).rounded())
        for (detail, count) in [("delivered", delivered), ("failed", users * 10 - delivered)] {
          try tables.marks.mark(count, to: Tally(name: .webhooks, day: day, label: "shop", detail: detail))
        }
        _ = try tables.figures.addTallies(limit: 100)
      }
      let page = try Exposition(try await service.send(.get, "/metrics", key: nil).text)
      return Set(try alerts().filter { $0.fires(page) }.map(\.name))
    }
  }

  @Test func `there is an alert for each figure that is watched, at its bound`() throws {
    let alerts = try Self.alerts()
    #expect(Set(alerts.map(\.figure)) == Set(WatchedFigure.Name.allCases.map(\.rawValue)))
    let bounds = Dictionary(uniqueKeysWithValues: alerts.map { ($0.figure, $0.isBelow ? $0.bound : -$0.bound) })
    #expect(
      bounds == [
        "conversion": 0.03, "paywall_conversion": 0.05, "trial_conversion": 0.3, "churn": -0.08,
        "webhook_success": 0.99,
      ])
  }

  @Test func `no alert fires for a good month, nor for a bad month of a few users`() async throws {
    #expect(try await Self.firing(Month()) == [])
    #expect(try await Self.firing(Month(users: 9, conversion: 0, paywall: 0, trials: 0, churn: 1, webhooks: 0)) == [])
  }

  /// From the requests of an app to the alert: 120 users try the app for a week, and some pay.
  @Test(arguments: [(30, true), (40, false)])
  func `the app's own trials that nobody pays for fire theirs`(payers: Int, fires: Bool) async throws {
    let clock = MovingClock()
    let settings = Settings(server: ["user_rate_limit": "0"])
    try await RunningService.besideStore(settings: settings, now: { clock.date }) { service, store in
      for number in 0..<120 {
        let device = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6" + String(1000 + number).suffix(3)
        let begun = try await service.send(
          .post, "/v1/trials", body: #"{"trial":"week","device_id":"\#(device)","user_id":"user-\#(number)"}"#)
        #expect(begun.status == 201, "\(begun.text)")
      }
      clock.advance(by: 86_400)
      store.simulator.setClock(clock.date)
      for number in 0..<payers {
        let receipt = try store.simulator.issueReceipt(.subscriber, subscriber: Int64(number + 1)).receiptData
        _ = try await service.validate(receipt, user: "user-\(number)")
      }
      clock.advance(by: 19 * 86_400)
      try await eventually {
        let figures = try await service.ledger.watchedFigures(today: clock.date.utcDay)
        return figures.contains(WatchedFigure(.trialConversion, Int64(payers), of: 120))
      }
      let page = try Exposition(try await service.send(.get, "/metrics", key: nil).text)
      #expect(try Self.alerts().contains { $0.name == "CountersignTrialConversionLow" && $0.fires(page) } == fires)
    }
  }

  @Test(arguments: [
    ("CountersignConversionLow", Month(conversion: 0.025)), ("CountersignPaywallConversionLow", Month(paywall: 0.045)),
    ("CountersignTrialConversionLow", Month(trials: 0.295)), ("CountersignChurnHigh", Month(churn: 0.085)),
    ("CountersignWebhookSuccessLow", Month(webhooks: 0.9895)),
  ])
  private func `each fires for its figure alone`(name: String, month: Month) async throws {
    #expect(try await Self.firing(month) == [name])
  }
}
