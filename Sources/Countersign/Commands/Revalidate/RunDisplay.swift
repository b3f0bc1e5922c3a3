/// The display of a run's progress.
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
  /// The present width of the terminal.
  var columns: @Sendable () -> Int
  /// Writes to standard output, and to standard error.
  var output: @Sendable (String) -> Void
  var error: @Sendable (String) -> Void

  /// The pause between two requests for the run.
  var interval: Duration { style == .bar ? .milliseconds(500) : .seconds(2) }
  /// The pause between two lines.
  static let lineInterval: Duration = .seconds(30)

  private static let clearLine = "\r\u{1B}[K"

  func show(_ report: ReceivedRun) {
    switch style {
    case .bar: error(Self.clearLine + RunText.bar(report, columns: columns()))
    case .lines: output(RunText.line(report) + "\n")
    case .silent: break
    }
  }

  /// Writes a sentence beside the progress.
  func note(_ sentence: String) {
    error("\(style == .bar ? Self.clearLine : "")countersign: \(sentence)\n")
  }

  /// Leaves the last state of the bar behind.
  func end() {
    if style == .bar { error("\n") }
  }
}
