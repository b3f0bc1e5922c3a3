/// The subject of a count that is kept up, so that nobody has to count rows.
struct Tally: Hashable, Comparable {
  enum Name: String, CaseIterable {
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
    var months: Name? {
      switch self {
      case .funnel: .funnelMonths
      case .webhooks: .webhookMonths
      default: nil
      }
    }
  }

  var name: Name
  /// Days since 1970-01-01 in UTC; zero for what is counted as of now.
  var day = 0
  var label = ""
  var detail = ""

  static func < (one: Self, other: Self) -> Bool {
    (one.name.rawValue, one.day, one.label, one.detail) < (other.name.rawValue, other.day, other.label, other.detail)
  }
}
