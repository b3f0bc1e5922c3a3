extension JSONSelection {
  /// The first pass by itself, whose type is nobody's business elsewhere.
  ///
  /// - Returns: how many bytes of a text it keeps; `nil` when it gives up.
  package func bytesKept(of text: [UInt8]) -> Int? {
    text.withUnsafeBytes { JSONCondenser.condense($0, to: self, limits: JSONLimits()) }?.bytes.count
  }
}
