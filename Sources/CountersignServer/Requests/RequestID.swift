import Cryptography
import Entitlements

/// The name of a request, in its answer, in the log and in the history.
package enum RequestID {
  /// 128 random bits, in hex.
  package static func random() -> String {
    withUnsafeBytes(of: UInt128.random(in: .min ... .max)) { hexadecimal($0) }
  }

  /// A caller's own ID where it is harmless: up to 128 letters, digits, `.`, `_` and `-`.
  static func accepted(_ id: String) -> String? {
    let isHarmless = id.utf8.allSatisfy { $0.isLetter || $0.isDigit || "._-".utf8.contains($0) }
    return isHarmless && (1...128).contains(id.utf8.count) ? id : nil
  }
}
