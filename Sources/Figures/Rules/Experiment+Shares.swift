package import Access

extension Experiment {
  /// The critical values of the chi-squared distribution at p = 0.001, for one degree of freedom and more:
  /// https://www.itl.nist.gov/div898/handbook/eda/section3/eda3674.htm
  private static let criticalValues = [10.828, 13.816, 16.266, 18.467, 20.515, 22.458, 24.322, 26.124, 27.877]

  /// Whether the users saw the variants in shares that chance would give once in a thousand times at most, if the weights
  /// had always been the present ones. Then something is wrong with how the app assigns or reports, and figures mislead.
  ///
  /// - Parameter exposed: the number of users by variant.
  /// - Returns: `nil` where the test says nothing: fewer than five users are expected of a variant, or the experiment has
  ///   one variant with a weight, or more than ten.
  package func hasStrangeShares(_ exposed: [String: Int64]) -> Bool? {
    let shown = variants.filter { $0.weight > 0 }
    guard Self.criticalValues.indices.contains(shown.count - 2) else { return nil }
    let weights = shown.reduce(0) { $0 + $1.weight }
    let users = shown.reduce(0) { $0 + Double(exposed[$1.name] ?? 0) }
    var deviation = 0.0
    for variant in shown {
      let expected = users * variant.weight / weights
      guard expected >= 5 else { return nil }
      let difference = Double(exposed[variant.name] ?? 0) - expected
      deviation += difference * difference / expected
    }
    return deviation > Self.criticalValues[shown.count - 2]
  }
}
