package import struct FoundationEssentials.Date

extension Date {
  /// From the year 1 to the end of 9999: the range of RFC 3339.
  package static let spellable: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999

  /// `2026-01-15T12:00:00Z`, with milliseconds only if they are not zero (RFC 3339, in UTC).
  ///
  /// A date outside of the years 1 to 9999 is clamped to that range.
  package var rfc3339: String { rfc3339(alwaysWithMilliseconds: false) }

  /// - Parameter alwaysWithMilliseconds: also if they are zero, `2026-01-15T12:00:00.000Z`.
  package func rfc3339(alwaysWithMilliseconds: Bool) -> String {
    String(unsafeUninitializedCapacity: 24) { text in
      var digits = RFC3339Digits(text)
      digits.write(
        min(max(millisecondsSince1970, Self.spellable.lowerBound), Self.spellable.upperBound),
        alwaysWithMilliseconds: alwaysWithMilliseconds)
      return digits.count
    }
  }
}

/// A fast formatter: every log line, answer and update has dates.
private struct RFC3339Digits {
  private let text: UnsafeMutableBufferPointer<UInt8>
  private(set) var count = 0

  /// - Parameter text: a buffer of at least 24 bytes.
  init(_ text: UnsafeMutableBufferPointer<UInt8>) { self.text = text }

  mutating func write(_ milliseconds: Int64, alwaysWithMilliseconds: Bool) {
    let (days, time) = CalendarDay.split(milliseconds)
    let day = CalendarDay(since1970: days)
    write(day.year, width: 4)
    write(UInt8(ascii: "-"))
    write(day.month, width: 2)
    write(UInt8(ascii: "-"))
    write(day.day, width: 2)
    write(UInt8(ascii: "T"))
    write(time / 3_600_000, width: 2)
    write(UInt8(ascii: ":"))
    write(time / 60_000 % 60, width: 2)
    write(UInt8(ascii: ":"))
    write(time / 1000 % 60, width: 2)
    if alwaysWithMilliseconds || time % 1000 != 0 {
      write(UInt8(ascii: "."))
      write(time % 1000, width: 3)
    }
    write(UInt8(ascii: "Z"))
  }

  private mutating func write(_ number: Int, width: Int) {
    var divisor = 1
    for _ in 1..<width { divisor *= 10 }
    while divisor > 0 {
      write(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / divisor % 10))
      divisor /= 10
    }
  }

  private mutating func write(_ byte: UInt8) {
    guard count < text.count else { return }
    text.initializeElement(at: count, to: byte)
    count += 1
  }
}
