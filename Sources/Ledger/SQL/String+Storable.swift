private import Glibc

extension String {
  /// The text as either engine keeps it: with U+FFFD in the place of U+0000, which no text of PostgreSQL's can have.
  var storable: String {
    var text = self
    let hasZero = text.withUTF8 { bytes in
      guard let start = bytes.baseAddress else { return false }
      return memchr(start, 0, bytes.count) != nil
    }
    return hasZero ? text.replacing("\0", with: "\u{FFFD}") : text
  }
}
