import FoundationEssentials

/// base64url without padding, as signed JSON writes octets (RFC 7515, section 2).
package enum Base64URL {
  /// - Returns: `nil` for the standard alphabet, padding, whitespace, and for bits that no encoder leaves at the end:
  ///   there is one text for each sequence of octets.
  package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
    if let octets = text.withContiguousStorageIfAvailable(octets) { return octets }
    return Array(text).withUnsafeBufferPointer(octets)
  }

  private static func octets(of text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
    var digits: [UInt8] = []
    digits.reserveCapacity(text.count + 3)
    for digit in text {
      switch digit {
      case UInt8(ascii: "-"): digits.append(UInt8(ascii: "+"))
      case UInt8(ascii: "_"): digits.append(UInt8(ascii: "/"))
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "a")...UInt8(ascii: "z"):
        digits.append(digit)
      default: return nil
      }
    }
    guard digits.count % 4 != 1 else { return nil }
    digits.append(contentsOf: repeatElement(UInt8(ascii: "="), count: (4 - digits.count % 4) % 4))
    let encoded = Data(digits)
    guard let decoded = Data(base64Encoded: encoded), decoded.base64EncodedData() == encoded else { return nil }
    return [UInt8](decoded)
  }

  package static func encode(_ octets: some Sequence<UInt8>) -> String {
    String(
      decoding: Data(octets).base64EncodedData().lazy.filter { $0 != UInt8(ascii: "=") }.map { digit in
        switch digit {
        case UInt8(ascii: "+"): UInt8(ascii: "-")
        case UInt8(ascii: "/"): UInt8(ascii: "_")
        default: digit
        }
      }, as: UTF8.self)
  }
}
