import FoundationEssentials
import Synchronization

/// The store's clock: it runs with the real one until it is set, then stands still.
final class SimulatedClock: Sendable {
  private enum Mode {
    /// The real clock plus an offset in milliseconds.
    case running(ahead: Int64)
    case standing(Timestamp)
  }

  private let mode: Mutex<Mode>

  init(standingAt date: Timestamp? = nil) { mode = Mutex(date.map { .standing($0) } ?? .running(ahead: 0)) }

  var now: Timestamp { mode.withLock { Self.read($0) } }

  var isRunning: Bool {
    mode.withLock { mode in
      if case .running = mode { true } else { false }
    }
  }

  /// Sets the clock, which stands still from now on.
  func set(_ date: Timestamp) { mode.withLock { $0 = .standing(date) } }

  /// Moves the clock, which keeps standing or running.
  func advance(milliseconds: Int64) {
    mode.withLock { mode in
      switch mode {
      case .running(let ahead): mode = .running(ahead: ahead + milliseconds)
      case .standing(let date): mode = .standing(Timestamp(milliseconds: date.milliseconds + milliseconds))
      }
    }
  }

  func followRealTime() { mode.withLock { $0 = .running(ahead: 0) } }

  private static func read(_ mode: Mode) -> Timestamp {
    switch mode {
    case .running(let ahead): Timestamp(milliseconds: Timestamp(Date()).milliseconds + ahead)
    case .standing(let date): date
    }
  }
}
