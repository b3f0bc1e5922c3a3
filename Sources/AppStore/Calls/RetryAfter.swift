import struct FoundationEssentials.Date

/// How long Apple asks to be left alone: the header `Retry-After`.
///
/// RFC 9110, section 10.2.3, has seconds or a date in it. The App Store Server API has the UNIX time of the end in
/// milliseconds, which as seconds would be fifty thousand years. The size of the number tells which it is:
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
  /// Past any deadline; what is longer is cut to it.
  static let longest: Int64 = 86_400
  /// As seconds from now it would be 31 years; as a UNIX time it is the year 2001.
  private static let firstUnixSeconds: Int64 = 1_000_000_000
  /// The year 5138 in seconds, and 1973 in milliseconds.
  private static let firstUnixMilliseconds: Int64 = 100_000_000_000

  /// - Parameter moment: when the answer was made, by Apple's clock where it is known.
  /// - Returns: from zero, for what is over, to a day.
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

  /// To the millisecond: the fraction of a difference of doubles is noise.
  private static func bounded(_ seconds: Double) -> Duration {
    .milliseconds(Int64((min(max(seconds, 0), Double(longest)) * 1000).rounded(.up)))
  }
}
