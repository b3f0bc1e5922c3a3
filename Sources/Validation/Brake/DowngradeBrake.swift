package import struct FoundationEssentials.Date

/// The brake on a mass downgrade that is our own mistake: a wrong secret, a catalog that lost a product.
///
/// Scheduler and runs count each user whom they check, and ask before they record a verdict that lowers a tier:
///
///     checked in 24 h      0     50    100    101    1000
///     may be lowered      10     10     20     20     200     (`share` 20 % of at least 50)
///
/// One more engages the brake: nobody is lowered from then on, until a person releases it. Released, it lets everything
/// pass for an hour, as the person decided, and then starts anew. Checks are counted, not users: a user who is checked
/// four times a day counts four times.
///
/// **Time** is the brake's own: how long it has run, by a monotonic clock. A wall clock that jumps neither empties the
/// window nor ends a release. Time in which the process is down does not count, so a restart forgets nothing: the
/// window then reaches back further than a day, never less far. The only date here is for display.
///
/// The window is kept by the hour: it is at least 24 and less than 25 hours long, in 25 counts however many users.
package struct DowngradeBrake: Sendable {
  typealias Instant = ContinuousClock.Instant

  /// The state that survives a restart.
  struct Snapshot: Hashable, Codable, Sendable {
    /// An hour of the brake's own time.
    struct Hour: Hashable, Codable, Sendable {
      var number: Int64
      var looked = 0
      var lowered = 0
    }

    /// The running time of the brake, over all restarts.
    var runningMilliseconds: Int64 = 0
    /// The hours in which something happened, ascending.
    var hours: [Hour] = []
    var engagement: Engagement?
    /// The end of a release, in running time.
    var releasedUntilMilliseconds: Int64?
    /// The number of releases, by which replicas tell a new one from one that is over. `nil`: none was counted.
    var releases: Int64?
  }

  /// The reason why nobody is lowered, for the alarm.
  package struct Engagement: Hashable, Codable, Sendable {
    /// The wall-clock time, for display only.
    package var since: Date
    /// The verdicts in the window when the brake engaged, without the one that it refused.
    package var lowered: Int
    package var looked: Int
    /// The verdicts refused since, the first included.
    package var withheld: Int
  }

  static let window: Int64 = 24
  static let fewestCounted = 50
  static let releaseMilliseconds: Int64 = 3_600_000
  private static let hourMilliseconds: Int64 = 3_600_000

  let share: Double
  private var state: Snapshot
  private var seenAt: Instant

  /// - Parameter share: the share of checked users who may be lowered, 0 to 1.
  init(share: Double = 0.20, restoring snapshot: Snapshot = Snapshot(), at instant: Instant) {
    self.share = share
    self.state = snapshot
    self.seenAt = instant
  }

  /// `nil` while verdicts pass.
  var engagement: Engagement? { state.engagement }

  /// Counts a check of a user, whatever its result.
  mutating func looked(at instant: Instant) {
    advance(to: instant)
    guard !isReleased else { return }
    currentHour { $0.looked += 1 }
  }

  /// Whether a verdict that lowers a tier may be recorded; if so, it is counted. The check of the user is counted by
  /// `looked(at:)` alone.
  ///
  /// - Parameter date: the wall clock, for the alarm.
  mutating func mayLower(at instant: Instant, date: Date) -> Bool {
    advance(to: instant)
    guard !isReleased else { return true }
    guard state.engagement == nil else {
      state.engagement?.withheld += 1
      return false
    }
    let looked = state.hours.reduce(0) { $0 + $1.looked }
    let lowered = state.hours.reduce(0) { $0 + $1.lowered }
    // The product may be a hair too small: 0.29 * 100 is less than 29.
    guard Double(lowered + 1) <= share * Double(max(Self.fewestCounted, looked)) + 1e-6 else {
      state.engagement = Engagement(since: date, lowered: lowered, looked: looked, withheld: 1)
      return false
    }
    currentHour { $0.lowered += 1 }
    return true
  }

  /// Lets everything pass for an hour, engaged or not, on a person's decision.
  mutating func release(at instant: Instant) {
    advance(to: instant)
    state.engagement = nil
    state.hours = []
    state.releasedUntilMilliseconds = state.runningMilliseconds + Self.releaseMilliseconds
    state.releases = (state.releases ?? 0) + 1
  }

  /// Takes over what another process has decided: a release that this one has not heard of, with the time that is left of it, or an
  /// engagement since the last release.
  /// - Returns: whether anything changed.
  mutating func adopt(_ other: Snapshot, at instant: Instant) -> Bool {
    advance(to: instant)
    let (theirs, ours) = (other.releases ?? 0, state.releases ?? 0)
    guard theirs >= ours else { return false }
    if theirs > ours {
      state.releases = theirs
      state.engagement = other.engagement
      state.hours = []
      state.releasedUntilMilliseconds = other.releasedUntilMilliseconds.map { until in
        state.runningMilliseconds + min(max(0, until - other.runningMilliseconds), Self.releaseMilliseconds)
      }
      return true
    }
    guard let engagement = other.engagement, state.engagement == nil, !isReleased else { return false }
    state.engagement = engagement
    return true
  }

  /// The state to keep, after each change of `engagement` and now and then for the counts.
  mutating func snapshot(at instant: Instant) -> Snapshot {
    advance(to: instant)
    return state
  }

  private var isReleased: Bool { state.releasedUntilMilliseconds != nil }
  private var hour: Int64 { state.runningMilliseconds / Self.hourMilliseconds }

  /// Advances the brake's time. An earlier instant changes nothing.
  private mutating func advance(to instant: Instant) {
    let passed = Int64((instant - seenAt) / .milliseconds(1))
    // Advanced by whole milliseconds, so that fractions add up.
    guard passed > 0 else { return }
    seenAt += .milliseconds(passed)
    state.runningMilliseconds += passed
    if let until = state.releasedUntilMilliseconds, state.runningMilliseconds >= until {
      state.releasedUntilMilliseconds = nil
    }
    let oldest = hour - Self.window
    state.hours.removeAll { $0.number < oldest }
  }

  private mutating func currentHour(_ count: (inout Snapshot.Hour) -> Void) {
    if state.hours.last?.number != hour { state.hours.append(Snapshot.Hour(number: hour)) }
    count(&state.hours[state.hours.count - 1])
  }
}
