/// The experiment, the variant, the day and the currency that counts belong to.
package struct VariantKey: Hashable, Comparable, Sendable {
  package var experiment: String
  package var variant: String
  /// The day of the first exposure: days since 1970-01-01 in UTC.
  package var day: Int
  /// As ISO 4217 names it; empty for users.
  package var currency: String

  package static func < (one: Self, other: Self) -> Bool {
    (one.experiment, one.day, one.variant, one.currency) < (other.experiment, other.day, other.variant, other.currency)
  }
}

/// The users who saw a variant, with their later trials and payments.
package struct VariantCounts: Hashable, Sendable {
  /// Users who saw the variant.
  package var exposed: Int64 = 0
  /// Users who had paid before they saw it. They are in no other count.
  package var paidBefore: Int64 = 0
  /// Users who began a trial since.
  package var trials: Int64 = 0
  /// Users who paid since, and have not got everything back.
  package var paid: Int64 = 0
  /// The payments of these users since, and the refunded part of them, in thousandths of the currency's unit.
  package var revenue: Int64 = 0
  package var refunds: Int64 = 0

  package init() {}

  /// Every count, in the order in which the ledger stores them.
  package static let all: [any WritableKeyPath<Self, Int64> & Sendable] = [
    \.exposed, \.paidBefore, \.trials, \.paid, \.revenue, \.refunds,
  ]

  package var isZero: Bool { self == Self() }

  package static func += (counts: inout Self, other: Self) {
    for count in all { counts[keyPath: count] += other[keyPath: count] }
  }

  package static func -= (counts: inout Self, other: Self) {
    for count in all { counts[keyPath: count] -= other[keyPath: count] }
  }

  /// The part that paid of those who had not paid before; `nil` where there are none.
  package var conversion: Proportion? { Proportion(paid, of: exposed - paidBefore) }
}
