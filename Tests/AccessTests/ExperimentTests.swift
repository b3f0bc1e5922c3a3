import Entitlements
import Testing

@testable import Access

@Suite struct ExperimentTests {
  /// Those of GrowthBook's test cases for its SDKs, and some from its JavaScript:
  /// https://github.com/growthbook/growthbook/blob/main/packages/sdk-js/test/cases.json
  @Test(
    arguments: [
      ("foo", "ab", 2_575), ("foo", "def", 2_019), ("89123klj", "8952klfjas09ujkasdf", 1_240),
      ("90850943850283058242805", "123", 7_516), ("()**(%$##$%#$#", "___)((*\":&", 128),
      ("seed", "a", 505), ("seed", "b", 2_696), ("seed", "c", 6_130), ("seed", "d", 439), ("seed", "e", 4_791),
      ("", "a", 216), ("paywall_headline", "user-1", 2_929), ("s", "ü€😀", 2_241),
    ] as [(String, String, UInt32)])
  func `the hash is GrowthBook's, version 2`(salt: String, value: String, bucket: UInt32) {
    #expect(Experiment.bucket(salt: salt, of: value) == bucket)
  }

  private static func experiment(_ weights: KeyValuePairs<String, Double>, salt: String = "seed") -> Experiment {
    Experiment(name: "headline", salt: salt, variants: weights.map { .init(name: $0, weight: $1) })
  }

  @Test func `variants have their ranges in order, an end belonging to the next`() {
    // a: 0.0505, b: 0.2696, c: 0.6130.
    let thirds = Self.experiment(["one": 0.0505, "two": 0.5625, "three": 0.387])
    #expect(["d", "a", "b", "c"].map { thirds.variant(for: UserID($0)) } == ["one", "two", "two", "three"])
  }

  @Test func `weights are shares of their sum`() {
    let users = (0..<2_000).map { UserID("user-\($0)") }
    let percent = Self.experiment(["control": 34, "family": 33, "savings": 33])
    let parts = Self.experiment(["control": 0.34, "family": 0.33, "savings": 0.33])
    #expect(users.map(percent.variant) == users.map(parts.variant))
    let names = users.compactMap(percent.variant)
    for (name, share) in [("control", 0.34), ("family", 0.33), ("savings", 0.33)] {
      #expect(abs(Double(names.count { $0 == name }) / 2_000 - share) < 0.03, "\(name)")
    }
    #expect(
      users.map(Self.experiment(["control": 34, "family": 66], salt: "other").variant) != users.map(percent.variant))
  }

  @Test func `a user's variant stays at any change of the weights, and falls with its variant alone`() {
    let users = (0..<1_000).map { UserID("user-\($0)") }
    let before = Self.experiment(["a": 50, "b": 50])
    let seen = users.map(before.variant)
    for weights in [["a": 1, "b": 99], ["a": 0, "b": 1], ["c": 98, "b": 1, "a": 1]] as [KeyValuePairs<String, Double>] {
      for salt in ["seed", "other"] {
        let after = Self.experiment(weights, salt: salt)
        #expect(zip(users, seen).map { after.variant(for: $0, seen: $1) } == seen)
        #expect(users.map { after.variant(for: $0, seen: nil) } == users.map(after.variant))
      }
    }
    let without = Self.experiment(["b": 1, "c": 1])
    for (user, seen) in zip(users, seen) where seen == "a" {
      #expect(without.variant(for: user, seen: seen) == without.variant(for: user))
    }
  }

  @Test func `a variant of no weight is shown to nobody, and everybody is shown one`() {
    // Sums of shares such as these stay below one.
    let many = Self.experiment(["a": 0.1, "b": 0.1, "c": 0.1, "d": 0.1, "e": 0.1, "f": 0.1, "g": 0.1, "none": 0])
    let names = (0..<20_000).map { many.variant(for: UserID("\($0)")) }
    #expect(!names.contains(nil))
    #expect(!names.contains("none"))
    #expect(Self.experiment(["a": 0]).variant(for: "x") == nil)
    #expect(Self.experiment([:]).variant(for: "x") == nil)
  }

  @Test func `a user is the same in capitals, where the ID is a UUID`() {
    let half = Self.experiment(["a": 1, "b": 1])
    for digit in "0123456789ABCDEF" {
      let id = "6F9619FF-8B86-D011-B42D-00CF4FC964F\(digit)"
      #expect(half.variant(for: UserID(id)) == half.variant(for: UserID(id.lowercased())))
    }
  }

  @Test func `the salt is the name unless it is given`() {
    #expect(Experiment(name: "headline", variants: []).salt == "headline")
  }
}
