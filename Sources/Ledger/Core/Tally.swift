/// The subject of a count that is kept up, so that nobody has to count rows.
package struct Tally: Hashable, Comparable, Sendable {
  package enum Name: String, CaseIterable, Sendable {
    /// Users with a verdict, as of now; `label` is the tier, `detail` the status.
    case subscribers
    /// Users by the steps of `UserProgress`; `label` is the step.
    case funnel
    /// Users near a limit, as of now; `label` is the feature, `detail` the tier.
    case nearLimit = "near_limit"
    /// Attempts to deliver an event to a receiver; `label` is the receiver, `detail` is `delivered` or `failed`.
    case webhooks
    /// Monthly sums of daily counts, keyed by the month's first day.
    case funnelMonths = "funnel_months"
    case webhookMonths = "webhook_months"

    /// The name of a daily count's monthly sums; `nil` for a count as of now.
    package var months: Name? {
      switch self {
      case .funnel: .funnelMonths
      case .webhooks: .webhookMonths
      default: nil
      }
    }
  }

  package var name: Name
  /// Days since 1970-01-01 in UTC; zero for what is counted as of now.
  package var day: Int
  package var label: String
  package var detail: String

  package init(name: Name, day: Int = 0, label: String = "", detail: String = "") {
    self.name = name
    self.day = day
    self.label = label
    self.detail = detail
  }

  package static func < (one: Self, other: Self) -> Bool {
    (one.name.rawValue, one.day, one.label, one.detail) < (other.name.rawValue, other.day, other.label, other.detail)
  }
}
