package import Entitlements

/// An A/B experiment: each user sees one variant, always the same.
///
/// The hash of the user's ID decides until the user has seen a variant: from then on that one stays (`Exposure`).
package struct Experiment: Hashable, Sendable {
  /// A variant of the app, with its weight.
  package struct Variant: Hashable, Sendable {
    package let name: String
    /// Its share among the weights of all variants.
    package let weight: Double

    package init(name: String, weight: Double) {
      self.name = name
      self.weight = weight
    }
  }

  package let name: String
  /// Experiments with different salts are independent of each other.
  package let salt: String
  /// In the order of their ranges.
  package let variants: [Variant]

  package init(name: String, salt: String? = nil, variants: [Variant]) {
    self.name = name
    self.salt = salt ?? name
    self.variants = variants
  }

  /// The variant of a user, who saw one before or none; `nil` without a variant of any weight.
  ///
  /// - Parameter seen: the variant that the user saw first. It is ignored once the experiment lacks it.
  package func variant(for user: UserID, seen: String?) -> String? {
    variants.contains { $0.name == seen } ? seen : variant(for: user)
  }

  /// The variant of a user who has seen none; `nil` without a variant of any weight.
  ///
  /// The same as GrowthBook's hash version 2 gives, with the salt as its seed and the user's ID as the value:
  /// https://docs.growthbook.io/lib/build-your-own
  package func variant(for user: UserID) -> String? {
    let total = variants.reduce(0) { $0 + $1.weight }
    guard total > 0 else { return nil }
    let place = Double(Self.bucket(salt: salt, of: user.accountToken ?? user.rawValue)) / 10_000
    var end = 0.0
    for variant in variants {
      end += variant.weight / total
      if place < end { return variant.name }
    }
    // The sum of the shares may be a little below one.
    return variants.last { $0.weight > 0 }?.name
  }

  /// 0 to 9,999.
  static func bucket(salt: String, of value: String) -> UInt32 { fnv1a("\(fnv1a(salt + value))") % 10_000 }

  /// The 32-bit FNV-1a hash over UTF-16 code units, as JavaScript has them.
  private static func fnv1a(_ text: String) -> UInt32 {
    text.utf16.reduce(2_166_136_261) { ($0 ^ UInt32($1)) &* 16_777_619 }
  }
}
