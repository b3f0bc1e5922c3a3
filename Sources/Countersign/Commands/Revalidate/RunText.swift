import CountersignAPI

/// A run in words and as a bar. Pure: what is shown is what the report says.
enum RunText {
  /// One line for a terminal of so many columns: the bar goes first where there is no room.
  ///
  ///     [##########··········]  50 %  5,000 of 10,000  10.0/s  8 min left  changed 120  failed 0
  static func bar(_ report: ReceivedRun, columns: Int) -> String {
    var parts = ["\(percent(report)) %", "\(grouped(report.settled)) of \(grouped(report.due))"]
    if let waits = waits(report) {
      parts.append(waits)
    } else if let rate = report.rate {
      parts.append("\(decimal(rate))/s")
      if report.state == .running, let left = timeLeft(report) { parts.append("\(left) left") }
    }
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
    var text = "\(name(report)): \(report.settled) of \(report.due), \(counts(report))"
    if let waits = waits(report) {
      text += ", \(waits)"
    } else if let rate = report.rate {
      text += ", \(decimal(rate))/s"
      if let left = timeLeft(report) { text += ", \(left) left" }
    }
    return text
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

  private static func waits(_ report: ReceivedRun) -> String? {
    guard report.state == .running, let what = report.waitingFor else { return nil }
    return "waiting for " + (what == "app_store" ? "the App Store" : what)
  }

  /// Never 100 before the end.
  private static func percent(_ report: ReceivedRun) -> String {
    let percent = report.due == 0 ? 100 : report.settled * 100 / report.due
    return padded(String(percent), to: 3)
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

  private static func padded(_ text: String, to width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }
}
