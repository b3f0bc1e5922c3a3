package import Access
package import Entitlements

/// The users with a tier and a status, by their last verdicts.
package struct SubscriberCount: Hashable, Sendable {
  package var tier: Tier
  package var status: SubscriptionStatus
  package var users: Int64
}

/// The users who have almost as many of a thing as their tier allows.
package struct NearLimitCount: Hashable, Sendable {
  package var feature: FeatureName
  package var tier: Tier
  package var users: Int64
}

/// The attempts to deliver events to a receiver.
package struct WebhookAttempts: Hashable, Sendable {
  package var webhook: String
  package var delivered: Int64 = 0
  package var failed: Int64 = 0
}

/// The figures of a span, of one snapshot.
package struct FigureReport: Sendable {
  package var series: FigureSeries
  /// As of now, and not of the span.
  package var subscribers: [SubscriberCount]
  /// The length of each product's periods (ISO 8601).
  package var periods: [String: String]
  /// The users of each step, by day; of a span by month, by the first day of each period.
  package var funnel: [Int: [UserProgress.Step: Int64]]
  /// As of now, and not of the span.
  package var nearLimits: [NearLimitCount]
  /// The attempts to deliver events, over the span.
  package var webhooks: [WebhookAttempts]
  /// The cohorts of its whole months, of a span by month.
  package var cohorts: [FigureCohort]

  /// The users of each step in a range of days; of a span by month, in whole periods.
  package func users(in days: Range<Int>) -> [UserProgress.Step: Int64] {
    days.reduce(into: [:]) { sums, day in sums.merge(funnel[day] ?? [:]) { $0 + $1 } }
  }
}
