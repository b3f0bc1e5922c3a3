import Resilience

/// The times at which a key set is fetched, and the validity of fetched keys. Pure.
///
///     fetched ──5 min──▶ fetched again ──5 min──▶ fails ─5 s─▶ fails ─10 s─▶ … at most every minute
///        └ valid for 24 h after the last success ┘
///
/// An unknown key ID triggers one extra fetch, at most once a minute, for any number of such tokens.
struct KeySetSchedule: Hashable, Sendable {
  typealias Instant = ContinuousClock.Instant

  /// The longest time for which a withdrawn key stays valid while its owner can be reached.
  static let refresh = Duration.seconds(300)
  /// The longest time for which a withdrawn key stays valid when its owner cannot be reached.
  static let lifetime = Duration.seconds(86_400)
  static let demandGap = Duration.seconds(60)
  static let retry = Backoff(base: .seconds(5), cap: .seconds(60))

  private(set) var fetchedAt: Instant?
  /// Failed fetches since the last success.
  private(set) var failures = 0
  private var due: Instant
  private var demandedAt: Instant?

  init(at now: Instant) { due = now }

  func isDue(at now: Instant) -> Bool { now >= due }

  func isUsable(at now: Instant) -> Bool { fetchedAt.map { $0.duration(to: now) < Self.lifetime } ?? false }

  /// Whether the last fetch succeeded: then a key ID that is not in the set is certainly unknown.
  var isInformed: Bool { fetchedAt != nil && failures == 0 }

  /// Requests a fetch for an unknown key ID.
  /// - Returns: whether the set may be fetched for it.
  mutating func demand(at now: Instant) -> Bool {
    if let demandedAt, demandedAt.duration(to: now) < Self.demandGap { return false }
    demandedAt = now
    return true
  }

  /// - Parameter jitter: a random duration from zero to its argument.
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
