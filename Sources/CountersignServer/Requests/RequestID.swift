import Cryptography
import HTTPTypes

/// The name of a request, in its answer, in the log and in the history.
package enum RequestID {
  /// 128 random bits, in hex.
  package static func random() -> String {
    withUnsafeBytes(of: UInt128.random(in: .min ... .max)) { hexadecimal($0) }
  }

  /// A caller's own ID where it is harmless: up to 128 letters, digits, `.`, `_` and `-`.
  static func accepted(_ id: String) -> String? {
    let isHarmless = id.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
      default: false
      }
    }
    return isHarmless && (1...128).contains(id.utf8.count) ? id : nil
  }
}

extension HTTPField.Name {
  // A constant that is a valid field name.
  // swift-format-ignore: NeverForceUnwrap
  static let requestID = HTTPField.Name("X-Request-Id")!
}
