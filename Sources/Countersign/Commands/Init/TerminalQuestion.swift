import Glibc

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
