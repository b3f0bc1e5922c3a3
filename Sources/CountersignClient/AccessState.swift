import CountersignAPI
import Foundation

/// The knowledge of a user's access at this moment.
public enum AccessState: Hashable, Sendable {
  /// The service said so within the hour.
  case known(Access)
  /// The service said so within seven days, and could not be asked since. It counts, and may be out of date.
  case old(Access)
  /// Nothing counts: the service was never asked, or not for seven days; or the clock was set back since. This is not "free":
  /// the app decides what it shows.
  case unknown

  /// The access of the user; `nil` where it is unknown.
  public var access: Access? {
    switch self {
    case .known(let access), .old(let access): access
    case .unknown: nil
    }
  }
}

/// A user's access, as the service signed it.
public struct Access: Hashable, Sendable {
  /// The name of a tier of the service's catalog.
  public var tier: String
  /// The word for the user, such as `active` or `grace_period`.
  public var status: EntitlementState.Status
  /// `production` or `sandbox`; `nil` where no purchase decided.
  public var environment: EntitlementState.Environment?
  /// When access ends as far as is known, grace and retry included; `nil` for life, and where there is no access.
  public var accessUntil: Date?
  /// Every feature of the catalog, by name.
  public var features: [String: Feature]
  public var issuedAt: Date
  /// Until then the state is `known`: an hour after `issuedAt`, or sooner.
  public var knownUntil: Date
  /// Until then the state is `old`: seven days after `issuedAt`, and never past `accessUntil`.
  public var offlineUntil: Date

  /// Whether a user may use a feature, and how much of it is left.
  public struct Feature: Hashable, Sendable {
    /// A flag is on; of a limit or a meter, one more is allowed.
    public var isAllowed: Bool
    /// `nil` for a flag, and where there is no limit.
    public var limit: Int?
    /// `nil` for a flag, and where there is no limit.
    public var remaining: Int?

    public init(isAllowed: Bool, limit: Int? = nil, remaining: Int? = nil) {
      self.isAllowed = isAllowed
      self.limit = limit
      self.remaining = remaining
    }
  }

  /// The validity of the token at a moment.
  enum Validity { case known, old, unknown }

  func validity(at now: Date) -> Validity {
    // A clock that stands before the issue was set back. Five minutes are what clocks differ by.
    if now < issuedAt.addingTimeInterval(-300) { return .unknown }
    if now < knownUntil { return .known }
    return now < offlineUntil ? .old : .unknown
  }
}

/// The newest token's content, checked, with the difference of the clocks when it came.
///
/// Both are stored as one. A device whose clock is wrong reads the token as one whose clock is right, and for no longer: the
/// times at which it counts are shifted, and not added to.
struct HeldAccess: Sendable {
  var access: Access
  /// The seconds by which the service's clock is ahead of the device's.
  var clockDifference: TimeInterval

  /// - Parameter now: by the device's clock.
  func validity(at now: Date) -> Access.Validity { access.validity(at: now + clockDifference) }
}

extension AccessState {
  /// - Parameter now: by the device's clock.
  init(_ held: HeldAccess?, at now: Date) {
    guard let held else {
      self = .unknown
      return
    }
    self =
      switch held.validity(at: now) {
      case .known: .known(held.access)
      case .old: .old(held.access)
      case .unknown: .unknown
      }
  }
}
