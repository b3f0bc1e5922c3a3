import Cryptography
import FoundationEssentials

/// A secret that signs webhooks: `whsec_` and the base64 of 24 to 64 random bytes (Standard Webhooks, section "Signature
/// scheme"). Every way of printing it gives `***`.
package struct WebhookSecret: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  /// Bytes of a key: 192 to 512 bits.
  static let lengths = 24...64
  private static let prefix = "whsec_"

  private let bytes: [UInt8]

  /// - Returns: `nil` for anything else.
  package init?(_ text: String) {
    guard text.hasPrefix(Self.prefix), let data = Data(base64Encoded: String(text.dropFirst(Self.prefix.count))),
      Self.lengths.contains(data.count)
    else { return nil }
    bytes = Array(data)
  }

  /// The signature in the form of the header, `v1,` and base64; `nil` where libcrypto cannot compute it.
  func signature(of content: [UInt8]) -> String? {
    HMACKey(bytes).code(of: content).map { "v1,\(Data($0).base64EncodedString())" }
  }

  package var description: String { "***" }
  package var debugDescription: String { "***" }
  package var customMirror: Mirror { Mirror(self, children: []) }
}

/// The headers that prove a webhook (Standard Webhooks, section "Webhook headers").
package struct WebhookHeaders: Hashable, Sendable {
  package var id: String
  /// Seconds since 1970, of the attempt and not of the event.
  package var timestamp: Int64
  /// A signature by each secret, separated by spaces.
  package var signature: String

  /// - Returns: `nil` without a signature.
  package init?(id: String, timestamp: Int64, body: [UInt8], secrets: [WebhookSecret]) {
    let content = Array("\(id).\(timestamp).".utf8) + body
    let signatures = secrets.compactMap { $0.signature(of: content) }
    guard !signatures.isEmpty, signatures.count == secrets.count else { return nil }
    self.id = id
    self.timestamp = timestamp
    signature = signatures.joined(separator: " ")
  }
}
