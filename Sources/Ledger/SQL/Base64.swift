import struct FoundationEssentials.Data

/// Base64 of the standard alphabet with padding (RFC 4648, section 4).
enum Base64 {
  /// - Returns: `nil` for a text that is not what an encoder writes for these bytes.
  static func bytes(of text: String) -> [UInt8]? {
    // Four characters are three bytes. Only the last four can spell the same bytes in two ways.
    guard let data = Data(base64Encoded: text), !data.isEmpty, text.utf8.count == (data.count + 2) / 3 * 4,
      text.utf8.suffix(4).elementsEqual(data.suffix((data.count - 1) % 3 + 1).base64EncodedString().utf8)
    else { return nil }
    return Array(data)
  }

  static func text(of bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }
}
