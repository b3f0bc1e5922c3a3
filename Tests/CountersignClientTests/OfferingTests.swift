import CountersignAPI
import Foundation
import Testing

@testable import CountersignClient

/// The offering that a paywall shows, from the service's catalog and the store.
@Suite struct OfferingTests {
  private let bench = Bench()

  private static let monthly = StoreProduct(
    id: "pro.monthly", displayName: "Familie Pro", price: 4.99, displayPrice: "4,99 €", currencyCode: "EUR",
    period: Period(1, .month),
    introductoryOffer: .init(mode: .freeTrial, price: 0, displayPrice: "0,00 €", period: Period(1, .week), count: 1),
    isEligibleForIntroductoryOffer: true)

  @Test func `R7 an offering joins the catalog with the store's price, period and offer`() async throws {
    bench.store.sell(Self.monthly)
    let current = try #require(try await bench.client().offerings().current)
    #expect(current.name == "default" && current.metadata == ["best": .text("$rc_annual")])
    #expect(current.packages.map(\.name) == ["$rc_monthly", "$rc_annual"])
    let monthly = try #require(current["$rc_monthly"])
    #expect(monthly.product == Self.monthly && monthly.plan?.name == "Family Pro" && monthly.kind == .subscription)
    // The store does not sell it: the catalog's period stands in.
    let yearly = try #require(current["$rc_annual"])
    #expect(yearly.product == nil && yearly.period == Period(1, .year))
  }

  @Test func `the catalog is asked once in five minutes, and an unchanged one is not sent twice`() async throws {
    let client = bench.client()
    _ = try await client.plans()
    bench.clock.jump(by: 299)
    _ = try await client.plans()
    #expect(bench.service.requests("GET /v1/plans").count == 1)
    bench.clock.jump(by: 1)
    #expect(try await client.plans() == FakeService.plans)
    let requests = bench.service.requests("GET /v1/plans")
    #expect(requests.map { $0.headers["If-None-Match"] != nil } == [false, true])
    #expect(requests.allSatisfy { $0.headers["Authorization"] == nil })
  }

  @Test func `a new product is on the paywall without a release of the app`() async throws {
    let client = bench.client()
    bench.store.sell(Self.monthly)
    _ = try await client.offerings()
    var plans = FakeService.plans
    plans.plans[1].products.append(.init(productID: "pro.life", kind: .lifetime, period: nil, prices: [:]))
    plans.offerings[0].packages.append(.init(name: "$rc_lifetime", productID: "pro.life"))
    bench.service.set(plans: plans)
    bench.store.sell(StoreProduct(id: "pro.life", displayName: "For life", price: 99, displayPrice: "99,00 €"))
    bench.clock.jump(by: 300)
    let life = try await client.offerings().current?["$rc_lifetime"]
    #expect(life?.product?.displayPrice == "99,00 €" && life?.kind == .lifetime && life?.period == nil)
  }

  @Test
  func
    `an offer that the purchase used up is no longer on the paywall, and the last known price is while the store is away`()
    async throws
  {
    let client = bench.client()
    bench.store.sell(Self.monthly)
    #expect(try await client.offerings().current?["$rc_monthly"]?.product?.isEligibleForIntroductoryOffer == true)
    var used = Self.monthly
    used.isEligibleForIntroductoryOffer = false
    bench.store.sell(used)
    #expect(try await client.offerings().current?["$rc_monthly"]?.product == used)
    bench.store.closeProducts()
    #expect(try await client.offerings().current?["$rc_monthly"]?.product == used)
  }

  @Test func `offline the paywall is there after a restart of the app`() async throws {
    _ = try await bench.client().offerings(experiment: "headline")
    bench.service.fail("plans", .unreachable)
    bench.service.fail("access", .unreachable)
    bench.clock.jump(by: 86_400)
    let offerings = try await bench.client().offerings(experiment: "headline")
    #expect(offerings.all.count == 2 && offerings.current?.name == "family" && offerings.variant == "family")
    let other = Bench()
    other.service.fail("plans", .unreachable)
    #expect(await failure { try await other.client().offerings() } == .later(retryAfter: nil))
  }

  @Test func `an experiment decides the current offering where its variant names one`() async throws {
    let client = bench.client()
    #expect(try await client.offerings(experiment: "headline").current?.name == "family")
    bench.service.set(variant: "savings")
    let offerings = try await client.offerings(experiment: "headline")
    #expect(offerings.current?.name == "default" && offerings.variant == "savings")
    #expect(try await client.offerings(experiment: "unheard-of").variant == nil)
  }

  @Test(arguments: [
    ("P1M", Period(1, .month)), ("P7D", Period(7, .day)), ("P2W", Period(2, .week)), ("P1Y", Period(1, .year)),
    ("P0M", nil), ("P1M2D", nil), ("PT1H", nil), ("", nil), ("P", nil), ("P-1D", nil),
  ])
  func `a period is one unit of ISO 8601`(_ text: String, _ period: Period?) {
    #expect(Period(iso8601: text) == period)
  }
}

/// The state in words.
@Suite struct ProfileTests {
  private let bench = Bench()

  private let day: TimeInterval = 86_400

  @Test func `R9 a subscription that renews has a plan, names and the next billing date`() async throws {
    bench.store.sell(StoreProduct(id: "pro.monthly", displayName: "Familie Pro", price: 4.99, displayPrice: "4,99 €"))
    bench.service.set(tier: "pro")
    bench.service.set(reason: "renewing", willRenew: true, productID: "pro.monthly")
    let profile = try await bench.client().profile()
    #expect(profile.tier == "pro" && profile.tierName == "Family Pro" && profile.productName == "Familie Pro")
    #expect(profile.period == Period(1, .month) && profile.reason == .renewing && !profile.isOld)
    #expect(profile.nextBillingAt == bench.clock.now + 30 * day)
    #expect(profile.endsAt == nil && profile.notice == nil && profile.suggestion == nil)
  }

  @Test func `R9 the expiry banner comes three days before the end, and offers to resubscribe`() async throws {
    let client = bench.client()
    bench.service.set(tier: "pro", status: "cancelled", for: 3 * day + 1)
    bench.service.set(reason: "renewal_off", willRenew: false, productID: "pro.monthly")
    let end = bench.clock.now + 3 * day + 1
    var profile = try await client.profile()
    #expect(profile.endsAt == end && profile.notice == nil && profile.suggestion == .resubscribe)
    #expect(profile.nextBillingAt == nil)
    bench.clock.jump(by: 1)
    profile = try await client.profile()
    #expect(profile.notice == .endsSoon(at: end))
    // Nobody said so, and time has passed.
    bench.clock.jump(by: 3 * day)
    profile = try await client.profile()
    #expect(profile.notice == .ended(at: end))
  }

  @Test func `R9 in grace the payment is to be mended, and after the end there is a way back`() async throws {
    let client = bench.client()
    bench.service.set(tier: "pro", status: "grace_period", for: 10 * day)
    bench.service.set(reason: "billing_grace", willRenew: true, productID: "pro.monthly")
    var profile = try await client.profile()
    #expect(profile.notice == .paymentFailed(until: bench.clock.now + 10 * day))
    #expect(profile.suggestion == .updatePayment && profile.nextBillingAt == nil)
    bench.service.set(tier: "free", status: "expired", for: -day)
    bench.service.set(reason: "voluntary", willRenew: false, productID: "pro.monthly")
    profile = try await client.profile()
    #expect(profile.notice == .ended(at: bench.clock.now - day) && profile.suggestion == .resubscribe)
    #expect(profile.tierName == "Discovery")
    bench.service.set(tier: "free", status: "expired", for: nil)
    bench.service.set(reason: "no_purchases", willRenew: false, productID: nil)
    profile = try await client.profile()
    #expect(profile.notice == nil && profile.suggestion == .subscribe && profile.endsAt == nil)
  }

  @Test func `a late renewal makes no banner, and access for life has no date`() async throws {
    let client = bench.client()
    bench.service.set(tier: "pro", for: -60)
    bench.service.set(reason: "renewal_due", willRenew: true, productID: "pro.monthly")
    var profile = try await client.profile()
    #expect(profile.notice == nil && profile.suggestion == nil && profile.nextBillingAt == nil && profile.endsAt == nil)
    bench.service.set(tier: "pro", for: nil)
    bench.service.set(reason: "lifetime", willRenew: false, productID: "pro.life")
    profile = try await client.profile()
    #expect(profile.notice == nil && profile.suggestion == nil && profile.endsAt == nil)
    // A trial of the app's own.
    bench.service.set(tier: "pro", for: 2 * day)
    bench.service.set(reason: "trial", willRenew: false, productID: nil)
    profile = try await client.profile()
    #expect(profile.notice == .endsSoon(at: bench.clock.now + 2 * day) && profile.suggestion == .subscribe)
  }

  @Test func `offline the settings page has the last answer, and says so, until the user signs out`() async throws {
    bench.service.set(tier: "pro")
    _ = try await bench.client().profile()
    bench.service.fail("profiles/me", .unreachable, times: 2)
    let client = bench.client()
    let profile = try await client.profile()
    #expect(profile.isOld && profile.tier == "pro")
    await client.signOut()
    #expect(await failure { try await bench.client().profile() } == .later(retryAfter: nil))
  }

  // MARK: The store's entitlements

  @Test func `R10 at launch an entitlement that the tier does not show is posted`() async throws {
    bench.store.own(bench.signed("pro.monthly"))
    let client = bench.client()
    await client.start()
    #expect(bench.service.purchases.count == 1 && client.state.access?.tier == "pro")
    await client.signOut()
  }

  @Test func `R10 at launch nothing is posted where tier and store agree, and nothing where nothing is owned`() async {
    bench.service.set(tier: "pro")
    bench.store.own(bench.signed("pro.monthly"))
    let client = bench.client()
    await client.start()
    #expect(bench.service.requests("POST /v1/validations").isEmpty && client.state.access?.tier == "pro")
    await client.signOut()
  }

  @Test func `R10 without the catalog only a user without access is compared`() async {
    for (tier, posts) in [("free", 1), ("pro", 0)] {
      let bench = Bench()
      bench.service.fail("plans", .unreachable, times: 3)
      if tier == "pro" { bench.service.set(tier: tier) }
      bench.store.own(bench.signed("pro.monthly"))
      let client = bench.client()
      await client.start()
      #expect(bench.service.requests("POST /v1/validations").count == posts)
      await client.signOut()
    }
  }

  // MARK: Consent

  private static let other = "11111111-2222-4333-8444-555555555555"

  @Test(arguments: [false, true])
  func `a purchase of another user of the device is the service's to refuse, and stays theirs`(isAppleAway: Bool)
    async throws
  {
    let bench = Bench()
    bench.service.set(isAppleAway: isAppleAway)
    bench.store.leaveUnfinished(bench.signed("pro.monthly", by: Self.other))
    bench.store.own(bench.signed("pro.monthly", id: 2, by: Self.other))
    let client = bench.client()
    await client.start()
    #expect(await eventually { bench.store.hasListeners })
    bench.store.deliver(bench.signed("pro.monthly", id: 3, by: Self.other))
    #expect(await eventually { bench.service.requests("POST /v1/validations").count == 3 })
    let trouble = await failure { try await client.restore() }
    switch trouble {
    case .refused(code: "owned_by_another_user", detail: _) where !isAppleAway: break
    case .later where isAppleAway: break
    default: Issue.record("\(String(describing: trouble))")
    }
    // Not finished, not this user's, and, once refused, posted once in a run of the app, but where the user asks for it.
    #expect(bench.service.purchases.isEmpty && bench.store.openCount == 2)
    #expect(await client.waitingCount == 0 && client.state.access?.tier == "free")
    #expect(await failure { try await client.retry() } == (isAppleAway ? .later(retryAfter: nil) : nil))
    #expect(bench.errors.withLock { $0 }.allSatisfy { isAppleAway && $0 == .later(retryAfter: nil) })
    await client.signOut()
    // Its own user posts it.
    bench.service.bearers = ["bearer": Self.other]
    let own = bench.client(user: Self.other)
    await own.start()
    #expect(own.state.access?.tier == "pro" && bench.store.openCount == 0)
    await own.signOut()
  }

  @Test func `a purchase that the service may have kept for this user is not refused while Apple is away`() async throws
  {
    let bench = Bench()
    bench.service.set(isAppleAway: true)
    let former = bench.signed("pro.monthly", by: Self.other)
    bench.store.next(.success(former))
    let client = bench.client()
    #expect(await failure { try await client.purchase("pro.monthly") } == .later(retryAfter: nil))
    #expect(await client.waitingCount == 0 && bench.store.openCount == 1)
    bench.service.move(former.jws)
    #expect(try await client.retry().access?.tier == "pro")
    #expect(bench.store.openCount == 0)
  }

  @Test func `a purchase that waits with its user is not lost while another user's app posts it`() async throws {
    let bench = Bench()
    bench.service.bearers = ["bearer": Self.other]
    bench.service.fail("validations", .unreachable)
    bench.store.next(.success(bench.signed("pro.monthly", by: Self.other)))
    _ = await failure { try await bench.client(user: Self.other).purchase("pro.monthly") }
    bench.service.bearers = ["bearer": Bench.user]
    try await bench.client().retry()
    #expect(bench.service.purchases.isEmpty && bench.store.openCount == 1)
    #expect(await bench.client().waitingCount == 0)
    #expect(await bench.client(user: Self.other).waitingCount == 1)
  }

  @Test func `a purchase that support has moved to this user is posted and finished, and so are its renewals`()
    async throws
  {
    let bench = Bench()
    let sales = (1...3 as ClosedRange<UInt64>).map { bench.signed("pro.monthly", id: $0, by: Self.other) }
    for sale in sales { bench.service.move(sale.jws) }
    bench.store.own(sales[0])
    let client = bench.client()
    await client.start()
    #expect(await eventually { client.state.access?.tier == "pro" })
    #expect(await eventually { bench.store.hasListeners })
    bench.store.deliver(sales[1])
    #expect(await eventually { bench.store.openCount == 0 && bench.service.purchases.count == 2 })
    bench.store.own(sales[2])
    #expect(try await client.restore().refused == 0)
    #expect(bench.service.purchases == sales.map(\.jws))
    await client.signOut()
  }

  @Test func `one's own purchase is posted, in whatever case the ID is, and one without a buyer too`() async throws {
    bench.store.own(bench.signed("pro.monthly", by: Bench.user.lowercased()))
    bench.store.own(bench.signed("pro.yearly", id: 2))
    #expect(try await bench.client().restore().purchases == 2)
  }
}
