#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// What standard error leads to.
enum Terminal {
  /// Whether lines can be drawn over there.
  static func isInteractive(environment: [String: String]) -> Bool {
    isatty(STDERR_FILENO) == 1 && !(environment["TERM"].map { $0 == "dumb" || $0.isEmpty } ?? true)
  }

  /// As wide as it is just now; 80 where it does not say.
  static var columns: Int {
    var size = winsize()
    guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
  }
}
