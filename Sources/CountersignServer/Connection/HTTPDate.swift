import Glibc
import Synchronization

/// The time for the `Date` of answers (RFC 9110, section 6.6.1). The text is made once a second.
final class HTTPDate: Sendable {
  private let last = Mutex<(second: time_t, text: String)>((0, text(of: 0)))

  /// The text of the moment.
  var now: String {
    let second = time(nil)
    return last.withLock { last in
      if last.second != second { last = (second, Self.text(of: second)) }
      return last.text
    }
  }

  /// The preferred form (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`. The C locale, which is the process's,
  /// has the names of days and months in English.
  static func text(of second: time_t) -> String {
    var (second, parts) = (second, tm())
    gmtime_r(&second, &parts)
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
      let count = strftime(text.baseAddress, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
      return String(decoding: text.prefix(count).lazy.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
  }
}
