package import Entitlements
package import struct FoundationEssentials.Date

package struct FeatureAccess: Hashable, Sendable {
  package var isAllowed: Bool
  /// One more is allowed, whatever the amount of the attempt.
  package var isMoreAllowed: Bool
  /// `nil` for a flag, and where it is unlimited.
  package var limit: Int?
  /// The amount that counts towards the limit: of a rule about days in a row, the days, but not more than one above the limit; of
  /// an unlimited meter, all that was ever consumed. `nil` for a flag.
  package var current: Int?
  /// `nil` for a flag, and where it is unlimited.
  package var remaining: Int?
  package var resetsAt: Date?
  /// The lowest tier that would allow a refused amount.
  package var upgradeTo: Tier?

  /// - Parameter isMoreAllowed: `nil`: as long as some remains.
  package init(
    isAllowed: Bool, isMoreAllowed: Bool? = nil, limit: Int? = nil, current: Int? = nil, remaining: Int? = nil,
    resetsAt: Date? = nil, upgradeTo: Tier? = nil
  ) {
    self.isAllowed = isAllowed
    self.isMoreAllowed = isMoreAllowed ?? remaining.map { $0 > 0 } ?? isAllowed
    self.limit = limit
    self.current = current
    self.remaining = remaining
    self.resetsAt = resetsAt
    self.upgradeTo = upgradeTo
  }
}

package struct FeatureAnswer: Hashable, Sendable {
  package var tier: Tier
  package var access: FeatureAccess

  package init(tier: Tier, access: FeatureAccess) {
    self.tier = tier
    self.access = access
  }
}

extension Feature {
  /// The questions about the past to answer for `access(for:_:usage:)`; empty for a flag and a limit.
  ///
  /// The tiers above are asked about too: which of them would allow it is part of a refusal.
  package func questions(for tier: Tier, _ attempt: Attempt) -> Set<UsageQuestion> {
    var questions: Set<UsageQuestion> = []
    for case .meter(let rules) in [allowance(of: tier)] + allowances[places(above: tier)] {
      for rule in rules { questions.formUnion(rule.questions(attempt)) }
    }
    return questions
  }

  /// The access of a user with a tier.
  ///
  /// - Parameter usage: the answers to `questions(for:_:)` of the same tier and attempt.
  package func access(for tier: Tier, _ attempt: Attempt, usage: Usage) -> FeatureAccess {
    var access = allowance(of: tier).access(attempt, usage)
    if !access.isAllowed {
      let place = places(above: tier).first {
        !retired.contains(tiers[$0]) && allowances[$0].access(attempt, usage).isAllowed
      }
      access.upgradeTo = place.map { tiers[$0] }
    }
    return access
  }

  /// The access of a user with a tier after an allowed attempt.
  ///
  /// - Parameter usage: as before the attempt.
  package func access(for tier: Tier, after attempt: Attempt, usage: Usage) -> FeatureAccess {
    access(for: tier, attempt.consumed, usage: usage.adding(attempt))
  }
}

/// The limit of amounts given back in a range of time.
package struct ReturnLimit: Sendable {
  package var range: Range<Date>
  package var maximum: Int
  /// The number of returns counts, and not their amounts.
  package var countsTimes = false
}

extension Feature {
  /// The limits of amounts given back: in each range as much as its rule allows. Otherwise an app could consume and give
  /// back for ever.
  package func returnLimits(for tier: Tier, _ attempt: Attempt) -> [ReturnLimit] {
    guard case .meter(let rules) = allowance(of: tier) else { return [] }
    return rules.map { $0.returnLimit(attempt) }
  }

  /// Whether a rule of any tier looks at all time: then a given-back consumption is never forgotten.
  package var countsForEver: Bool {
    allowances.contains { allowance in
      guard case .meter(let rules) = allowance else { return false }
      return rules.contains { $0.window == .total }
    }
  }

  /// The first moment after that of an attempt at which time alone may change `access(for:_:usage:)`; `nil` for never.
  package func nextChange(for tier: Tier, _ attempt: Attempt, usage: Usage) -> Date? {
    ([allowance(of: tier)] + allowances[places(above: tier)]).flatMap { allowance -> [Date] in
      guard case .meter(let rules) = allowance else { return [] }
      return rules.compactMap { $0.nextChange(attempt, usage) }
    }.min()
  }
}

extension Allowance {
  func access(_ attempt: Attempt, _ usage: Usage) -> FeatureAccess {
    switch self {
    case .flag(let isOn): return FeatureAccess(isAllowed: isOn)
    case .limit(let limit):
      return FeatureAccess(
        isAllowed: limit.map { usage.total.adding(attempt.amount) <= $0 } ?? true, limit: limit, current: usage.total,
        remaining: limit.map { max(0, $0 - usage.total) })
    case .meter(let rules):
      let states = rules.map { $0.evaluate(attempt, usage) }
      guard let state = states.min(by: { $0.precedes($1) }) else {
        return FeatureAccess(isAllowed: true, current: usage.total)
      }
      return FeatureAccess(
        isAllowed: state.isAllowed, isMoreAllowed: states.allSatisfy(\.isMoreAllowed), limit: state.limit,
        current: state.current, remaining: state.remaining, resetsAt: state.resetsAt)
    }
  }
}
