import Access
import Entitlements
import Figures
import Testing

/// The shares of an experiment's variants, and the parts that paid.
@Suite struct ExperimentShareTests {
  private static func experiment(_ weights: KeyValuePairs<String, Double>, salt: String = "seed") -> Experiment {
    Experiment(name: "headline", salt: salt, variants: weights.map { .init(name: $0, weight: $1) })
  }

  @Test func `each variant has its share of twenty thousand users, and each user one variant`() {
    let experiment = Self.experiment(["control": 34, "family": 33, "savings": 33])
    var counts: [String: Int64] = [:]
    for number in 0..<20_000 { counts[experiment.variant(for: UserID("u\(number)")) ?? "none", default: 0] += 1 }
    #expect(counts.values.reduce(0, +) == 20_000)
    for (name, share) in [("control", 6_800), ("family", 6_600), ("savings", 6_600)] as [(String, Int64)] {
      // Four standard deviations.
      #expect(abs((counts[name] ?? 0) - share) < 268, "\(counts)")
    }
    #expect(experiment.hasStrangeShares(counts) == false)
  }

  /// The critical value of one degree of freedom lies between the deviations of 553 and of 552 among 1,000.
  @Test(
    arguments: [
      (["a": 553, "b": 447], true), (["a": 552, "b": 448], false), (["a": 500, "b": 500], false),
      (["a": 500, "b": 500, "gone": 900], false), (["a": 9], nil), (["a": 10], false), (["a": 20], true), ([:], nil),
    ] as [([String: Int64], Bool?)])
  func `shares that chance would hardly give are strange`(exposed: [String: Int64], isStrange: Bool?) {
    let half = Self.experiment(["a": 1, "none": 0, "b": 1])
    #expect(half.hasStrangeShares(exposed) == isStrange)
    #expect(Self.experiment(["a": 1]).hasStrangeShares(exposed) == nil)
  }

  /// Computed with R's prop.test without correction.
  @Test(
    arguments: [
      (10, 100, 0.1, 0.0552, 0.1744), (50, 1_000, 0.05, 0.0381, 0.0653), (0, 10, 0, 0, 0.2775), (1, 1, 1, 0.2065, 1),
    ] as [(Int64, Int64, Double, Double, Double)])
  func `an interval is Wilson's`(part: Int64, whole: Int64, rate: Double, low: Double, high: Double) throws {
    let proportion = try #require(Proportion(part, of: whole))
    #expect(proportion.rate == rate)
    #expect(abs(proportion.interval.lowerBound - low) < 0.0001 && abs(proportion.interval.upperBound - high) < 0.0001)
  }

  @Test func `an experiment without anybody has no figures`() {
    #expect(Proportion(0, of: 0) == nil)
    #expect(Proportion(2, of: 1) == nil)
  }
}
