package import Access
package import Entitlements
package import struct FoundationEssentials.Date
package import struct FoundationEssentials.TimeZone

/// A request to consume an amount of a meter.
package struct Consuming: Sendable {
  package var user: UserID
  package var feature: Feature
  /// The tier of the present verdict on the user.
  package var tier: Tier
  /// At least 1.
  package var amount: Int
  /// Our own clock, in whole milliseconds, read once.
  package var now: Date
  package var zone: ZoneChoice
  package var idempotencyKey: String?
  /// The request that the key stands for: another text under the same key is a mismatch.
  package var request: String
  /// The answer to keep under the key.
  package var answer: @Sendable (FeatureAccess) -> String

  package init(
    user: UserID, feature: Feature, tier: Tier, amount: Int, now: Date, zone: ZoneChoice, idempotencyKey: String?,
    request: String, answer: @escaping @Sendable (FeatureAccess) -> String
  ) {
    self.user = user
    self.feature = feature
    self.tier = tier
    self.amount = amount
    self.now = now
    self.zone = zone
    self.idempotencyKey = idempotencyKey
    self.request = request
    self.answer = answer
  }

  /// The time for which a key stands for its request.
  package static let keyLifetime = Duration.seconds(7 * 86_400)
  /// The least time for which consumptions are kept, however short today's rules look back: a catalog may get longer ones.
  static let leastMemory = Duration.seconds(62 * 86_400)
}

/// The zone of a user's calendar windows: the one that was kept, or the one that is named, or that of the catalog.
package struct ZoneChoice: Sendable {
  /// The catalog's.
  package var usual: TimeZone
  /// The one that the request names.
  package var named: TimeZone?
  /// Whether the named one counts at once: that of a server, and not that of a user.
  package var isTrusted: Bool

  package init(usual: TimeZone, named: TimeZone?, isTrusted: Bool) {
    self.usual = usual
    self.named = named
    self.isTrusted = isTrusted
  }

  /// The least time between two changes of a user's zone: changing it at will would give several midnights a day.
  package static let patience = Duration.seconds(86_400)
}

/// The result of `Ledger.consume(_:)`.
package enum ConsumingOutcome: Sendable {
  /// Counted now, or under the same key before: the answer that was kept.
  case consumed(answer: String)
  /// Nothing was counted.
  case refused(FeatureAccess)
  /// The key stands for another request.
  case mismatch
}

/// A request to give back what was consumed under a key.
package struct GivingBack: Sendable {
  package var user: UserID
  package var feature: Feature
  package var tier: Tier
  package var idempotencyKey: String
  package var now: Date
  package var zone: ZoneChoice
  /// The user asks, and not a server. A user may do so for a while only, and only so much.
  package var isByUser: Bool

  package init(
    user: UserID, feature: Feature, tier: Tier, idempotencyKey: String, now: Date, zone: ZoneChoice, isByUser: Bool
  ) {
    self.user = user
    self.feature = feature
    self.tier = tier
    self.idempotencyKey = idempotencyKey
    self.now = now
    self.zone = zone
    self.isByUser = isByUser
  }

  /// The time after a consumption in which a user may give it back.
  package static let patience = Duration.seconds(600)
}

/// The result of `Ledger.giveBack(_:)`.
package enum GivingBackOutcome: Sendable {
  case returned(FeatureAccess)
  /// Nothing is counted under the key.
  case unknown
  /// The consumption is older than a user may give back.
  case tooLate
  /// The user gave back as often as the rules allow to consume.
  case tooOften
}

/// A user's consumption of several features, as far as the rules ask.
package struct UserUsage: Sendable {
  /// The zone in which it was read.
  package var zone: TimeZone
  /// By feature; what is missing was never used.
  package var usage: [FeatureName: Usage]
}
