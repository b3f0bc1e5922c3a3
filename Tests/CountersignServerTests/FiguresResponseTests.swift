import CountersignAPI
import NIOCore
import Testing

@testable import CountersignServer

@Suite struct FiguresResponseTests {
  private static func figures(_ ratios: [Double?], period: String?) -> FiguresResponse {
    FiguresResponse(
      activeBefore: 40, churn: ratios[0], trialConversion: ratios[1], refundRate: ratios[2], conversion: ratios[3],
      paywallConversion: ratios[4], webhookSuccess: ratios[5], pending: 1000, subscribers: [], nearLimits: [],
      cycles: [], products: [.init(productID: "com.example/pro", period: period, active: -1, money: [])],
      webhooks: [], cohorts: [.init(month: "2026-01", subscriptions: 9, active: [8, 0, -3])], periods: [])
  }

  @Test func `ratios have their digits and no more, and are null where there is nothing to divide by`() {
    #expect(
      String(buffer: JSONBody.encode(Self.figures([-0.025, 0.0001, 0, 1, 12.5, 0.3333], period: "P1Y"))) == """
        {"active_before":40,"churn":-0.025,"cohorts":[{"active":[8,0,-3],"month":"2026-01","subscriptions":9}],\
        "conversion":1,"cycles":[],"near_limits":[],"paywall_conversion":12.5,"pending":1000,"periods":[],\
        "products":[{"active":-1,"converted":null,"money":[],"period":"P1Y","product_id":"com.example/pro"}],"rates":null,\
        "refund_rate":0,\
        "subscribers":[],"trial_conversion":0.0001,"webhook_success":0.3333,"webhooks":[]}

        """)
    #expect(
      String(buffer: JSONBody.encode(Self.figures([nil, nil, nil, nil, nil, nil], period: nil))) == """
        {"active_before":40,"churn":null,"cohorts":[{"active":[8,0,-3],"month":"2026-01","subscriptions":9}],\
        "conversion":null,"cycles":[],"near_limits":[],"paywall_conversion":null,"pending":1000,"periods":[],\
        "products":[{"active":-1,"converted":null,"money":[],"period":null,"product_id":"com.example/pro"}],"rates":null,\
        "refund_rate":null,\
        "subscribers":[],"trial_conversion":null,"webhook_success":null,"webhooks":[]}

        """)
  }
}
