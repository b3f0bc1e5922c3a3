import Figures
import SeededRandom
import Testing

/// When a variant is said to be ahead.
@Suite struct ExperimentLeadTests {
  private static func counts(_ paid: Int64, of users: Int64, paidBefore: Int64 = 0) -> VariantCounts {
    var counts = VariantCounts()
    (counts.exposed, counts.paidBefore, counts.paid) = (users + paidBefore, paidBefore, paid)
    return counts
  }

  @Test(
    arguments: [
      ([:], nil), (["a": (90, 100)], nil),
      // Nobody knows yet: few users, few payers, or a small difference.
      (["a": (50, 99), "b": (1, 99)], nil), (["a": (9, 100), "b": (0, 100)], nil),
      (["a": (60, 1_000), "b": (50, 1_000)], nil), (["a": (50, 1_000), "b": (50, 1_000)], nil),
      // A test for one look would have named it (p = 0.03).
      (["a": (75, 1_000), "b": (51, 1_000)], nil),
      (["a": (150, 1_000), "b": (50, 1_000)], "a"), (["a": (50, 1_000), "b": (150, 1_000)], "b"),
      // Ahead of one, and not surely of the other.
      (["a": (150, 1_000), "b": (50, 1_000), "c": (140, 1_000)], nil),
      (["a": (150, 1_000), "b": (50, 1_000), "c": (60, 1_000)], "a"),
      (["a": (150, 1_000), "b": (0, 1_000)], "a"), (["a": (150, 1_000), "new": (0, 3)], nil),
    ] as [([String: (Int64, Int64)], String?)])
  func `a variant is ahead where the others are surely below it`(variants: [String: (Int64, Int64)], name: String?) {
    #expect(VariantCounts.ahead(variants.mapValues { Self.counts($0.0, of: $0.1) }) == name)
  }

  @Test func `users who had paid before do not count`() {
    let variants = ["a": Self.counts(50, of: 99, paidBefore: 5_000), "b": Self.counts(1, of: 99, paidBefore: 5_000)]
    #expect(VariantCounts.ahead(variants) == nil)
  }

  /// 400 experiments of two variants that are alike, looked at every 50 users up to 10,000: of a test with p = 0.05 at each
  /// look about two in five would name a winner.
  @Test func `variants that are alike hardly ever have a winner, however often one looks`() {
    var random = SeededRandom(seed: 7)
    var winners = 0
    for _ in 0..<400 {
      var counts = ["a": VariantCounts(), "b": VariantCounts()]
      for _ in 0..<200 {
        for name in ["a", "b"] {
          counts[name]?.exposed += 25
          for _ in 0..<25 where random.below(10) == 0 { counts[name]?.paid += 1 }
        }
        guard VariantCounts.ahead(counts) != nil else { continue }
        winners += 1
        break
      }
    }
    #expect(winners <= 20, "\(winners)")
  }

  @Test func `a variant that is better is found`() {
    var random = SeededRandom(seed: 11)
    var found = 0
    for _ in 0..<50 {
      var counts = ["a": VariantCounts(), "b": VariantCounts()]
      for (name, percent) in [("a", 13), ("b", 10)] {
        counts[name]?.exposed = 5_000
        for _ in 0..<5_000 where random.below(100) < percent { counts[name]?.paid += 1 }
      }
      if VariantCounts.ahead(counts) == "a" { found += 1 }
    }
    #expect(found >= 40, "\(found)")
  }
}
