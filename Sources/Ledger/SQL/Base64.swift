import struct FoundationEssentials.Data

/// Base64 of the standard alphabet with padding (RFC 4648, section 4).
enum Base64 {
  /// - Returns: `nil` for a text that is not what an encoder writes for these bytes.
  static func bytes(of text: String) -> [UInt8]? {
    guard !text.isEmpty, let data = Data(base64Encoded: text), data.base64EncodedString() == text else { return nil }
    return Array(data)
  }

  static func text(of bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }
}
