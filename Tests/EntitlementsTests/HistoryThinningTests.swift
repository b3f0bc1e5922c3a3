import SeededRandom
import Testing

@testable import Entitlements

/// The lines that retention takes out of a history, and those that it leaves.
@Suite struct HistoryThinningTests {
  private typealias Line = HistoryThinning.Line

  private static func verdict(
    _ id: Int64, _ tier: Tier, _ reason: EntitlementReason = .renewing, product: ProductID? = nil
  ) -> Line {
    var entitlement = Entitlement.none(
      tier: tier, reason: reason, explanation: Explanation(decidedBy: nil, passedOver: [], evaluatedAt: noon)
    )
    entitlement.productID = product
    return Line(id: id, .verdict(.init(entitlement)))
  }

  private static func needless(_ lines: [Line], isWhole: Bool = true, newest: Int64 = .max) -> [Int64] {
    HistoryThinning.needless(in: lines, isWhole: isWhole, newest: newest).sorted()
  }

  @Test func `verdicts that repeat the one before go, but for the last`() {
    let lines = [
      Line(id: 1, .ownership), Self.verdict(2, "pro"), Self.verdict(3, "pro"), Self.verdict(4, "pro"),
      Self.verdict(5, "free", .voluntary), Self.verdict(6, "free", .voluntary), Self.verdict(7, "free", .refunded),
      Self.verdict(8, "pro", product: "a"), Self.verdict(9, "pro", product: "b"), Self.verdict(10, "pro", product: "b"),
      Line(id: 11, .ownership), Self.verdict(12, "pro", product: "b"),
    ]
    #expect(Self.needless(lines) == [3, 4, 6, 10])
    #expect(Self.needless([]) == [] && Self.needless([Self.verdict(1, "pro")]) == [])
  }

  @Test func `the user's newest line stays, and the first of those that are not the whole`() {
    let lines = [
      Self.verdict(1, "pro"), Self.verdict(2, "pro"), Self.verdict(3, "pro"), Line(id: 4, .note(namedBy: [])),
    ]
    #expect(Self.needless(lines, newest: 4) == [2])
    #expect(Self.needless(lines) == [2, 4])
    #expect(Self.needless(Array(lines.dropFirst()), isWhole: false) == [4])
    #expect(Self.needless([lines[3]], isWhole: false) == [])
  }

  @Test func `a note stays as long as a line that names it`() {
    let lines = [
      Self.verdict(1, "pro"), Line(id: 2, .note(namedBy: [3])), Self.verdict(3, "pro"),
      Line(id: 4, .note(namedBy: [5])), Self.verdict(5, "free"), Line(id: 6, .note(namedBy: [7, 99])),
      Self.verdict(7, "free"), Self.verdict(8, "free"),
    ]
    #expect(Self.needless(lines) == [2, 3, 7])
  }

  /// Tier, status, reason and product of every moment, whatever goes, and in however many turns it goes.
  @Test func `the evidence that is left says the same of every moment`() {
    for seed in 0..<500 {
      var random = SeededRandom(seed: UInt64(seed))
      var lines: [Line] = []
      for id in Int64(1)...60 { lines.append(Self.line(id, &random)) }
      let atOnce = HistoryThinning.needless(in: lines, isWhole: true, newest: 60)
      let kept = lines.filter { !atOnce.contains($0.id) }
      #expect(Self.standings(kept) == Self.standings(lines), "\(seed)")
      #expect(!lines.contains { $0.content == .ownership && atOnce.contains($0.id) })
      #expect(HistoryThinning.needless(in: kept, isWhole: true, newest: 60) == [], "\(seed)")
      var left: [Line] = []
      var next = 0
      while next < lines.count {
        let end = min(lines.count, next + Int.random(in: 1...7, using: &random))
        left += lines[next..<end]
        next = end
        let gone = HistoryThinning.needless(in: left, isWhole: true, newest: 60)
        left.removeAll { gone.contains($0.id) }
      }
      #expect(left == kept, "\(seed)")
    }
  }

  private static func line(_ id: Int64, _ random: inout SeededRandom) -> Line {
    let one = Int.random(in: 0..<10, using: &random)
    if one == 0 { return Line(id: id, .ownership) }
    if one == 1 { return Line(id: id, .note(namedBy: random.chance(50) ? [id + 1] : [])) }
    return verdict(
      id, one.isMultiple(of: 2) ? "free" : "pro", one < 4 ? .voluntary : .renewing, product: one == 9 ? "a" : nil)
  }

  /// The standing at each line's moment.
  private static func standings(_ lines: [Line]) -> [HistoryThinning.Standing?] {
    var standing: HistoryThinning.Standing?
    var next = lines[...]
    return (0...61).map { moment in
      while let line = next.first, line.id <= moment {
        if case .verdict(let own) = line.content { standing = own }
        next = next.dropFirst()
      }
      return standing
    }
  }
}
