extension [UInt8] {
  /// Appends a JSON string (RFC 8259, section 7): quotes, backslashes and control characters are escaped.
  package mutating func append(jsonString text: String) {
    append(UInt8(ascii: "\""))
    let contiguous: Void? = text.utf8.withContiguousStorageIfAvailable { appendEscaped($0) }
    if contiguous == nil { Array(text.utf8).withUnsafeBufferPointer { appendEscaped($0) } }
    append(UInt8(ascii: "\""))
  }

  /// Copies runs that need no escape at once: nearly always the whole text.
  private mutating func appendEscaped(_ text: UnsafeBufferPointer<UInt8>) {
    var rest = text[...]
    while let next = rest.firstIndex(where: Self.needsEscape) {
      append(contentsOf: rest[..<next])
      appendEscape(of: rest[next])
      rest = rest[(next + 1)...]
    }
    append(contentsOf: rest)
  }

  private mutating func appendEscape(of byte: UInt8) {
    guard byte < 0x20 else {
      append(UInt8(ascii: "\\"))
      append(byte)
      return
    }
    self += (byte < 0x10 ? "\\u000" : "\\u00").utf8
    self += String(byte, radix: 16).utf8
  }

  private static func needsEscape(_ byte: UInt8) -> Bool {
    byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
  }
}
