import Entitlements

package import struct FoundationEssentials.Date

/// A date in an HTTP header: `Fri, 05 Oct 2018 11:24:18 GMT` (RFC 9110, section 5.6.7).
///
/// The two obsolete forms are not supported; a header with one of them counts as absent.
package enum HTTPDate {
  private static let form = Array("???, 00 ??? 0000 00:00:00 GMT".utf8)
  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

  package static func parse(_ text: String) -> Date? {
    let text = Array(text.utf8)
    guard text.count == form.count else { return nil }
    for (byte, place) in zip(text, form) where place != UInt8(ascii: "?") {
      guard place == UInt8(ascii: "0") ? byte.isDigit : byte == place else { return nil }
    }
    guard let month = months.firstIndex(where: { $0.utf8.elementsEqual(text[8..<11]) }) else { return nil }
    func number(_ digits: Range<Int>) -> Int {
      var number = 0
      for digit in text[digits] { number = 10 * number + Int(digit & 0x0F) }
      return number
    }
    return AppleDate.moment(
      year: number(12..<16), month: month + 1, day: number(5..<7), hour: number(17..<19), minute: number(20..<22),
      second: number(23..<25))
  }
}
