import Entitlements
import FoundationEssentials

/// base64url without padding, as JWS writes its parts (RFC 7515, section 2).
enum Base64URL {
  /// - Returns: `nil` for the standard alphabet, padding, whitespace, and for bits that no encoder leaves at the end:
  ///   there is one text for each sequence of octets.
  static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
    var digits: [UInt8] = []
    digits.reserveCapacity(text.count + 3)
    for digit in text {
      switch digit {
      case UInt8(ascii: "-"): digits.append(UInt8(ascii: "+"))
      case UInt8(ascii: "_"): digits.append(UInt8(ascii: "/"))
      case _ where digit.isDigit || digit.isLetter: digits.append(digit)
      default: return nil
      }
    }
    guard digits.count % 4 != 1 else { return nil }
    digits.append(contentsOf: repeatElement(UInt8(ascii: "="), count: (4 - digits.count % 4) % 4))
    let encoded = Data(digits)
    guard let decoded = Data(base64Encoded: encoded), decoded.base64EncodedData() == encoded else { return nil }
    return [UInt8](decoded)
  }

  static func encode(_ bytes: some Collection<UInt8>) -> String {
    var text: [UInt8] = []
    for digit in Data(bytes).base64EncodedData() {
      switch digit {
      case UInt8(ascii: "+"): text.append(UInt8(ascii: "-"))
      case UInt8(ascii: "/"): text.append(UInt8(ascii: "_"))
      case UInt8(ascii: "="): break
      default: text.append(digit)
      }
    }
    return String(decoding: text, as: UTF8.self)
  }
}
