import Entitlements
import FoundationEssentials

/// base64url without padding (RFC 7515, section 2).
enum Base64URL {
  /// - Returns: `nil` for no digits, and for every other character.
  static func decode(_ text: some Collection<UInt8>) -> Data? {
    // An array, since growing a `Data` by bytes takes longer than everything else here together.
    var standard: [UInt8] = []
    standard.reserveCapacity(text.count + 3)
    for byte in text {
      switch byte {
      case UInt8(ascii: "-"): standard.append(UInt8(ascii: "+"))
      case UInt8(ascii: "_"): standard.append(UInt8(ascii: "/"))
      case _ where byte.isDigit || byte.isLetter: standard.append(byte)
      default: return nil
      }
    }
    guard !standard.isEmpty, standard.count % 4 != 1 else { return nil }
    while standard.count % 4 != 0 { standard.append(UInt8(ascii: "=")) }
    return Data(base64Encoded: Data(standard))
  }

  static func encode(_ bytes: some Collection<UInt8>) -> String {
    String(
      decoding: Data(bytes).base64EncodedData().lazy.filter { $0 != UInt8(ascii: "=") }.map { digit in
        switch digit {
        case UInt8(ascii: "+"): UInt8(ascii: "-")
        case UInt8(ascii: "/"): UInt8(ascii: "_")
        default: digit
        }
      }, as: UTF8.self)
  }
}
