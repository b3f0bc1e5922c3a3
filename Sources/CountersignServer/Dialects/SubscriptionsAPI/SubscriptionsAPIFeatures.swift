import Access
import CountersignAPI
import Entitlements

/// The catalog's features under the names of this interface.
///
///     feature            kind    in `limits`                         in `usage`
///     advanced_filters   flag    hasAdvancedFilters
///     children           limit   maxChildren                         childrenCount
///     saved_searches     limit   savedSearchLimit, hasSavedSearches  savedSearchesCount
///     questions          meter   hasQuestions                        questionsCount
///
/// The names that its clients read are always there, as `null` where the catalog has no such feature.
struct SubscriptionsAPIFeatures: Sendable {
  /// A limit: a number, a switch, or what the catalog does not say.
  enum Limit: Encodable, Hashable, Sendable {
    case number(Int)
    case flag(Bool)
    case unknown

    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      switch self {
      case .number(let number): try container.encode(number)
      case .flag(let isOn): try container.encode(isOn)
      case .unknown: try container.encodeNil()
      }
    }
  }

  /// The number for no limit: clients compare with it, and would take `null` for zero.
  static let unlimited = MeterRule.largestMaximum

  private static let usualLimits = [
    "maxChildren", "maxFavorites", "maxSharedUsers", "savedSearchLimit", "hasAdvancedFilters", "hasCalendarExport",
    "hasInstantAlerts", "hasSavedSearches",
  ]
  private static let usualUsage = ["childrenCount", "favoritesCount", "sharedUsersCount", "savedSearchesCount"]
  private static let savedSearches = FeatureName("saved_searches")
  /// Resources that are not called as what is counted.
  private static let otherNames = [FeatureName("shared_users"): "shares", savedSearches: "savedSearchLimit"]

  private let features: [Feature]
  private let spellings: [String: Feature]

  init(_ features: [Feature]) {
    self.features = features
    // The catalog's own names come first.
    var spellings = Dictionary(features.map { ($0.name.rawValue, $0) }) { first, _ in first }
    for feature in features {
      let (word, title) = Self.words(feature.name)
      let others = [
        feature.name.rawValue.replacing("_", with: "-"), word, "has" + title, "max" + title,
        Self.otherNames[feature.name],
      ]
      for case let name? in others where spellings[name] == nil { spellings[name] = feature }
    }
    self.spellings = spellings
  }

  /// The feature with a name of the catalog's or of this interface: `saved_searches`, `saved-searches`,
  /// `hasSavedSearches`.
  subscript(name: String) -> Feature? { spellings[name] }

  func limits(of tier: Tier) -> [String: Limit] {
    var limits = Dictionary(Self.usualLimits.map { ($0, Limit.unknown) }) { first, _ in first }
    for feature in features {
      let title = Self.words(feature.name).title
      let allowance = PlansResponse.Allowance(feature.allowance(of: tier))
      let isSavedSearches = feature.name == Self.savedSearches
      if feature.kind != .limit || isSavedSearches { limits["has" + title] = .flag(allowance.isIncluded) }
      if feature.kind == .limit {
        limits[isSavedSearches ? "savedSearchLimit" : "max" + title] = .number(allowance.limit ?? Self.unlimited)
      }
    }
    return limits
  }

  /// The present count of each limit and meter.
  func usage(_ access: [FeatureName: FeatureAccess]) -> [String: Nullable<Int>] {
    var usage = Dictionary(Self.usualUsage.map { ($0, Nullable<Int>(wrappedValue: nil)) }) { first, _ in first }
    for feature in features where feature.kind != .flag {
      usage[Self.words(feature.name).word + "Count"] = Nullable(wrappedValue: access[feature.name]?.current)
    }
    return usage
  }

  /// `sharedUsers` and `SharedUsers` of `shared_users`.
  private static func words(_ name: FeatureName) -> (word: String, title: String) {
    let parts = name.rawValue.split { !$0.isLetter && !$0.isNumber }.map { $0.prefix(1).uppercased() + $0.dropFirst() }
    let title = parts.joined()
    return (title.prefix(1).lowercased() + title.dropFirst(), title)
  }
}
