/// A user's UUID, in lower case.
struct AppAccount: Hashable {
  let text: String

  /// - Returns: `nil` for text that is not a UUID (RFC 9562, section 4), and for the nil UUID, which names no user.
  init?(_ text: String) {
    var text = text
    guard let isLowercase = text.withUTF8(Self.isLowercase) else { return nil }
    self.text = isLowercase ? text : text.lowercased()
  }

  /// The places of the hyphens, a bit each: 8, 13, 18, 23.
  private static let hyphens: UInt64 = 0x84_2100

  /// Whether a UUID is in lower case; `nil` for other text. In one pass, as every row of the ledger is found by it.
  private static func isLowercase(_ text: UnsafeBufferPointer<UInt8>) -> Bool? {
    guard text.count == 36 else { return nil }
    var isLowercase = true
    var isNil = true
    for (place, byte) in text.enumerated() {
      let isHyphen = hyphens >> UInt64(place) & 1 == 1
      switch byte {
      case UInt8(ascii: "-"): guard isHyphen else { return nil }
      case _ where isHyphen: return nil
      case UInt8(ascii: "0"): break
      case UInt8(ascii: "1")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): isNil = false
      case UInt8(ascii: "A")...UInt8(ascii: "F"): (isNil, isLowercase) = (false, false)
      default: return nil
      }
    }
    return isNil ? nil : isLowercase
  }
}
