package import Entitlements
package import struct FoundationEssentials.Date

/// A receipt in the queue for Apple. It was acknowledged, so it is kept until it has a verdict.
package struct PendingReceipt: Hashable, Sendable {
  /// The row's ID; zero before it is recorded.
  package var id: Int64
  package var user: UserID
  /// Standard base64, as Apple accepts it.
  package var base64: String
  /// The request that brought it.
  package var requestID: String
  package var receivedAt: Date
  /// Failed attempts to ask Apple.
  package var attempts: Int

  package init(
    id: Int64 = 0, user: UserID, base64: String, requestID: String, receivedAt: Date, attempts: Int = 0
  ) {
    self.id = id
    self.user = user
    self.base64 = base64
    self.requestID = requestID
    self.receivedAt = receivedAt
    self.attempts = attempts
  }
}
