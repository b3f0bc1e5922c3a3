import Glibc

/// The terminal, and what standard error leads to.
enum Terminal {
  /// Whether lines can be drawn over there.
  static func isInteractive(environment: [String: String]) -> Bool {
    isatty(STDERR_FILENO) == 1 && !(environment["TERM"].map { $0 == "dumb" || $0.isEmpty } ?? true)
  }

  /// Whether the process has a terminal of its own, which may close.
  static var isThere: Bool {
    let descriptor = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    close(descriptor)
    return true
  }

  /// The present width; 80 where the terminal does not say.
  static var columns: Int {
    var size = winsize()
    guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
  }
}
