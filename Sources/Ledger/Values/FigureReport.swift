package import Access
package import Entitlements

/// The users with a tier and a status, by their last verdicts.
package struct SubscriberCount: Hashable, Sendable {
  package var tier: Tier
  package var status: SubscriptionStatus
  package var users: Int64
}

/// Everything that is told of the figures of a span, read in one snapshot.
package struct FigureReport: Sendable {
  package var series: FigureSeries
  /// As of now, and not of the span.
  package var subscribers: [SubscriberCount]
  /// The length of each product's periods (ISO 8601).
  package var periods: [String: String]
}
