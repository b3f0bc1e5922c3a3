/// A limit on the consumption of a feature in a window of time: `10 per month`, `3 days in a row`.
package struct MeterRule: Hashable, Sendable {
  /// The time that a rule looks at. A window includes its start and excludes its end.
  package enum Window: Hashable, Sendable {
    /// A day of the user's calendar.
    case day
    /// A week of the user's calendar, from Monday.
    case week
    /// A month of the user's calendar.
    case month
    /// The last hours or days: an amount counts until the duration has passed since it was consumed.
    case rolling(Duration)
    /// All time: nothing is ever given back.
    case total
    /// The maximum is a number of days, however much is consumed on them. They are over on the day after the last one,
    /// and begin again when one whole day was left out.
    case daysInARow
  }

  package let maximum: Int
  package let window: Window

  package init(maximum: Int, window: Window) {
    self.maximum = max(0, maximum)
    self.window = window
  }

  /// How far back the rule looks from any moment, with a day to spare: older moments change nothing. A rule on all
  /// time looks at a sum instead, and the duration is zero.
  var horizon: Duration {
    switch window {
    case .day: Self.days(2)
    case .week: Self.days(8)
    case .month: Self.days(32)
    case .rolling(let duration): duration + Self.days(1)
    case .total: .zero
    case .daysInARow: Self.days(maximum + 2)
    }
  }

  private static func days(_ count: Int) -> Duration { .seconds(count * 86_400) }
}
