import Entitlements
import Ledger
import Synchronization

package import struct FoundationEssentials.Date

/// The service's own time of day: the machine's clock at the start, advanced by its uptime, corrected by Apple's.
///
/// The time of day ends access in one case only: while Apple cannot be asked. A machine whose clock jumps must not do
/// so: the clock is therefore read once, and a jump is noticed and reported, but not followed. Apple's time is, as the
/// machine may have started with a wrong clock. One of Apple's servers may be wrong too: only answers in a row that
/// agree with each other correct this clock.
///
/// Times from others than Apple, in users' tokens for instance, are compared with the machine's clock (`machineTime`),
/// as theirs is one.
///
/// Every time is of whole milliseconds, as the ledger stores times and as Apple tells them: a moment that was stored and
/// read again is the same moment, and a period that begins now has begun.
///
/// A start with a wrong clock is found out by Apple's answers alone. Until one agrees, or for some minutes, what time would end
/// or delete for good waits (`isConfirmed`).
///
/// A simulated store's clock is moved by hand: `follow` goes by each of its answers.
///
///     machine's clock   ──12:00──12:01──[jumps a year]──…
///     uptime            ──0 s────60 s───120 s──────────…
///     this clock        ──12:00──12:01──12:02──────────…
package final class ServiceClock: Sendable {
  /// The largest difference in seconds that is ignored: clocks are slewed, answers take time.
  package static let tolerance: Double = 300
  /// The number of agreeing answers in a row that correct the clock.
  static let witnesses = 3
  /// The tolerance between those answers in seconds.
  static let agreement: Double = 60
  /// The seconds that a simulated store's clock may be ahead of this one: its answers give whole seconds.
  static let lag: Double = 2
  /// The uptime after which the clock is confirmed though Apple has not been heard.
  static let probation: Duration = .seconds(600)

  private struct State {
    var anchor: Date
    var anchoredAt: Duration
    /// Whether it goes by a simulated store's clock.
    var isFollowing = false
    var corrections = 0
    /// Whether the store's clock was the same, or has corrected it.
    var isWitnessed = false
    /// The seconds that this clock is ahead of Apple's, by each of the last answers that agree on another time.
    var dissent: [Double] = []
    /// The uptime of the first of them.
    var dissentSince: Duration = .zero

    func time(at uptime: Duration) -> Date {
      anchor.advanced(by: (uptime - anchoredAt) / .seconds(1)).inWholeMilliseconds
    }
  }

  private let wall: @Sendable () -> Date
  private let uptime: @Sendable () -> Duration
  private let startedAt: Duration
  private let state: Mutex<State>

  /// - Parameters:
  ///   - wall: the machine's time of day; it may jump.
  ///   - uptime: time since some fixed moment; it never jumps.
  init(wall: @escaping @Sendable () -> Date, uptime: @escaping @Sendable () -> Duration) {
    self.wall = wall
    self.uptime = uptime
    startedAt = uptime()
    state = Mutex(State(anchor: wall(), anchoredAt: startedAt))
  }

  /// The machine's own clocks.
  package static func system() -> ServiceClock {
    let start = ContinuousClock.now
    return ServiceClock(wall: { Date() }, uptime: { start.duration(to: .now) })
  }

  /// The time of day, in whole milliseconds.
  package var now: Date {
    #if PLANTED_DEFECTS
      if PlantedDefect.judgeByWallClock.isActive { return machineTime }
    #endif
    let uptime = uptime()
    return state.withLock { $0.time(at: uptime) }
  }

  /// The machine's time of day, with its jumps, in whole milliseconds.
  package var machineTime: Date { wall().inWholeMilliseconds }

  /// Compares the clock with the time of an answer of Apple's.
  ///
  /// - Returns: the seconds that this clock was ahead of Apple's, if this answer corrects it.
  package func observe(_ apple: Date) -> Double? {
    let uptime = uptime()
    return state.withLock { state in
      let ahead = state.time(at: uptime).timeIntervalSince(apple)
      guard abs(ahead) > Self.tolerance else {
        state.dissent = []
        state.isWitnessed = true
        return nil
      }
      if state.dissent.contains(where: { abs($0 - ahead) > Self.agreement }) { state.dissent = [] }
      if state.dissent.isEmpty { state.dissentSince = uptime }
      state.dissent.append(ahead)
      guard state.dissent.count == Self.witnesses else { return nil }
      state = State(anchor: apple, anchoredAt: uptime, corrections: state.corrections + 1, isWitnessed: true)
      return ahead
    }
  }

  /// Goes by the time of an answer of a simulated store's, without witnesses.
  ///
  /// A clock that stands there is left behind by this one for up to `tolerance`, and then found again.
  ///
  /// - Returns: the seconds that this clock was ahead of the store's, if this answer moves it.
  package func follow(_ store: Date) -> Double? {
    let uptime = uptime()
    return state.withLock { state in
      (state.isFollowing, state.isWitnessed) = (true, true)
      let ahead = state.time(at: uptime).timeIntervalSince(store)
      guard ahead < -Self.lag || ahead > Self.tolerance else { return nil }
      state = State(
        anchor: store, anchoredAt: uptime, isFollowing: true, corrections: state.corrections + 1, isWitnessed: true)
      return ahead
    }
  }

  /// The time of day at the start, by the clock as it is now.
  package var start: Date { state.withLock { $0.time(at: startedAt) } }

  var corrections: Int { state.withLock { $0.corrections } }

  /// Whether the store has shown by its answers that this clock is right.
  var isWitnessed: Bool { state.withLock { $0.isWitnessed && $0.dissent.isEmpty } }

  /// Whether time may end or delete something for good: Apple's clock is the same or, as Apple may be away, has not been heard
  /// for some minutes. After an answer that was the same, one that says otherwise counts as long.
  var isConfirmed: Bool {
    let uptime = uptime()
    return state.withLock { state in
      guard state.isWitnessed else { return state.dissent.isEmpty && uptime - startedAt >= Self.probation }
      return state.dissent.isEmpty || uptime - state.dissentSince >= Self.probation
    }
  }

  /// The seconds that the machine's clock is ahead of this one, if more than usual. Not compared where this one follows a
  /// simulated store's.
  package var skew: Double? {
    guard !state.withLock(\.isFollowing) else { return nil }
    let ahead = machineTime.timeIntervalSince(now)
    return abs(ahead) > Self.tolerance ? ahead : nil
  }
}
