import Dispatch
import Synchronization

/// The destination of log lines, written in the order in which they came, as whole lines.
///
/// Lines are gathered for 5 ms and written together: a write for each line took as long as making it. A line of level
/// `warning` or above is written at once, with all before it, and the rest at the end of the process. A kill loses what
/// was gathered.
final class LogOutput: Sendable {
  private struct State {
    var lines: [UInt8] = []
    /// Whether `flush` will be called.
    var isFlushPlanned = false
  }

  /// Guards the gathered lines.
  private let state = Mutex(State())
  /// Held while lines are written, so that they keep their order.
  private let order = Mutex(())
  private let interval: DispatchTimeInterval?
  private let sink: @Sendable ([UInt8]) -> Void

  /// Lines are written at once when this many bytes wait.
  private static let limit = 64 * 1024

  /// - Parameter interval: how long lines are gathered; `nil` writes each at once.
  init(every interval: DispatchTimeInterval? = nil, sink: @escaping @Sendable ([UInt8]) -> Void) {
    self.interval = interval
    self.sink = sink
  }

  /// - Parameter isUrgent: written before this function returns.
  func write(_ line: String, isUrgent: Bool = true) {
    let (isDue, isPlanned) = state.withLock { state in
      state.lines.append(contentsOf: line.utf8)
      guard let _ = interval, !isUrgent, state.lines.count < Self.limit else { return (true, true) }
      defer { state.isFlushPlanned = true }
      return (false, state.isFlushPlanned)
    }
    if isDue { return flush() }
    guard !isPlanned, let interval else { return }
    DispatchQueue.global().asyncAfter(deadline: .now() + interval) { self.flush() }
  }

  /// Writes what was gathered.
  func flush() {
    order.withLock { _ in
      let lines = state.withLock { state in
        defer { state = State() }
        return state.lines
      }
      if !lines.isEmpty { sink(lines) }
    }
  }

  /// A log that cannot be written must not stop the service.
  static let standardError = LogOutput(every: .milliseconds(5)) { try? OpenFile.standardError.write($0) }
}
