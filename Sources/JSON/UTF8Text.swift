extension UnsafeRawBufferPointer {
  /// Whether the bytes are a text in UTF-8 without NUL, which JSON has to be between systems (RFC 8259, section 8.1).
  /// Foundation's decoder would take UTF-16 as well, and repair broken text.
  package var isUTF8Text: Bool { !contains(0) && String(validating: self, as: UTF8.self) != nil }
}
