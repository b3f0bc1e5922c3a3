import Logging

/// A clock that was put right by the store's.
struct ClockCorrection {
  /// Seconds by which the machine's was ahead; negative where it was behind.
  var ahead: Double
  /// Whether the store is Apple's own. A simulator's clock is set by its user.
  var byApple: Bool

  func log(_ logger: Logger) {
    let metadata: Logger.Metadata = ["machine": "\(text)"]
    if byApple {
      logger.error("the machine's clock is wrong; Apple's clock is used from now on", metadata: metadata)
    } else {
      logger.notice(
        "the store's clock differs from the machine's; the store's clock is used from now on", metadata: metadata)
    }
  }

  /// `311 days ahead`, `2 hours behind`
  var text: String {
    let seconds = ahead.magnitude
    let units: [(length: Double, name: String)] = [(86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds")]
    // The largest of which there are two, so that nothing is rounded by half.
    let unit = units.first { seconds >= 2 * $0.length } ?? (1, "seconds")
    return "\(Int(min(seconds / unit.length, 1e9))) \(unit.name) \(ahead < 0 ? "behind" : "ahead")"
  }
}
