import Cryptography
import Entitlements
import Synchronization

package import struct FoundationEssentials.Date

/// The credentials by which an event of RevenueCat's is believed.
///
///     configured           the header `Authorization`      the signature
///     authorization        one of the values               not looked at
///     signing secret       not looked at                   by one of the secrets
///     both                 one of the values               by one of the secrets
///
/// The signature is an HMAC-SHA-256 over `t.body`, in hexadecimal digits of either case, and counts for five minutes:
///
///     X-RevenueCat-Webhook-Signature: t=1768478400,v1=5f…
///
/// https://www.revenuecat.com/docs/integrations/webhooks
package struct RevenueCatSecrets: Sendable {
  /// The largest difference between `t` and our clock.
  static let tolerance: Int64 = 300
  /// A header has one signature, and two while a secret is being replaced.
  private static let mostSignatures = 8
  private static let longestHeader = 4_096

  /// Digests, so that the time of a comparison does not depend on a value's length.
  private let authorizations: [[UInt8]]
  private let signingKeys: [HMACKey]

  package init(authorizations: [String], signingSecrets: [String]) {
    self.authorizations = authorizations.map { SHA256Digest(of: $0.utf8).bytes }
    signingKeys = signingSecrets.map { HMACKey(Array($0.utf8)) }
  }

  /// Whether headers may prove a body that is not read yet.
  func mayProve(authorization: String?, signature: String?) -> Bool {
    guard !authorizations.isEmpty || !signingKeys.isEmpty else { return false }
    return (authorizations.isEmpty || isExpected(authorization)) && (signingKeys.isEmpty || signature != nil)
  }

  package func prove(_ body: [UInt8], authorization: String?, signature: String?, now: Date) -> Bool {
    guard !authorizations.isEmpty || !signingKeys.isEmpty else { return false }
    return (authorizations.isEmpty || isExpected(authorization))
      && (signingKeys.isEmpty || isSigned(body, signature, now))
  }

  private func isExpected(_ authorization: String?) -> Bool {
    guard let authorization else { return false }
    let digest = SHA256Digest(of: authorization.utf8).bytes
    // All are compared.
    return authorizations.reduce(false) { isEqualInConstantTime($1, digest) || $0 }
  }

  private func isSigned(_ body: [UInt8], _ header: String?, _ now: Date) -> Bool {
    guard let header, header.utf8.count <= Self.longestHeader else { return false }
    var time: String?
    var codes: [[UInt8]] = []
    for part in header.split(separator: ",") {
      let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard pair.count == 2 else { return false }
      let value = String(pair[1].filter { $0 != " " })
      switch pair[0].filter({ $0 != " " }) {
      case "t":
        guard time == nil else { return false }
        time = value
      case "v1":
        if codes.count < Self.mostSignatures, value.utf8.count == 2 * SHA256Digest.count,
          let code = octets(ofHexadecimal: value)
        {
          codes.append(code)
        }
      default: break
      }
    }
    guard let time, time.utf8.count <= 12, time.utf8.allSatisfy(\.isDigit),
      let seconds = Int64(time),
      abs(seconds * 1_000 - now.millisecondsSince1970) <= Self.tolerance * 1_000
    else { return false }
    let message = Array("\(time).".utf8) + body
    return signingKeys.contains { key in codes.contains { key.hasMade($0, over: message) } }
  }
}

/// The secrets that count now: they are replaced while the service runs.
package final class RevenueCatKeyring: Sendable {
  private let secrets: Mutex<RevenueCatSecrets>

  package init(_ secrets: RevenueCatSecrets) { self.secrets = Mutex(secrets) }

  var current: RevenueCatSecrets { secrets.withLock { $0 } }

  package func replace(by secrets: RevenueCatSecrets) { self.secrets.withLock { $0 = secrets } }
}
