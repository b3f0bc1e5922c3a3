import Ledger
import Synchronization

package import struct FoundationEssentials.Date

/// The time of day as this service believes it: the machine's clock at the start, moved on by its uptime, put right by
/// Apple's.
///
/// Access ends by the time of day in one place only, when Apple cannot be asked. A machine whose clock jumps must not end
/// it: the clock is therefore read once, and a jump is seen and told, but not followed. Apple's word is, as a machine may
/// have started with a wrong clock. One answer may come from a server of Apple's whose own clock is wrong: only answers in a
/// row that agree with each other move this clock.
///
/// What others than Apple date, users' tokens among it, goes by the machine's clock (`machineTime`), as their clocks do.
///
///     machine's clock   ──12:00──12:01──[jumps a year]──…
///     uptime            ──0 s────60 s───120 s──────────…
///     this clock        ──12:00──12:01──12:02──────────…
package final class ServiceClock: Sendable {
  /// Differences up to this are not worth a word: clocks are slewed, answers take seconds.
  package static let tolerance: Double = 300
  /// The number of agreeing answers in a row that correct the clock.
  static let witnesses = 3
  /// The tolerance between those answers: an answer takes seconds.
  static let agreement: Double = 60

  private struct State {
    var anchor: Date
    var anchoredAt: Duration
    var corrections = 0
    /// By how many seconds this clock is ahead of Apple's, by each of the last answers that tell one other time.
    var dissent: [Double] = []

    func time(at uptime: Duration) -> Date { anchor.advanced(by: (uptime - anchoredAt) / .seconds(1)) }
  }

  private let wall: @Sendable () -> Date
  private let uptime: @Sendable () -> Duration
  /// Guards what the time of day was at which uptime.
  private let state: Mutex<State>

  /// - Parameters:
  ///   - wall: the machine's time of day; it may jump.
  ///   - uptime: time since some fixed moment; it never jumps.
  package init(wall: @escaping @Sendable () -> Date, uptime: @escaping @Sendable () -> Duration) {
    self.wall = wall
    self.uptime = uptime
    state = Mutex(State(anchor: wall(), anchoredAt: uptime()))
  }

  /// The machine's own clocks.
  package static func system() -> ServiceClock {
    let start = ContinuousClock.now
    return ServiceClock(wall: { Date() }, uptime: { start.duration(to: .now) })
  }

  package var now: Date {
    #if PLANTED_DEFECTS
      if PlantedDefect.judgeByWallClock.isActive { return wall() }
    #endif
    let uptime = uptime()
    return state.withLock { $0.time(at: uptime) }
  }

  /// The machine's time of day, wherever it jumps.
  package var machineTime: Date { wall() }

  /// Apple has told the time, in an answer to one request.
  /// - Returns: by how many seconds this clock was ahead of Apple's, where this answer puts it right; it goes by Apple's
  ///   from now on.
  package func observe(_ apple: Date) -> Double? {
    let uptime = uptime()
    return state.withLock { state in
      let ahead = state.time(at: uptime).timeIntervalSince(apple)
      guard abs(ahead) > Self.tolerance else {
        state.dissent = []
        return nil
      }
      if state.dissent.contains(where: { abs($0 - ahead) > Self.agreement }) { state.dissent = [] }
      state.dissent.append(ahead)
      guard state.dissent.count == Self.witnesses else { return nil }
      state = State(anchor: apple, anchoredAt: uptime, corrections: state.corrections + 1)
      return ahead
    }
  }

  /// How often Apple has put this clock right.
  var corrections: Int { state.withLock { $0.corrections } }

  /// By how many seconds the machine's clock is ahead of this one, where that is more than clocks differ by anyway.
  package var skew: Double? {
    let ahead = wall().timeIntervalSince(now)
    return abs(ahead) > Self.tolerance ? ahead : nil
  }
}
