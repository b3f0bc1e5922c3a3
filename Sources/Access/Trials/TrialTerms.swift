package import Entitlements

/// A thing that may have one trial only, counted across all trials of the configuration.
package enum TrialKey: String, Hashable, Sendable, CaseIterable {
  case device, user
  /// A free period at Apple of the same user counts as a trial.
  case storeAccount = "store_account"
}

/// A trial that the app offers by itself, without the App Store.
package struct TrialTerms: Hashable, Sendable {
  package let name: String
  package let tier: Tier
  package let length: Duration
  /// The sessions after which it is over; `nil`: only its time ends it.
  package let sessions: Int?
  package let oncePer: Set<TrialKey>

  package init(
    name: String, tier: Tier, length: Duration, sessions: Int? = nil, oncePer: Set<TrialKey> = Set(TrialKey.allCases)
  ) {
    self.name = name
    self.tier = tier
    self.length = length
    self.sessions = sessions
    self.oncePer = oncePer
  }

  /// The most sessions of a trial, also of one without a number of them: their keys are kept.
  package static let mostSessions = 100_000
  package static let lengthRange: ClosedRange<Duration> = .seconds(60) ... .seconds(366 * 86_400)
}
