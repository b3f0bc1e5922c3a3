extension Duration {
  /// The duration as written in the configuration: a whole number of the largest unit that is exact.
  ///
  ///     60 days      60d
  ///     1.5 days     36h
  ///     1.5 minutes  90s
  ///     none         0
  ///
  /// Fractions of a millisecond are truncated.
  package var configurationText: String {
    let milliseconds = wholeMilliseconds
    if milliseconds == 0 { return "0" }
    let units: [(length: Int64, name: String)] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")]
    for unit in units where milliseconds.isMultiple(of: unit.length) {
      return "\(milliseconds / unit.length)\(unit.name)"
    }
    return "\(milliseconds)ms"
  }

  package enum TextError: Error, Hashable {
    /// Not a whole number with a unit, or `0`.
    case malformed
    case outOfRange

    /// The end of a sentence about the text; `range` is the allowed range.
    package func sentence(in range: ClosedRange<Duration>) -> String {
      switch self {
      case .malformed: "must be a duration such as 250ms, 10s, 5m, 24h, 60d, 3y or 0"
      case .outOfRange: "must be from \(range.lowerBound.configurationText) to \(range.upperBound.configurationText)"
      }
    }
  }

  /// Reads `250ms`, `10s`, `5m`, `24h`, `60d`, `3y` (of 365 days), or `0`.
  package init(configurationText text: String, in range: ClosedRange<Duration>) throws(TextError) {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    let milliseconds = ["ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "y": 365 * 86_400_000]
    let unit = String(text[digits.endIndex...])
    // ASCII digits only: `Int` would also accept a sign.
    let count = digits.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(digits) : nil
    guard let count, let scale = unit.isEmpty && count == 0 ? 1 : milliseconds[unit] else { throw .malformed }
    let (total, overflow) = count.multipliedReportingOverflow(by: scale)
    // A century is the limit: longer than any setting means.
    guard !overflow, total <= 36_525 * 86_400_000, range.contains(.milliseconds(total)) else { throw .outOfRange }
    self = .milliseconds(total)
  }

  /// In milliseconds, clamped to `Int64`.
  package var wholeMilliseconds: Int64 {
    let (seconds, attoseconds) = components
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    let (sum, carried) = whole.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
    return overflow || carried ? (seconds < 0 ? .min : .max) : sum
  }
}
