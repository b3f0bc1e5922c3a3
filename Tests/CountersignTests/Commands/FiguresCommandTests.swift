import CountersignAPI
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// `countersign figures`, against a service that runs.
@Suite struct FiguresCommandTests {

  @Test func `the figures of a span are shown as tables, or as they came`() async throws {
    try await RunningService.besideStore { service, store in
      _ = try await service.validate(try store.simulator.issueReceipt(.renewing).receiptData)
      try await eventually {
        try await service.send(.get, "/v1/figures").text.contains(#""active":1,"#)
      }
      let span = ["--from", "2024-06-14", "--to", "2024-06-15", "--url", service.origin]
      let tables = try await ChildProcess.countersign(["figures"] + span, key: RunningService.supportKey).ending()
      #expect(tables.code == 0, "\(tables.error)")
      let lines = tables.output.split(separator: "\n")
      #expect(lines.first?.hasPrefix("from        to          active  trials") == true, "\(tables.output)")
      #expect(lines.dropFirst(2).first?.hasPrefix("2024-06-15  2024-06-15       1       0") == true)
      #expect(lines.contains { $0.hasPrefix("churn ") })

      let json = try await ChildProcess.countersign(
        ["figures", "--json", "--interval", "month", "--product", "an other&product"] + span
      ).ending()
      #expect(json.code == 0, "\(json.error)")
      let figures = try JSONDecoder().decode(FiguresResponse.self, from: Data(json.output.utf8))
      #expect(figures.periods.map(\.active) == [0])

      let wrong = try await ChildProcess.countersign(["figures", "--from", "never", "--url", service.origin]).ending()
      #expect(wrong.code == 64 && wrong.error.contains("'from' has to be a day"), "\(wrong.error)")
      #expect(try await ChildProcess.countersign(["figures"] + span, key: "a-wrong-key").ending().code == 77)
    }
  }

  @Test func `money has a table of its own, and what cannot be divided is a dash`() {
    let period = FiguresResponse.Period(
      from: "2026-01-01", to: "2026-01-31", active: 12, trials: 3, grace: 1, new: 2, existing: 1, ended: 0,
      resubscribed: 0,
      payments: 12, refundedPayments: 1, trialStarts: 0, trialConversions: 0, trialsPending: 0,
      users: 20, conversions: 1, viewers: 10, purchasers: 1,
      money: [
        .init(
          currency: "USD", mrr: "119.88", arr: "1438.56", newMRR: "19.98", existingMRR: "9.99", revenue: "119.88",
          refunds: "9.99")
      ])
    let figures = FiguresResponse(
      activeBefore: 10, churn: -0.2, trialConversion: nil, refundRate: 0.0833, conversion: 0.05,
      paywallConversion: 0.1, webhookSuccess: nil, pending: 1_000,
      subscribers: [
        .init(tier: "free", status: "expired", users: 100), .init(tier: "pro", status: "active", users: 15),
      ],
      nearLimits: [.init(feature: "children", tier: "free", users: 7)],
      cycles: [.init(period: "P1M", active: 12, money: period.money)],
      products: [
        .init(productID: "pro.monthly", period: "P1M", active: 12, money: period.money),
        .init(productID: "coins", period: nil, active: 0, money: []),
      ], webhooks: [],
      cohorts: [
        .init(month: "2025-12", subscriptions: 3, active: [3, 1]),
        .init(month: "2026-01", subscriptions: 0, active: [0]),
      ], periods: [period])
    #expect(
      figures.text == """
        from        to          active  trials  grace  new  existing  ended  back  payments  refunded  trial starts  paid for  users  \
        paid  paywall  paid
        2026-01-01  2026-01-31      12       3      1    2         1      0     0        12         1             0         0     20  \
           1       10     1

        from        to          currency     MRR      ARR  new MRR  existing  revenue  refunds
        2026-01-01  2026-01-31  USD       119.88  1438.56    19.98      9.99   119.88     9.99

        product      period  active  currency     MRR  revenue  refunds
        pro.monthly  P1M         12       USD  119.88   119.88     9.99
        coins        -            0

        churn               -20.00 %  of 10 that were active before
        trial conversion           -  of the trials that began
        refund rate           8.33 %  of the payments
        conversion            5.00 %  of the users who came
        paywall conversion   10.00 %  of the users who saw a paywall
        webhook success            -  of the attempts

        cohort   new     +0    +1
        2025-12    3  100 %  33 %
        2026-01    0      -

        users now  tier  status
              100  free  expired
               15  pro   active

        near a limit  tier  feature
                   7  free  children

        1000 or more purchases changed and are not counted yet.
        """)
  }
}
