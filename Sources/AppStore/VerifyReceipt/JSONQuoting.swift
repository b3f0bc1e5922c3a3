extension [UInt8] {
  /// Appends a JSON string (RFC 8259, section 7): quotes, backslashes and control characters are escaped.
  mutating func append(jsonString text: String) {
    append(UInt8(ascii: "\""))
    if text.utf8.contains(where: Self.needsEscape) {
      for byte in text.utf8 {
        if !Self.needsEscape(byte) {
          append(byte)
        } else if byte < 0x20 {
          let hex = String(byte, radix: 16)
          self += (byte < 0x10 ? "\\u000" : "\\u00").utf8
          self += hex.utf8
        } else {
          append(UInt8(ascii: "\\"))
          append(byte)
        }
      }
    } else {
      self += text.utf8
    }
    append(UInt8(ascii: "\""))
  }

  private static func needsEscape(_ byte: UInt8) -> Bool {
    byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
  }
}
