extension String {
  /// The text with `%XX` for each byte but the unreserved characters (RFC 3986, section 2.3): in a query `+` would be read
  /// as a blank, and `&` as the next condition.
  package var percentEncoded: String {
    utf8.reduce(into: "") { text, byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        text.unicodeScalars.append(Unicode.Scalar(byte))
      default: text += "%" + [byte >> 4, byte & 15].map { String($0, radix: 16, uppercase: true) }.joined()
      }
    }
  }
}
