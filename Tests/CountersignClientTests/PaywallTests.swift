import CountersignAPI
import Testing

@testable import CountersignClient

/// The states and the words of a paywall, and the prompt at a limit. The views themselves need SwiftUI.
@MainActor @Suite struct PaywallTests {
  private let bench = Bench()
  private let client: CountersignClient

  init() {
    client = bench.client()
    bench.store.sell(
      StoreProduct(
        id: "pro.monthly", displayName: "Family Pro", price: 4.99, displayPrice: "4,99 €", period: Period(1, .month)))
    bench.store.sell(
      StoreProduct(
        id: "pro.yearly", displayName: "Family Pro", price: 39.99, displayPrice: "39,99 €", period: Period(1, .year),
        introductoryOffer: .init(
          mode: .freeTrial, price: 0, displayPrice: "0,00 €", period: Period(1, .week), count: 1),
        isEligibleForIntroductoryOffer: true))
  }

  private func events() async throws -> [String] {
    try await client.flush()
    return bench.service.events.map(\.type.rawValue)
  }

  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  @Test func `000 a purchase goes through the seven states, and unlocks`() async throws {
    let model = PaywallModel(client, source: "settings")
    #expect(model.phase == .idle)
    await model.load()
    #expect(model.phase == .idle && model.packages.map(\.productID) == ["pro.monthly", "pro.yearly"])
    bench.store.next(.success(bench.sale()))
    bench.service.hold("validations")
    let buying = Task { await model.buy("pro.monthly") }
    #expect(await eventually { bench.service.heldCount == 1 })
    #expect(model.phase == .verifying && model.isBusy)
    await model.restore()
    #expect(bench.store.syncs == 0)
    bench.service.release()
    await buying.value
    #expect(model.phase == .success && model.message == model.words.success && client.isAllowed("filters"))
    await model.dismiss()
    #expect(
      try await events() == ["paywall_viewed", "plan_selected", "purchase_initiated", "purchase_completed"])
  }

  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  @Test func `000 what the user did not want, what waits and what failed are three states, each in words`() async throws
  {
    let model = PaywallModel(client, source: "settings")
    bench.store.next(.failure(.cancelled))
    await model.buy("pro.monthly")
    #expect(model.phase == .cancelled && model.message == nil)
    bench.store.next(.success(nil))
    await model.buy("pro.monthly")
    #expect(model.phase == .idle && model.message?.contains("approval") == true)
    bench.store.next(.success(bench.sale("stranger")))
    await model.buy("pro.monthly")
    #expect(model.phase == .failed && model.message?.contains("another account") == true)
    bench.service.fail("validations", .unreachable)
    bench.store.next(.success(bench.sale(id: 2)))
    await model.buy("pro.monthly")
    #expect(model.phase == .failed && model.message?.contains("kept") == true)
    #expect(await client.waitingCount == 1)
    bench.clock.jump(by: 5)
    await model.dismiss()
    _ = try await events()
    let last = try #require(bench.service.events.last)
    #expect(last.type == .paywallDismissed)
    #expect(last.properties == ["source": "settings", "timeSpentMs": 5000])
  }

  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  @Test func `a purchase that is recorded has not failed where the state after it is not known yet`() async throws {
    let model = PaywallModel(client, source: "settings")
    bench.service.fail("token", .unreachable)
    bench.store.next(.success(bench.sale()))
    await model.buy("pro.monthly")
    #expect(model.phase == .success && model.message == model.words.recorded)
    #expect(bench.service.purchases.count == 1 && bench.store.openCount == 0)
    #expect(try await events().last == "purchase_completed")
    bench.service.fail("token", .unreachable)
    bench.store.own(bench.sale())
    await model.restore()
    #expect(model.phase == .success && model.message == model.words.restored)
  }

  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  @Test func `restore says what it found`() async throws {
    let model = PaywallModel(client, source: "settings")
    await model.restore()
    #expect(model.phase == .failed && model.message == model.words.nothing)
    bench.store.own(bench.sale())
    await model.restore()
    #expect(model.phase == .success && model.message == model.words.restored)
  }

  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  @Test func `a paywall without a network says so, and an experiment's variant is the offering, and reported`()
    async throws
  {
    bench.service.fail("plans", .unreachable)
    let model = PaywallModel(client, source: "settings", experiment: "headline")
    await model.load()
    #expect(model.phase == .failed && model.message == model.words.away)
    await model.load()
    #expect(model.phase == .idle && model.packages.map(\.productID) == ["pro.yearly"])
    #expect(bench.service.events.contains { $0.type == "experiment_exposed" })
  }

  @Test func `3.1.2 the price is the store's, with its period and what is before it`() async throws {
    let packages = try #require(try await client.offerings().current).packages
    #expect(packages.map { $0.priceLine() } == ["4,99 € per month", "1 week free, then 39,99 € per year"])
    var package = packages[1]
    package.product?.isEligibleForIntroductoryOffer = false
    package.period = Period(6, .month)
    #expect(package.priceLine() == "39,99 € for 6 months")
    package.product?.isEligibleForIntroductoryOffer = true
    package.product?.introductoryOffer = .init(
      mode: .payAsYouGo, price: 1, displayPrice: "1 €", period: Period(1, .month), count: 3)
    #expect(package.priceLine() == "1 € for 3 months, then 39,99 € for 6 months")
    package.period = nil
    package.product?.introductoryOffer = nil
    #expect(package.priceLine() == "39,99 €, once")
    package.product = nil
    #expect(package.priceLine() == nil)
  }

  private static func plan(
    _ tier: String, active: Bool = true, children: Int?, filters: Bool, rules: [String]
  ) -> PlansResponse.Plan {
    .init(
      tier: tier, name: tier.capitalized, description: nil, active: active,
      features: [
        "children": .init(kind: .limit, isIncluded: true, limit: children),
        "filters": .init(kind: .flag, isIncluded: filters),
        "questions": .init(kind: .meter, isIncluded: true, rules: rules),
      ], products: [])
  }

  private static let plans = PlansResponse(
    plans: [
      plan("free", children: 2, filters: false, rules: ["10 per month", "3 per day"]),
      plan("old", active: false, children: 50, filters: true, rules: []),
      plan("plus", children: 2, filters: true, rules: ["100 per month"]),
      plan("pro", children: 99, filters: true, rules: []),
      plan("max", children: nil, filters: true, rules: []),
    ], offerings: [], currentOffering: nil)

  @Test(arguments: [
    ("children", "free", "pro"), ("children", "pro", "max"), ("children", "max", nil), ("filters", "free", "plus"),
    ("filters", "plus", nil), ("questions", "free", "plus"), ("questions", "plus", "pro"), ("questions", "pro", nil),
    ("unheard of", "free", nil),
  ])
  func `the plan that lifts a limit is the lowest on sale that has more`(
    feature: String, tier: String, expected: String?
  ) {
    #expect(Self.plans.plan(lifting: feature, above: tier)?.tier == expected)
  }

  @Test func `features are listed by the app's names, in its order`() {
    let names: KeyValuePairs = ["filters": "Advanced filters", "children": "Children", "other": "Other"]
    #expect(Self.plans.plans[3].featureLines(names) == ["Advanced filters", "Children: 99"])
    #expect(Self.plans.plans[0].featureLines(names) == ["Children: 2"])
  }

  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  @Test func `000 at a limit the prompt is shown with the plan that lifts it, and what becomes of it is reported`()
    async throws
  {
    bench.service.set(plans: Self.plans)
    let prompt = UpgradePrompt(client, feature: "filters")
    #expect(await prompt.check(ifUnknown: true))
    try await client.refresh()
    #expect(await !prompt.check(ifUnknown: true))
    #expect(prompt.isShown && prompt.plan?.name == "Plus")
    await prompt.dismiss()
    #expect(!prompt.isShown)
    await prompt.show()
    await prompt.accept()
    #expect(
      try await events() == [
        "limit_reached", "upgrade_prompt_shown", "upgrade_prompt_dismissed", "upgrade_prompt_shown",
        "upgrade_prompt_accepted",
      ])
    #expect(bench.service.events.last?.properties == ["feature": "filters", "plan": "plus"])
  }
}
