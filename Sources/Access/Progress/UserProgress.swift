/// The progress of a user towards paying, for conversion and funnel. Days are since 1970-01-01 in UTC.
package struct UserProgress: Hashable, Sendable {
  /// A count of users, by day.
  package enum Step: String, CaseIterable, Sendable {
    /// Users first seen on the day, and those of them who have paid since.
    case users
    case conversions
    /// Users who saw a paywall for the first time on the day, and those of them who have paid since.
    case viewers
    case purchasers
  }

  /// The day on which the service first heard of the user.
  package var seen: Int
  /// The first day on which the user saw a paywall.
  package var viewed: Int?
  /// The day of the first payment.
  package var paid: Int?

  package init(seen: Int, viewed: Int? = nil, paid: Int? = nil) {
    self.seen = seen
    self.viewed = viewed
    self.paid = paid
  }

  /// The union of both: the earlier of each pair of days.
  package func merged(with other: UserProgress) -> UserProgress {
    UserProgress(
      seen: min(seen, other.seen), viewed: [viewed, other.viewed].compactMap(\.self).min(),
      paid: [paid, other.paid].compactMap(\.self).min())
  }

  /// The steps in which the user counts, with the day of each. A user who had paid before is not counted.
  package var steps: [Step: Int] {
    var steps: [Step: Int] = [:]
    if paid.map({ $0 >= seen }) ?? true {
      steps[.users] = seen
      if paid != nil { steps[.conversions] = seen }
    }
    if let viewed, paid.map({ $0 >= viewed }) ?? true {
      steps[.viewers] = viewed
      if paid != nil { steps[.purchasers] = viewed }
    }
    return steps
  }
}
