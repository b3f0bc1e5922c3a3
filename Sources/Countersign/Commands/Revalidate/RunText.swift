import CountersignAPI

/// A run in words and as a bar. Pure: what is shown is what the report says.
enum RunText {
  /// One line for a terminal of so many columns: the bar goes first where there is no room.
  ///
  ///     [##########··········]  50 %  5,000 of 10,000  10.0/s  8 min left  changed 120  failed 0
  static func bar(_ report: ReceivedRun, columns: Int) -> String {
    var parts = ["\(percent(report)) %", "\(grouped(report.settled)) of \(grouped(report.due))"] + pace(report)
    parts += ["changed \(grouped(report.changed))", "failed \(grouped(report.failed))"]
    if report.heldBack > 0 { parts.append("held back \(grouped(report.heldBack))") }
    let text = parts.joined(separator: "  ")
    // The last column stays free: a terminal may go to the next line after it.
    let room = columns - 1 - text.count - 4
    guard room >= 10 else { return String(text.prefix(max(0, columns - 1))) }
    let width = min(room, 40)
    let filled = report.due == 0 ? width : width * report.settled / report.due
    return "[" + String(repeating: "#", count: filled) + String(repeating: ".", count: width - filled) + "]  " + text
  }

  /// One line for a log or a mail.
  static func line(_ report: ReceivedRun) -> String {
    let parts = ["\(name(report)): \(report.settled) of \(report.due)", counts(report)] + pace(report)
    return parts.joined(separator: ", ")
  }

  /// The result, in a sentence.
  static func summary(_ report: ReceivedRun) -> String {
    switch report.state {
    case .dryRun:
      return "\(report.due) \(report.due == 1 ? "subscription is" : "subscriptions are") due; nothing was done."
    case .finished:
      guard report.due > 0 else { return "\(name(report)) is finished: nothing was due." }
      return "\(name(report)) is finished: \(report.done) of \(report.due) done, \(counts(report))."
    case .stopped:
      let reason = report.stoppedReason ?? "unknown"
      let why = reason == "downgrade_brake" ? "the downgrade brake" : reason
      return "\(name(report)) was stopped by \(why): \(report.done) of \(report.due) done, \(counts(report)), "
        + "\(report.remaining) not asked about."
    default: return line(report)
    }
  }

  private static func name(_ report: ReceivedRun) -> String { "Run \(report.id ?? "-")" }

  private static func counts(_ report: ReceivedRun) -> String {
    "\(report.changed) changed, \(report.failed) failed, \(report.heldBack) held back"
  }

  /// The cause of a pause, or else the rate and, while the run goes on, the time left.
  private static func pace(_ report: ReceivedRun) -> [String] {
    let isRunning = report.state == .running
    if isRunning, let what = report.waitingFor {
      return ["waiting for " + (what == "app_store" ? "the App Store" : what)]
    }
    guard let rate = report.rate else { return [] }
    let left = isRunning ? timeLeft(report) : nil
    return ["\(decimal(rate))/s"] + (left.map { ["\($0) left"] } ?? [])
  }

  /// Never 100 before the end.
  private static func percent(_ report: ReceivedRun) -> String {
    let percent = String(report.due == 0 ? 100 : report.settled * 100 / report.due)
    return String(repeating: " ", count: max(0, 3 - percent.count)) + percent
  }

  private static func timeLeft(_ report: ReceivedRun) -> String? {
    guard let rate = report.rate, rate > 0 else { return nil }
    let seconds = Double(report.remaining) / rate
    switch seconds {
    case ..<60: return "\(Int(seconds.rounded(.up))) s"
    case ..<5_400: return "\(Int((seconds / 60).rounded(.up))) min"
    case ..<360_000: return "\(decimal(seconds / 3_600)) h"
    default: return nil
    }
  }

  /// With one digit after the point.
  static func decimal(_ number: Double) -> String {
    guard number.isFinite, abs(number) < 1e12 else { return "-" }
    let tenths = Int((number * 10).rounded())
    return "\(tenths / 10).\(abs(tenths % 10))"
  }

  /// With a comma between thousands.
  static func grouped(_ number: Int) -> String {
    let digits = String(number)
    var text = ""
    for (index, digit) in digits.enumerated() {
      if index > 0, (digits.count - index).isMultiple(of: 3) { text += "," }
      text.append(digit)
    }
    return text
  }
}
