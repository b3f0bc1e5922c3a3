internal import Glibc

extension UnsafeRawBufferPointer {
  /// Whether the bytes are a text in UTF-8 without NUL, which JSON has to be between systems (RFC 8259, section 8.1).
  /// Foundation's decoder would take UTF-16 as well, and repair broken text.
  package var isUTF8Text: Bool { first(0) == nil && String(validating: self, as: UTF8.self) != nil }

  /// The first place of a byte at or behind `begin`.
  func first(_ byte: UInt8, from begin: Int = 0) -> Int? {
    guard let baseAddress, begin < count, let found = memchr(baseAddress + begin, CInt(byte), count - begin) else {
      return nil
    }
    return UnsafeRawPointer(found) - baseAddress
  }
}
