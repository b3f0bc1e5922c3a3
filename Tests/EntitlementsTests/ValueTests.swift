import Entitlements
import SeededRandom
import Testing

import struct FoundationEssentials.Date

@Suite struct ValueTests {
  @Test(arguments: [
    (Duration.zero, "0"), (.milliseconds(1), "1ms"), (.milliseconds(1500), "1500ms"), (.seconds(1), "1s"),
    (.seconds(90), "90s"), (.seconds(120), "2m"), (.seconds(3600), "1h"), (.seconds(36 * 3600), "36h"),
    (.seconds(48 * 3600), "2d"), (.seconds(60 * 86_400), "60d"), (.seconds(-90), "-90s"), (.nanoseconds(5), "0"),
  ])
  func `a duration reads as it is written in the configuration`(duration: Duration, text: String) {
    #expect(duration.configurationText == text)
  }

  @Test(
    arguments: [
      0, 1, -1, 999, 1_717_200_000_001, 1_718_452_800_000, 1_721_000_000_999, -62_135_596_800_000, 64_092_211_200_000,
    ] as [Int64])
  func `milliseconds survive the way through a date`(milliseconds: Int64) {
    #expect(Date(millisecondsSince1970: milliseconds).millisecondsSince1970 == milliseconds)
  }

  @Test func `a date moved by a duration is the date of the summed milliseconds`() {
    var random = SeededRandom(seed: 7)
    for _ in 0..<2_000 {
      let start = Int64.random(in: 0..<4_000_000_000_000, using: &random)
      let step = Int64.random(in: 0..<10_000_000_000, using: &random)
      #expect(
        Date(millisecondsSince1970: start).advanced(by: .milliseconds(step))
          == Date(millisecondsSince1970: start + step))
    }
  }

  @Test(arguments: [
    (noon, Duration.seconds(Int64.max), Int64.max),
    (Date.distantPast, .seconds(Int64.min), .min),
    (Date(millisecondsSince1970: .max), .seconds(1), .max),
  ])
  func `a date is not moved beyond the range of dates`(start: Date, duration: Duration, milliseconds: Int64) {
    #expect(start.advanced(by: duration).millisecondsSince1970 == milliseconds)
  }

  @Test(
    arguments: [
      ([], [:], .noTiers),
      (["free", "pro", "free"], [:], .duplicateTier("free")),
      (["free"], [pro: .init(tier: "pro")], .unknownTier("pro", of: pro)),
    ] as [([Tier], [ProductID: Catalog.Product], Catalog.Invalid)])
  func `a catalog that contradicts itself is refused`(
    tiers: [Tier], products: [ProductID: Catalog.Product], invalid: Catalog.Invalid
  ) {
    #expect(throws: invalid) { try Catalog(tiers: tiers, products: products) }
  }

  @Test func `tiers rank as they are listed, and the first is the default`() throws {
    let catalog = try makeCatalog()
    #expect(catalog.defaultTier == "free")
    #expect(["free", "pro", "premium", "gold"].map { catalog.rank(of: $0) } == [0, 1, 2, .max])
  }

  @Test func `an answer is taken apart by subscription, each with its own rows and renewal info`() {
    let evidence = answer(
      [row("1", of: "100"), row("2", premium, of: "200"), row("3", of: "100")],
      [
        renewal(of: "100", intent: 1), renewal(premium, of: nil, intent: 2), renewal(of: "999", intent: 3),
        renewal(unheardOf, of: nil, intent: 4),
      ], in: .sandbox)
    #expect(evidence.map(\.key.originalTransactionID) == ["100", "200"])
    #expect(evidence.allSatisfy { $0.key.environment == .sandbox && $0.evidenceTime == noon && $0.evaluatedAt == noon })
    #expect(evidence.map { $0.purchases.map(\.transactionID) } == [["1", "3"], ["2"]])
    #expect(evidence.map { $0.renewals.map(\.expirationIntent) } == [[1], [2]])
  }

  @Test func `a UUID is one user in capitals and in small letters, and any other name means its letters`() {
    let small: UserID = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
    let capitals = UserID(small.rawValue.uppercased())
    #expect(small == capitals)
    #expect(!(small != capitals))
    #expect(Set([small, capitals]).count == 1)
    #expect([small: 1][capitals] == 1)
    #expect(Optional(small) == Optional(capitals))
    #expect(capitals.rawValue != small.rawValue)
    #expect(small != "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a12")
    for (one, other) in [("anna", "Anna"), ("a" + small.rawValue, "A" + small.rawValue), ("", "-")] {
      #expect(UserID(one) != UserID(other))
      #expect(Set([UserID(one), UserID(other)]).count == 2)
    }
  }
}
