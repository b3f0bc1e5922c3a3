/// A part of some users, with the interval in which it lies with a probability of 95 %.
package struct Proportion: Hashable, Sendable {
  package let rate: Double
  /// Wilson's score interval, which stays between 0 and 1 also where few are counted:
  /// https://www.itl.nist.gov/div898/handbook/prc/section2/prc241.htm
  package let interval: ClosedRange<Double>

  /// - Returns: `nil` where there are no users.
  package init?(_ part: Int64, of whole: Int64) {
    guard whole > 0, (0...whole).contains(part) else { return nil }
    let (n, z) = (Double(whole), 1.959_963_984_540_054)
    rate = Double(part) / n
    let spread = z * (rate * (1 - rate) / n + z * z / (4 * n * n)).squareRoot()
    let (middle, scale) = (rate + z * z / (2 * n), 1 + z * z / n)
    interval = max(0, (middle - spread) / scale)...min(1, (middle + spread) / scale)
  }
}
