package import struct FoundationEssentials.Date

extension Date {
  /// Apple's unit of time: milliseconds since 1970.
  package init(millisecondsSince1970 milliseconds: Int64) {
    self.init(timeIntervalSince1970: Double(milliseconds) / 1000)
  }

  /// Rounded to the nearest millisecond, and clamped to `Int64`.
  package var millisecondsSince1970: Int64 {
    let milliseconds = (timeIntervalSince1970 * 1000).rounded()
    return Int64(exactly: milliseconds) ?? (milliseconds < 0 ? .min : .max)
  }

  /// The date in the ledger's precision.
  package var inWholeMilliseconds: Date { Date(millisecondsSince1970: millisecondsSince1970) }

  /// The date after a duration, to the millisecond.
  ///
  /// Computed in whole milliseconds: floating-point sums of seconds miss a boundary by a fraction of a microsecond.
  package func advanced(by duration: Duration) -> Date {
    let (sum, overflow) = millisecondsSince1970.addingReportingOverflow(duration.wholeMilliseconds)
    return Date(millisecondsSince1970: overflow ? (duration < .zero ? .min : .max) : sum)
  }

  /// Compared in milliseconds, Apple's unit.
  func isBefore(_ end: Date) -> Bool { millisecondsSince1970 < end.millisecondsSince1970 }
}
