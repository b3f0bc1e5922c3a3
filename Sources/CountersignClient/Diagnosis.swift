import CountersignAPI
import Foundation

/// The facts for a support ticket. It has no token, no transaction and no receipt.
public struct Diagnosis: Codable, Hashable, Sendable, CustomStringConvertible {
  /// `swift/0.1.0`.
  public var client: String
  public var system: String
  /// The host of the service.
  public var service: String
  public var user: String
  public var at: Date
  /// `known`, `old` or `unknown`.
  public var state: String
  public var tier: String?
  public var status: String?
  public var issuedAt: Date?
  public var offlineUntil: Date?
  /// Purchases that wait to be posted, and those that were refused since the app's start.
  public var waitingPurchases: Int
  public var refusedPurchases: Int
  public var waitingSessions: Int
  public var waitingEvents: Int
  public var droppedEvents: Int
  /// The seconds by which the service's clock is ahead of the device's; `nil` before the first answer.
  public var clockDifference: TimeInterval?
  /// The keys that a token is checked with, and whether the app pins them.
  public var keyIDs: [String]
  public var arePinned: Bool
  /// The last answers, the newest at the end.
  public var answers: [Answer]

  /// An answer of the service's, or that there was none.
  public struct Answer: Codable, Hashable, Sendable {
    public var at: Date
    /// `GET /v1/profiles/me`.
    public var request: String
    /// `nil` where there was no answer.
    public var status: Int?
    /// The problem's code.
    public var code: String?
    /// The request's ID in the service's log.
    public var requestID: String?
  }

  /// As JSON, for a ticket.
  public var description: String {
    let encoder = JSONEncoder.countersign
    encoder.outputFormatting.insert(.prettyPrinted)
    return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? ""
  }
}

/// A line of a log. It has no token, no transaction and no receipt.
public struct LogEntry: Hashable, Sendable {
  public enum Level: String, Hashable, Sendable { case debug, info, warning }

  public var level: Level
  /// The same for each line of its kind.
  public var message: String
  public var metadata: [String: String]

  public init(level: Level, message: String, metadata: [String: String] = [:]) {
    self.level = level
    self.message = message
    self.metadata = metadata
  }
}

extension CountersignClient {
  /// Gathers what a support ticket needs. No request is made.
  ///
  ///     ticket.text += "\n\(await client.diagnose())"
  public func diagnose() async -> Diagnosis {
    let sessions = await trials.waitingCount
    readWaiting()
    readEvents()
    let state = state
    return Diagnosis(
      client: "swift/\(Self.version)", system: ProcessInfo.processInfo.operatingSystemVersionString,
      service: service.baseURL.host ?? "", user: user, at: options.now(), state: state.word,
      tier: state.access?.tier, status: state.access?.status.rawValue, issuedAt: state.access?.issuedAt,
      offlineUntil: state.access?.offlineUntil, waitingPurchases: waiting.posts.count, refusedPurchases: refused.count,
      waitingSessions: sessions, waitingEvents: events.events.count, droppedEvents: events.dropped,
      clockDifference: clockDifference,
      keyIDs: keys.map(\.kid), arePinned: options.keys != nil, answers: service.answers.withLock { $0 })
  }

  nonisolated func log(_ level: LogEntry.Level, _ message: String, _ metadata: [String: String] = [:]) {
    options.log?(LogEntry(level: level, message: message, metadata: metadata))
  }

  /// Tells an error that no caller is there to be told.
  nonisolated func report(_ error: CountersignError) {
    log(.warning, "error in the background", ["error": error.word])
    options.onError(error)
  }
}

extension AccessState {
  var word: String {
    switch self {
    case .known: "known"
    case .old: "old"
    case .unknown: "unknown"
    }
  }
}

extension CountersignError {
  /// Without `detail`, which may have the words of another library.
  var word: String {
    switch self {
    case .cancelled: "cancelled"
    case .pending: "pending"
    case .refused(let code, detail: _): "refused \(code)"
    case .later: "later"
    case .signedOut: "signed out"
    }
  }
}
