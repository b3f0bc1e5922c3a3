package import Access
package import Entitlements
package import Ledger
import Resilience

package import struct FoundationEssentials.Date

/// Access of users to features, by their present verdict and their consumption.
package struct FeatureUsage: Sendable {
  /// A verdict, and the access to every feature that follows from it.
  package struct Overview: Sendable {
    package var standing: Standing
    package var features: [FeatureName: FeatureAccess]
    package var zone: Zone
    /// As of the verdict and the consumption together.
    package var validity: Standing.Validity
  }

  private struct KnownTier: Sendable {
    var tier: Tier
    var validity: Standing.Validity
  }

  package let plans: Plans
  let reader: StandingReader
  /// Tiers as read before: a consumption need not read the evidence again.
  private let tiers = LRUCache<UserID, KnownTier>(limit: 10_000)

  private var ledger: Ledger { reader.ledger }

  /// A number that grows with whatever changes an overview of a user.
  package func generation(of user: UserID) -> UInt64 {
    ledger.generation(of: user) &+ ledger.usageGeneration(of: user)
  }

  /// - Parameter zone: in which windows begin and end; `nil` for the user's own.
  package func overview(of user: UserID, in zone: Zone?, at now: Date) async throws(LedgerError) -> Overview {
    let generation = generation(of: user)
    let standing = try await reader.standing(of: user, at: now)
    let tier = standing.entitlement.tier
    let usage = try await ledger.read(
      ReadUsage(of: user, in: zone, usual: plans.timeZone) { [features = plans.features] zone in
        let attempt = Attempt(at: now, in: zone)
        return Dictionary(uniqueKeysWithValues: features.map { ($0.name, $0.questions(for: tier, attempt)) })
      })
    let attempt = Attempt(at: now, in: usage.zone)
    var access: [FeatureName: FeatureAccess] = [:]
    var until = standing.validity.until
    for feature in plans.features {
      guard let consumed = usage.usage[feature.name] else { continue }
      access[feature.name] = feature.access(for: tier, attempt, usage: consumed)
      if let change = feature.nextChange(for: tier, attempt, usage: consumed) { until = min(until ?? change, change) }
    }
    return Overview(
      standing: standing, features: access, zone: usage.zone,
      validity: Standing.Validity(generation: generation, readAt: now, until: until))
  }

  /// A user's variant of each experiment, by name: the one that the user saw first, else the one by the hash. A commit that
  /// changes it changes `generation(of:)`.
  package func variants(of user: UserID) async throws(LedgerError) -> [String: String] {
    guard !plans.experiments.isEmpty else { return [:] }
    let (user, exposures) = try await ledger.exposures(of: user)
    let seen = Dictionary(exposures.map { ($0.experiment, $0.variant) }) { one, _ in one }
    let variants = plans.experiments.compactMap { experiment in
      experiment.variant(for: user, seen: seen[experiment.name]).map { (experiment.name, $0) }
    }
    return Dictionary(variants) { one, _ in one }
  }

  /// The access to one feature, as an attempt at an amount would find it. Changes nothing.
  ///
  /// - Parameter count: how many exist, of a limit that the app counts.
  package func access(
    to feature: Feature, of user: UserID, amount: Int, count: Int?, in zone: Zone?, at now: Date
  ) async throws(LedgerError) -> FeatureAnswer {
    let tier = try await tier(of: user, at: now)
    let usage = try await ledger.read(
      ReadUsage(of: user, in: zone, usual: plans.timeZone) { zone in
        [feature.name: feature.questions(for: tier, Attempt(at: now, in: zone, amount: amount))]
      })
    let attempt = Attempt(at: now, in: usage.zone, amount: amount)
    let counted = count.map { Usage(total: $0, []) { _ in UsageAnswer() } } ?? usage.usage[feature.name]
    guard let counted else { return FeatureAnswer(tier: tier, access: FeatureAccess(isAllowed: false)) }
    return FeatureAnswer(tier: tier, access: feature.access(for: tier, attempt, usage: counted))
  }

  /// Consumes an amount of a meter, if the rules allow it.
  ///
  /// - Parameter request: what the key stands for.
  package func consume(
    _ amount: Int, of feature: Feature, by user: UserID, in zone: ZoneChoice, idempotencyKey: String?, request: String,
    at now: Date
  ) async throws(LedgerError) -> (outcome: Consume.Outcome, tier: Tier) {
    let known = try await knownTier(of: user, at: now)
    let outcome = try await ledger.run(
      Consume(
        user: user, feature: feature, tier: known.tier, amount: amount, now: now, zone: zone,
        idempotencyKey: idempotencyKey, request: request))
    // Most users never bought anything; one who consumes is not made up.
    if case .consumed = outcome { tiers.insert(known, for: user) }
    return (outcome, known.tier)
  }

  /// Gives back what was consumed under a key.
  package func giveBack(
    _ idempotencyKey: String, of feature: Feature, by user: UserID, isByUser: Bool, at now: Date
  ) async throws(LedgerError) -> (outcome: GiveBack.Outcome, tier: Tier) {
    let tier = try await tier(of: user, at: now)
    let outcome = try await ledger.run(
      GiveBack(
        user: user, feature: feature, tier: tier, idempotencyKey: idempotencyKey, now: now,
        zone: ZoneChoice(usual: plans.timeZone, named: nil, isTrusted: false), isByUser: isByUser))
    return (outcome, tier)
  }

  /// Sets how many of a thing a user has.
  package func setCount(
    _ count: Int, of feature: Feature, by user: UserID, at now: Date
  ) async throws(LedgerError) -> FeatureAnswer {
    try await ledger.run(SetCount(count, of: feature, of: user, with: tier(of: user, at: now), at: now))
    return try await access(to: feature, of: user, amount: 1, count: count, in: nil, at: now)
  }

  package func tier(of user: UserID, at now: Date) async throws(LedgerError) -> Tier {
    try await knownTier(of: user, at: now).tier
  }

  private func knownTier(of user: UserID, at now: Date) async throws(LedgerError) -> KnownTier {
    if let known = tiers.value(for: user), known.validity.holds(at: now, ledger.generation(of: user)) { return known }
    let standing = try await reader.standing(of: user, at: now)
    let known = KnownTier(tier: standing.entitlement.tier, validity: standing.validity)
    // Anybody can make up unknown users, as many as they like: those stay out of the cache.
    if standing.isKnown { tiers.insert(known, for: user) }
    return known
  }
}
