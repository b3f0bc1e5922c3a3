import Crypto
import Foundation

/// The value that RevenueCat sends in `X-RevenueCat-Webhook-Signature`.
package func revenueCatSignature(
  _ body: [UInt8], by secret: String, at seconds: Int, uppercase: Bool = false
) -> String {
  let code = HMAC<SHA256>.authenticationCode(
    for: Data("\(seconds).".utf8) + Data(body), using: SymmetricKey(data: Data(secret.utf8)))
  let digits = code.map { String(format: uppercase ? "%02X" : "%02x", $0) }.joined()
  return "t=\(seconds),v1=\(digits)"
}
