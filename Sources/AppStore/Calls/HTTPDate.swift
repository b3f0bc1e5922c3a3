import Entitlements

package import struct FoundationEssentials.Date

/// A date in an HTTP header: `Fri, 05 Oct 2018 11:24:18 GMT` (RFC 9110, section 5.6.7).
///
/// The two obsolete forms are not supported; a header with one of them counts as absent.
package enum HTTPDate {
  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

  package static func parse(_ text: String) -> Date? {
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 6, parts[0].utf8.count == 4, parts[0].hasSuffix(","), parts[5] == "GMT",
      let month = months.firstIndex(where: { $0 == parts[2] }),
      let day = number(parts[1], digits: 2), let year = number(parts[3], digits: 4)
    else { return nil }
    let time = parts[4].split(separator: ":", omittingEmptySubsequences: false)
    guard time.count == 3, let hour = number(time[0], digits: 2), let minute = number(time[1], digits: 2),
      let second = number(time[2], digits: 2)
    else { return nil }
    return AppleDate.moment(year: year, month: month + 1, day: day, hour: hour, minute: minute, second: second)
  }

  private static func number(_ text: Substring, digits: Int) -> Int? {
    guard text.utf8.count == digits, text.utf8.allSatisfy(\.isDigit) else { return nil }
    return Int(text)
  }
}
