import HTTPTransport
import JSON

/// The request to `verifyReceipt`: the same bytes for both stores and for every attempt.
///
/// https://developer.apple.com/documentation/appstorereceipts/requestbody
struct VerifyReceiptRequest: Sendable {
  /// The receipt and the shared secret: sent, never logged.
  private let body: [UInt8]
  private let answerLimit: Int

  /// - Parameters:
  ///   - receipt: standard base64.
  ///   - excludesOldTransactions: whether Apple answers with the last row of each subscription only. Older ones decide
  ///     nothing, and the answer stays small.
  init(receipt: String, sharedSecret: Secret, excludesOldTransactions: Bool = true, answerLimit: Int) {
    // The only copy of the receipt; attempts share the buffer.
    body = JSONWriter.object(capacity: receipt.utf8.count + sharedSecret.exposed.utf8.count + 128) { body in
      body.member("receipt-data", receipt)
      body.member("password", sharedSecret.exposed)
      body.member("exclude-old-transactions", excludesOldTransactions)
    }
    self.answerLimit = answerLimit
  }

  func transportRequest(to url: String) -> TransportRequest {
    TransportRequest(
      method: .post, url: url, headers: [TransportHeader("Content-Type", "application/json")], body: body,
      responseBodyLimit: answerLimit)
  }
}
