import Foundation

/// The name of an event of the app's own: 1 to 64 letters, digits and `_`, a letter first. Any name will do; these are the
/// usual ones of a paywall.
public struct EventName: RawRepresentable, ExpressibleByStringLiteral, Codable, Hashable, Sendable {
  public let rawValue: String
  public init(rawValue: String) { self.rawValue = rawValue }
  public init(stringLiteral value: String) { rawValue = value }

  public static let paywallViewed: Self = "paywall_viewed"
  public static let paywallDismissed: Self = "paywall_dismissed"
  public static let planSelected: Self = "plan_selected"
  public static let purchaseInitiated: Self = "purchase_initiated"
  public static let purchaseCompleted: Self = "purchase_completed"
  public static let purchaseFailed: Self = "purchase_failed"
  public static let purchaseCancelled: Self = "purchase_cancelled"
  public static let trialStarted: Self = "trial_started"
  public static let restoreInitiated: Self = "restore_initiated"
  public static let restoreCompleted: Self = "restore_completed"
  public static let upgradePromptShown: Self = "upgrade_prompt_shown"
  public static let upgradePromptAccepted: Self = "upgrade_prompt_accepted"
  public static let upgradePromptDismissed: Self = "upgrade_prompt_dismissed"
  public static let limitReached: Self = "limit_reached"

  static let experimentExposed: Self = "experiment_exposed"

  var isValid: Bool {
    let bytes = rawValue.utf8
    return (1...64).contains(bytes.count) && bytes.first.map(Self.isLetter) == true
      && bytes.allSatisfy { Self.isLetter($0) || (48...57).contains($0) || $0 == 95 }
  }

  private static func isLetter(_ byte: UInt8) -> Bool { (65...90).contains(byte) || (97...122).contains(byte) }
}

/// A property of an event.
public enum EventValue: Codable, Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral
{
  case text(String)
  case integer(Int)
  case number(Double)
  case flag(Bool)

  public init(stringLiteral value: String) { self = .text(value) }
  public init(integerLiteral value: Int) { self = .integer(value) }
  public init(floatLiteral value: Double) { self = .number(value) }
  public init(booleanLiteral value: Bool) { self = .flag(value) }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if let value = try? container.decode(Bool.self) {
      self = .flag(value)
    } else if let value = try? container.decode(Int.self) {
      self = .integer(value)
    } else if let value = try? container.decode(Double.self) {
      self = .number(value)
    } else {
      self = .text(try container.decode(String.self))
    }
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .text(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .flag(let value): try container.encode(value)
    }
  }
}

/// An event as it waits, and as `POST /v1/events` takes it.
struct AppEvent: Codable, Hashable, Sendable {
  var type: EventName
  /// The service keeps one of those that have the same.
  var id: String
  var at: Date
  var properties: [String: EventValue]
}

/// The body of `POST /v1/events`.
struct EventReport: Codable, Sendable {
  /// The most events of a request.
  static let most = 50
  var events: [AppEvent]
}

/// The answer to it.
struct EventsRecorded: Codable, Sendable {
  var recorded: Int
}

/// The events that the service has not taken yet.
struct EventQueue: Codable, Sendable {
  /// Some days offline. The oldest are dropped.
  static let most = 1000
  /// The service takes 8 KiB for each event's properties, and none from before 90 days.
  static let longestProperties = 8 * 1024
  static let oldest: TimeInterval = 89 * 86_400
  static let mostBytes = 512 * 1024

  private(set) var events: [AppEvent] = []
  private(set) var dropped = 0
  private var bytes: [Int] = []

  /// - Parameter size: of its properties as JSON, in bytes.
  mutating func add(_ event: AppEvent, size: Int) {
    events.append(event)
    bytes.append(size + 200)
    var total = bytes.reduce(0, +)
    while events.count > Self.most || total > Self.mostBytes {
      total -= bytes[0]
      remove([events[0].id], isDrop: true)
    }
  }

  mutating func remove(_ ids: Set<String>, isDrop: Bool = false) {
    let left = zip(events, bytes).filter { !ids.contains($0.0.id) }
    if isDrop { dropped += events.count - left.count }
    events = left.map(\.0)
    bytes = left.map(\.1)
  }

  mutating func dropOld(at now: Date) {
    remove(Set(events.filter { $0.at < now - Self.oldest }.map(\.id)), isDrop: true)
  }

  mutating func noteDropped() { dropped += 1 }

  /// Those that were stored, before these.
  mutating func prepend(_ stored: EventQueue) {
    let newer = self
    self = stored
    if bytes.count != events.count { self = EventQueue() }
    dropped += newer.dropped
    for (event, size) in zip(newer.events, newer.bytes) { add(event, size: size - 200) }
  }
}
