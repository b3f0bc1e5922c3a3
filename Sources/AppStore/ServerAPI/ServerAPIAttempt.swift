package import Entitlements
package import HTTPTransport

package import struct FoundationEssentials.Date

/// One call to the App Store Server API, for log and metrics, without token and ID.
package struct ServerAPIAttempt: Hashable, Sendable {
  package enum Outcome: Hashable, Sendable {
    case answered
    case error(httpStatus: Int, errorCode: Int)
    /// An HTTP status other than 200, without a readable body. 401 never has one.
    case http(Int)
    /// HTTP 200 with an unreadable body; the text names the place in it.
    case malformed(String)
    /// An answer that fails verification, see `AppStoreError`.
    case refused(String)
    case transport(TransportError)
  }

  package var environment: StoreEnvironment
  package var endpoint: ServerAPIEndpoint
  package var outcome: Outcome
  package var duration: Duration
  /// Apple's clock, from the HTTP header `Date` of a readable answer.
  package var answeredAt: Date?
}
