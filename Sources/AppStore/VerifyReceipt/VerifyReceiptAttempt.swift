package import Entitlements
package import HTTPTransport

package import struct FoundationEssentials.Date

/// One call to `verifyReceipt`, for log and metrics, without receipt and secret.
package struct VerifyReceiptAttempt: Hashable, Sendable {
  package enum Outcome: Hashable, Sendable {
    case status(Int)
    /// An HTTP status other than 200.
    case http(Int)
    /// HTTP 200 with an unreadable body; the text names the place in it.
    case malformed(String)
    case transport(TransportError)
  }

  package var environment: StoreEnvironment
  package var outcome: Outcome
  package var duration: Duration
  /// Apple's clock, from the HTTP header `Date` of a readable answer.
  package var answeredAt: Date?
}
