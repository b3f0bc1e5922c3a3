import Access
import Entitlements
import Testing

@testable import CountersignServer

@Suite struct SubscriptionsAPIFeaturesTests {
  private static func feature(_ name: String, _ kind: Feature.Kind) -> Feature {
    Feature(name: FeatureName(name), kind: kind, values: [:], tiers: ["free"])
  }

  @Test func `a name of the catalog's own comes before one of the interface's`() {
    let names = SubscriptionsAPIFeatures([
      Self.feature("shared_users", .limit), Self.feature("shares", .meter), Self.feature("hasVideo", .flag),
      Self.feature("video", .flag),
    ])
    #expect(names["shares"]?.kind == .meter)
    #expect(names["sharedUsers"]?.name == "shared_users")
    #expect(names["hasVideo"]?.name == "hasVideo")
    #expect(names["hasvideo"] == nil && names[""] == nil)
  }

  @Test func `a catalog without any feature has the usual names, unknown`() {
    let names = SubscriptionsAPIFeatures([])
    #expect(names.limits(of: "free").count == 8)
    #expect(names.limits(of: "free").values.allSatisfy { $0 == .unknown })
    #expect(names.usage([:]).count == 4)
  }
}
