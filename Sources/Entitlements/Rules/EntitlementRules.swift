package import struct FoundationEssentials.Date

/// Which users may use a sandbox purchase (`policy.sandbox`).
package enum SandboxPolicy: Hashable, Sendable {
  case accept
  /// Only these users: App Review and the team's own testers.
  case testers(Set<UserID>)
  case reject

  func accepts(_ user: UserID) -> Bool {
    switch self {
    case .accept: true
    case .testers(let users): users.contains(user)
    case .reject: false
    }
  }
}

/// All settings of the operator that affect a verdict.
package struct EntitlementRules: Sendable {
  package var catalog: Catalog
  package var policy: EntitlementPolicy
  package var sandbox: SandboxPolicy

  package init(catalog: Catalog, policy: EntitlementPolicy, sandbox: SandboxPolicy) {
    self.catalog = catalog
    self.policy = policy
    self.sandbox = sandbox
  }

  package func accepts(_ environment: StoreEnvironment, for user: UserID) -> Bool {
    environment == .production || sandbox.accepts(user)
  }

  /// - Parameter evidence: all of a user's.
  package func surroundings(of evidence: [SubscriptionEvidence]) -> PurchaseSurroundings {
    PurchaseSurroundings(of: evidence, catalog: catalog, policy: policy)
  }

  /// Evaluates a user. Sandbox evidence that the user may not use is ignored, even if the policy changed after it was
  /// recorded.
  /// - Parameter surroundings: of all the user's evidence; `nil`: this is all.
  package func evaluate(
    _ user: UserID, _ evidence: [SubscriptionEvidence], among surroundings: PurchaseSurroundings? = nil,
    given: [GivenPeriod] = [], at now: Date
  ) -> Entitlement {
    let accepted = evidence.filter { accepts($0.key.environment, for: user) }
    let bought = Entitlement.evaluate(accepted, among: surroundings, at: now, catalog: catalog, policy: policy)
    return given.isEmpty ? bought : bought.adding(given, at: now, catalog: catalog)
  }

  /// The verdicts on the purchases that give access now, each by itself: a user may pay for two tiers.
  package func running(_ user: UserID, _ evidence: [SubscriptionEvidence], at now: Date) -> [Entitlement] {
    let accepted = evidence.filter { accepts($0.key.environment, for: user) }
    return Entitlement.running(accepted, at: now, catalog: catalog, policy: policy)
  }

  /// The next check of a user's subscription with Apple; `nil` for never.
  package func nextCheck(
    of evidence: SubscriptionEvidence, among surroundings: PurchaseSurroundings, at now: Date
  ) -> Date? {
    evidence.nextCheck(at: now, among: surroundings, catalog: catalog, policy: policy)
  }

  /// Whether a verdict gives a user a lower tier than the previous one. A tier without a purchase cannot be lost,
  /// whatever the lowest tier is called today.
  package func isLowering(_ before: Entitlement?, _ after: Entitlement) -> Bool {
    guard let before, before.givesAccess else { return false }
    return catalog.rank(of: after.tier) < catalog.rank(of: before.tier)
  }

  /// Whether any purchase of the evidence is of a catalogued product: only such a purchase can be contested.
  package func isCatalogued(_ evidence: SubscriptionEvidence) -> Bool {
    if evidence.key.isOfApp {
      return evidence.purchases.contains { catalog.product(of: $0, in: evidence)?.kind == .lifetime }
    }
    return evidence.purchases.contains { catalog.products[$0.productID] != nil }
  }
}
