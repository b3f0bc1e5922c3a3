import struct FoundationEssentials.Date

/// The header `Retry-After`: how long Apple asks us to wait.
///
/// RFC 9110, section 10.2.3, allows seconds or a date. The App Store Server API sends a UNIX time in milliseconds
/// instead. The size of the number tells them apart:
///
///     value                            is
///     120                              seconds from now
///     1718452860                       a UNIX time in seconds
///     1718452860000                    a UNIX time in milliseconds
///     Sat, 15 Jun 2024 12:01:00 GMT    a date
///     anything else, a number below 0  nothing
///
/// https://developer.apple.com/documentation/appstoreserverapi/identifying-rate-limits
enum RetryAfter {
  /// The longest pause in seconds; longer ones are cut to it.
  static let longest: Int64 = 86_400
  /// The year 2001; as seconds from now it would be 31 years.
  private static let firstUnixSeconds: Int64 = 1_000_000_000
  /// The year 5138 in seconds, and 1973 in milliseconds.
  private static let firstUnixMilliseconds: Int64 = 100_000_000_000

  /// - Parameter moment: the time of the answer, by Apple's clock if known.
  /// - Returns: zero, for a time that has passed, to a day.
  static func parse(_ value: String, answeredAt moment: Date) -> Duration? {
    guard let number = Int64(decimal: value) else {
      return HTTPDate.parse(value).map { bounded($0.timeIntervalSince(moment)) }
    }
    switch number {
    case ..<0: return nil
    case ..<firstUnixSeconds: return .seconds(min(number, longest))
    case ..<firstUnixMilliseconds: return bounded(Double(number) - moment.timeIntervalSince1970)
    default: return bounded(Double(number) / 1000 - moment.timeIntervalSince1970)
    }
  }

  /// Seconds rounded up to a millisecond: the rest of a difference of doubles is noise.
  private static func bounded(_ seconds: Double) -> Duration {
    .milliseconds(Int64((min(max(seconds, 0), Double(longest)) * 1000).rounded(.up)))
  }
}
