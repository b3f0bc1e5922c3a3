import Entitlements
import Foundation
import TestSupport
import Testing

@testable import Validation

/// The read of a recorded verdict: time takes from it, a change of the rules does not.
@Suite struct EntitlementStandingTests {
  static let monthly: ProductID = "app.pro.monthly"
  static let yearly: ProductID = "app.premium.yearly"
  static let forever: ProductID = "app.forever"
  static let user: UserID = "user-1"

  private static func day(_ number: Double) -> Date { Date(timeIntervalSince1970: 1_718_452_800 + number * 86_400) }

  private static func rules(
    tiers: [Tier] = ["free", "pro", "premium"], without lost: ProductID? = nil,
    _ change: (inout [ProductID: Catalog.Product]) -> Void = { _ in },
    policy: EntitlementPolicy = EntitlementPolicy(), sandbox: SandboxPolicy = .accept
  ) throws -> EntitlementRules {
    var products: [ProductID: Catalog.Product] = [
      monthly: .init(tier: "pro"), yearly: .init(tier: "premium"), forever: .init(tier: "premium", kind: .lifetime),
    ]
    if let lost { products[lost] = nil }
    change(&products)
    products = products.filter { tiers.contains($0.value.tier) }
    return EntitlementRules(
      catalog: try Catalog(tiers: tiers, products: products), policy: policy, sandbox: sandbox)
  }

  /// Apple's answer of day 0 about a purchase that runs until day 10.
  private static func evidence(
    _ product: ProductID = monthly, id: OriginalTransactionID = "1", environment: StoreEnvironment = .production,
    isInRetry: Bool = false
  ) -> [SubscriptionEvidence] {
    let end = isInRetry ? day(-1) : day(10)
    return [
      SubscriptionEvidence(
        key: SubscriptionKey(environment: environment, originalTransactionID: id), source: .verifyReceipt,
        evidenceTime: day(0), evaluatedAt: day(0),
        purchases: [
          Purchase(
            productID: product, transactionID: TransactionID(id.rawValue), originalTransactionID: id,
            purchaseDate: day(-20), expiresDate: product == forever ? nil : end)
        ],
        renewals: [
          RenewalInfo(originalTransactionID: id, autoRenews: true, isInBillingRetry: isInRetry ? true : nil)
        ])
    ]
  }

  private static func words(_ verdict: Entitlement) -> String {
    "\(verdict.tier) \(verdict.status.rawValue) \(verdict.reason.rawValue)\(verdict.isStale ? " stale" : "")"
  }

  /// The reads under other rules on some days, of evidence that was judged on day 0 under the usual ones.
  private func reads(
    _ evidence: [SubscriptionEvidence], under changed: EntitlementRules, on days: [Double]
  ) throws -> [String] {
    let recorded = try Self.rules().evaluate(Self.user, evidence, at: Self.day(0))
    return days.map {
      Self.words(changed.standing(of: Self.user, evidence, recorded: recorded, at: Self.day($0).withNanoseconds))
    }
  }

  @Test func `a product lost from the catalog lowers nobody until the recorded end and the hold are over`() throws {
    let changed = try Self.rules(without: Self.monthly)
    #expect(
      try reads(Self.evidence(), under: changed, on: [0, 9.99, 10, 16.99, 17]) == [
        "pro active renewing stale", "pro active renewing stale", "pro active renewing stale",
        "pro active renewing stale", "free active no_known_product",
      ])
  }

  @Test func `under the same rules time takes what it always took`() throws {
    #expect(
      try reads(Self.evidence(), under: Self.rules(), on: [0, 9.99, 10, 16.99, 17]) == [
        "pro active renewing", "pro active renewing", "pro active renewing stale", "pro active renewing stale",
        "free expired unproven stale",
      ])
  }

  @Test func `a purchase for life is held for ever`() throws {
    let lost = try Self.rules(without: Self.forever)
    let held = "premium active lifetime stale"
    #expect(try reads(Self.evidence(Self.forever), under: lost, on: [0, 5_000]) == [held, held])
    let subscription = try Self.rules { $0[Self.forever] = .init(tier: "premium") }
    #expect(try reads(Self.evidence(Self.forever), under: subscription, on: [0, 5_000]) == [held, held])
  }

  @Test func `a product that moves to a lower tier keeps the tier that was recorded, and one that moves up gives more`()
    throws
  {
    let lower = try Self.rules { $0[Self.yearly] = .init(tier: "pro") }
    #expect(try reads(Self.evidence(Self.yearly), under: lower, on: [1]) == ["premium active renewing stale"])
    let higher = try Self.rules { $0[Self.monthly] = .init(tier: "premium") }
    #expect(try reads(Self.evidence(), under: higher, on: [1]) == ["premium active renewing"])
  }

  @Test func `a tier that the catalog lacks counts as higher than its replacement`() throws {
    let renamed = try Self.rules(tiers: ["free", "plus", "premium"]) { $0[Self.monthly] = .init(tier: "premium") }
    #expect(try reads(Self.evidence(), under: renamed, on: [1]) == ["pro active renewing stale"])
    // Nobody bought the lowest tier: nobody loses it.
    let lowest = try Self.rules(tiers: ["none", "free", "pro", "premium"])
    #expect(try reads([], under: lowest, on: [1]) == ["none active no_purchases"])
  }

  @Test func `a purchase of the sandbox counts until its end where the policy rejects it since`() throws {
    let strict = try Self.rules(sandbox: .reject)
    let sandbox = Self.evidence(environment: .sandbox)
    #expect(
      try reads(sandbox, under: strict, on: [1, 16, 17]) == [
        "pro active renewing stale", "pro active renewing stale", "free active no_purchases",
      ])
    #expect(try reads(sandbox, under: Self.rules(sandbox: .testers([Self.user])), on: [1]) == ["pro active renewing"])
  }

  @Test func `access in billing retry runs until its recorded end, also where the policy gives less since`() throws {
    let strict = try Self.rules(policy: EntitlementPolicy(billingRetryAccess: .zero))
    let held = "pro grace_period billing_retry stale"
    // Ended on day -1, and 60 days were given.
    #expect(try reads(Self.evidence(isInRetry: true), under: strict, on: [0, 58.9, 65.9]) == [held, held, held])
    #expect(
      try reads(Self.evidence(isInRetry: true), under: strict, on: [66]).first?.hasPrefix("free expired") == true)
    let shorter = try Self.rules(policy: EntitlementPolicy(billingRetryAccess: .seconds(20 * 86_400)))
    #expect(try reads(Self.evidence(isInRetry: true), under: shorter, on: [40]) == [held])
  }

  @Test func `a shorter hold is time's doing`() throws {
    let strict = try Self.rules(policy: EntitlementPolicy(outageHold: .zero))
    #expect(
      try reads(Self.evidence(), under: strict, on: [9, 10]) == ["pro active renewing", "free expired unproven stale"])
  }

  @Test func `a recorded verdict on a purchase that is another's now is not held`() throws {
    let changed = try Self.rules(without: Self.monthly)
    let recorded = try Self.rules().evaluate(Self.user, Self.evidence(), at: Self.day(0))
    for evidence in [[], Self.evidence(id: "2"), Self.evidence(environment: .sandbox)] {
      let verdict = changed.standing(of: Self.user, evidence, recorded: recorded, at: Self.day(1).withNanoseconds)
      #expect(verdict.tier == "free")
    }
    #expect(changed.standing(of: Self.user, [], recorded: nil, at: Self.day(1).withNanoseconds).tier == "free")
  }

  @Test func `a provisional grant is held until its end and not beyond`() throws {
    var evidence = Self.evidence()
    evidence[0].provisionalUntil = Self.day(1)
    let changed = try Self.rules(without: Self.monthly)
    #expect(
      try reads(evidence, under: changed, on: [0.99, 1]) == ["pro active renewing stale", "free active no_purchases"])
  }

  @Test func `a row that was told something else than what is shown is not up to date`() throws {
    let recorded = try Self.rules().evaluate(Self.user, Self.evidence(), at: Self.day(0))
    var shown = recorded
    shown.isStale = true
    shown.evidenceTime = nil
    #expect(ProfileWrite.committed.adjusted(forShown: shown, recorded: recorded) == .committed)
    for change in [
      { $0.tier = "free" }, { $0.status = .cancelled }, { $0.accessUntil = nil },
      { $0.originalTransactionID = "2" },
    ] as [@Sendable (inout Entitlement) -> Void] {
      var other = recorded
      change(&other)
      #expect(ProfileWrite.committed.adjusted(forShown: other, recorded: recorded) == .queued)
      for write in [ProfileWrite.queued, .missing, .none] {
        #expect(write.adjusted(forShown: other, recorded: recorded) == write)
      }
    }
  }

  @Test func `the rules' name changes with whatever bears on a verdict, and with nothing else`() throws {
    let usual = try Self.rules().fingerprint
    #expect(usual.count == 32)
    #expect(try Self.rules().fingerprint == usual)
    let same = EntitlementPolicy(provisional: .seconds(60))
    #expect(try Self.rules(policy: same).fingerprint == usual, "evidence carries its own end")
    let others = try [
      Self.rules(without: Self.monthly), Self.rules(tiers: ["free", "premium", "pro"]),
      Self.rules { $0[Self.monthly] = .init(tier: "premium") },
      Self.rules { $0[Self.forever] = .init(tier: "premium") },
      Self.rules(policy: EntitlementPolicy(billingRetryAccess: .zero)),
      Self.rules(policy: EntitlementPolicy(outageHold: .zero)), Self.rules(sandbox: .reject),
      Self.rules(sandbox: .testers(["a"])),
    ].map(\.fingerprint)
    #expect(Set(others + [usual]).count == others.count + 1)
  }
}
