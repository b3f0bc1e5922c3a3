import FoundationEssentials
import Glibc

extension Date {
  /// The form of the `Date` header (RFC 9110, section 5.6.7): `Thu, 15 Jan 2026 12:00:00 GMT`.
  var imfFixdate: String {
    var fields = Timestamp(self).utc
    var text = [UInt8](repeating: 0, count: 64)
    let length = text.withUnsafeMutableBytes { text in
      strftime(text.baseAddress?.assumingMemoryBound(to: CChar.self), text.count, "%a, %d %b %Y %T GMT", &fields)
    }
    return String(decoding: text.prefix(length), as: UTF8.self)
  }
}
