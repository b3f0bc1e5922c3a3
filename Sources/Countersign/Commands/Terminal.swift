import Glibc
import UnixSignals

/// The terminal, and what standard error leads to.
enum Terminal {
  /// Whether lines can be drawn over there.
  static func isInteractive(environment: [String: String]) -> Bool {
    isatty(STDERR_FILENO) == 1 && !(environment["TERM"].map { $0 == "dumb" || $0.isEmpty } ?? true)
  }

  /// Whether the process has a terminal of its own, which may close.
  static var isThere: Bool { (try? OpenFile("/dev/tty", O_RDWR | O_NOCTTY)) != nil }

  /// The present width; 80 where the terminal does not say.
  static var columns: Int {
    var size = winsize()
    guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
  }
}

/// Runs a command's work until it ends, or until Ctrl-C or SIGTERM cancels it.
///
/// The signals are caught before the work begins, so that none finds the command half way.
/// - Returns: the work's own result, also of one that was cancelled, and the signal that came.
func untilInterrupted<Result: Sendable>(
  _ work: sending @escaping () async -> Result
) async -> (result: Result, signal: UnixSignal?) {
  let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
  let task = Task { await work() }
  return await withTaskGroup(of: UnixSignal?.self) { group in
    group.addTask {
      for await signal in signals {
        task.cancel()
        return signal
      }
      return nil
    }
    let result = await task.value
    group.cancelAll()
    return (result, await group.next() ?? nil)
  }
}

/// Questions to whoever sits at the terminal.
enum TerminalQuestion {
  /// - Returns: the answer; `nil` at the end of the input.
  typealias Asker = (_ question: String, _ isSecret: Bool) -> String?

  /// `nil` where nobody could answer.
  static var terminal: Asker? {
    guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else { return nil }
    return ask
  }

  private static func ask(_ question: String, isSecret: Bool) -> String? {
    CommandOutput.status(question + " ")
    var usual = termios()
    guard isSecret, tcgetattr(STDIN_FILENO, &usual) == 0 else { return readLine() }
    // A secret is not shown while it is typed.
    var silent = usual
    silent.c_lflag &= ~tcflag_t(ECHO)
    silent.c_lflag |= tcflag_t(ECHONL)
    tcsetattr(STDIN_FILENO, TCSANOW, &silent)
    defer { tcsetattr(STDIN_FILENO, TCSANOW, &usual) }
    return readLine()
  }
}
