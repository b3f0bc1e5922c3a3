import CountersignAPI
import NIOCore
import Testing

@testable import CountersignServer

/// The bytes of a page of figures are written by hand, member by member.
@Suite struct FiguresResponseTests {
  private static let money = [
    FiguresResponse.Money(
      currency: "EUR", mrr: "399.60", arr: "4795.20", newMRR: "9.99", existingMRR: "0.00", revenue: "19.98",
      refunds: "-0.01"),
    FiguresResponse.Money(
      currency: "a\"b\\", mrr: "0.00", arr: "0.00", newMRR: "1.00", existingMRR: "2.00", revenue: "3.00",
      refunds: "4.00"),
  ]

  /// Every number is another one, so that none can stand for another.
  private static let full = FiguresResponse(
    activeBefore: 40, churn: -0.025, trialConversion: 0.0001, refundRate: 0, conversion: 1, paywallConversion: 12.5,
    webhookSuccess: 0.3333, pending: 1000,
    subscribers: [.init(tier: "pro", status: "active", users: 43), .init(tier: "é/😀", status: "expired", users: 12)],
    nearLimits: [.init(feature: "children", tier: "free", users: 7)],
    cycles: [.init(period: "P1M", active: 41, money: money)],
    products: [
      .init(productID: "com.example/pro", period: "P1Y", active: 44, money: money),
      .init(productID: "coins", period: nil, active: -1, money: []),
    ],
    webhooks: [.init(webhook: "shop", attempts: 12, delivered: 11)],
    cohorts: [
      .init(month: "2026-01", subscriptions: 9, active: [8, 0, -3]),
      .init(month: "2026-02", subscriptions: 0, active: []),
    ],
    periods: [
      .init(
        from: "2026-01-31", to: "2026-02-01", active: 1, trials: 2, grace: 3, new: 4, existing: 5, ended: 6,
        resubscribed: 7, payments: 8, refundedPayments: 9, trialStarts: 10, trialConversions: 11, trialsPending: 12,
        users: 13, conversions: 14, viewers: 15, purchasers: 16, money: money)
    ])

  private static let empty = FiguresResponse(
    activeBefore: 0, churn: nil, trialConversion: nil, refundRate: nil, conversion: nil, paywallConversion: nil,
    webhookSuccess: nil, pending: 0, subscribers: [], nearLimits: [], cycles: [], products: [], webhooks: [],
    cohorts: [], periods: [])

  @Test(arguments: [full, empty])
  func `figures are written as the encoder writes them`(figures: FiguresResponse) throws {
    #expect(String(buffer: JSONBody.write(figures)) == String(buffer: JSONBody.encode(figures)))
  }
}
