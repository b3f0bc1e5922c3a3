import Resilience

/// When a key set is fetched, and how long what was fetched counts. Pure.
///
///     fetched ──5 min──▶ fetched again ──5 min──▶ fails ─5 s─▶ fails ─10 s─▶ … at most every minute
///        └ counts for 24 h after the last success ┘
///
/// An unknown key ID asks for one fetch beside these, at most once a minute, whatever strangers send.
struct KeySetSchedule: Hashable, Sendable {
  typealias Instant = ContinuousClock.Instant

  /// A key that was withdrawn counts this much longer at most, while its owner can be reached.
  static let refresh = Duration.seconds(300)
  /// A key that was withdrawn counts this much longer at most, when its owner cannot.
  static let lifetime = Duration.seconds(86_400)
  static let demandGap = Duration.seconds(60)
  static let retry = Backoff(base: .seconds(5), cap: .seconds(60))

  private(set) var fetchedAt: Instant?
  /// Since the last success.
  private(set) var failures = 0
  private var due: Instant
  private var demandedAt: Instant?

  init(at now: Instant) { due = now }

  /// Whether the set has to be fetched by itself.
  func isDue(at now: Instant) -> Bool { now >= due }

  /// Whether what was fetched counts still.
  func isUsable(at now: Instant) -> Bool { fetchedAt.map { $0.duration(to: now) < Self.lifetime } ?? false }

  /// Whether the last try told us what the owner's keys are: then a key that is not among them is none.
  var isInformed: Bool { fetchedAt != nil && failures == 0 }

  /// Somebody has shown a key ID that is unknown.
  /// - Returns: whether the set may be fetched for it.
  mutating func demand(at now: Instant) -> Bool {
    if let demandedAt, demandedAt.duration(to: now) < Self.demandGap { return false }
    demandedAt = now
    return true
  }

  /// - Parameter jitter: chance, from zero to its argument.
  mutating func succeeded(at now: Instant, jitter: (Duration) -> Duration) {
    fetchedAt = now
    failures = 0
    due = now.advanced(by: Self.refresh - Self.refresh / 10 + jitter(Self.refresh / 10))
  }

  mutating func failed(at now: Instant, jitter: (Duration) -> Duration) {
    due = now.advanced(by: Self.retry.drawn(after: failures, jitter: jitter))
    failures += 1
  }
}
