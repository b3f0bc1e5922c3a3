/// Where a command shows how a run goes.
struct RunDisplay: Sendable {
  enum Style: Hashable, Sendable {
    /// A bar that is drawn over itself, on standard error.
    case bar
    /// A line on standard output now and then.
    case lines
    /// Prints the end only.
    case silent
  }

  var style: Style
  /// As wide as the terminal is just now.
  var columns: @Sendable () -> Int
  /// Writes to standard output, and to standard error.
  var output: @Sendable (String) -> Void
  var error: @Sendable (String) -> Void

  /// How long to wait before the service is asked again.
  var interval: Duration { style == .bar ? .milliseconds(500) : .seconds(2) }
  /// How long to wait before the next line.
  static let lineInterval: Duration = .seconds(30)

  private static let clearLine = "\r\u{1B}[K"

  func show(_ report: ReceivedRun) {
    switch style {
    case .bar: error(Self.clearLine + RunText.bar(report, columns: columns()))
    case .lines: output(RunText.line(report) + "\n")
    case .silent: break
    }
  }

  /// Says something beside the progress.
  func note(_ sentence: String) {
    switch style {
    case .bar: error(Self.clearLine + "countersign: \(sentence)\n")
    case .lines, .silent: error("countersign: \(sentence)\n")
    }
  }

  /// Leaves the last state of the bar behind.
  func end() {
    if style == .bar { error("\n") }
  }
}
