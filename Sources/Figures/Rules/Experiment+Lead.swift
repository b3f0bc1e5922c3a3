internal import Glibc

extension VariantCounts {
  /// The fewest users of a variant, and payers of the one ahead: with fewer the normal approximation does not hold.
  private static let fewestUsers: Int64 = 100
  private static let fewestPayers: Int64 = 10
  /// The number of users at which the sequence of intervals is narrowest; any number keeps it valid.
  private static let bestAt = 5_000.0

  /// The variant with the best conversion, if the conversion of every other one is surely lower.
  ///
  /// An owner looks every day, and an interval for one look would name a winner by chance sooner or later. These intervals
  /// hold at all looks together with a probability of 95 %: the confidence sequence of Waudby-Smith and others,
  /// "Time-uniform central limit theory and asymptotic confidence sequences", https://arxiv.org/abs/2103.06476, theorem 2.2.
  /// The 5 % are divided by the number of pairs (Bonferroni).
  ///
  /// - Returns: `nil` while it is too early to say.
  package static func ahead(_ variants: [String: VariantCounts]) -> String? {
    guard variants.count >= 2, variants.values.allSatisfy({ $0.exposed - $0.paidBefore >= fewestUsers }),
      let best = variants.max(by: { ($0.value.rate, $1.key) < ($1.value.rate, $0.key) }),
      best.value.paid >= fewestPayers
    else { return nil }
    let error = 0.05 / Double(variants.count * (variants.count - 1) / 2)
    let isAhead = variants.allSatisfy { name, counts in
      name == best.key || best.value.rate - counts.rate > halfWidth(best.value, counts, error)
    }
    return isAhead ? best.key : nil
  }

  private var users: Double { Double(exposed - paidBefore) }
  private var rate: Double { Double(paid) / users }
  /// The variance of the rate, with one payer and one other more, so that it is above zero.
  private var variance: Double {
    let rate = (Double(paid) + 1) / (users + 2)
    return rate * (1 - rate) / users
  }

  private static func halfWidth(_ one: Self, _ other: Self, _ error: Double) -> Double {
    let square = (-2 * log(error) + log(-2 * log(error) + 1)) / bestAt
    let scale = (one.users + other.users) * square
    let width = 2 * (scale + 1) / scale * log((scale + 1).squareRoot() / error)
    return ((one.variance + other.variance) * width).squareRoot()
  }
}
