import HTTPTransport

/// The request to `verifyReceipt`: the same bytes for both stores and for every attempt.
///
/// https://developer.apple.com/documentation/appstorereceipts/requestbody
struct VerifyReceiptRequest: Sendable {
  /// It holds the receipt and the shared secret; it is sent and never shown.
  private let body: [UInt8]
  private let answerLimit: Int

  /// - Parameter receipt: standard base64.
  init(receipt: String, sharedSecret: Secret, answerLimit: Int) {
    // The one copy of the receipt that is made; attempts share the buffer.
    var body: [UInt8] = []
    body.reserveCapacity(receipt.utf8.count + sharedSecret.exposed.utf8.count + 128)
    body += #"{"receipt-data":"#.utf8
    Self.append(quoted: receipt, to: &body)
    body += #","password":"#.utf8
    Self.append(quoted: sharedSecret.exposed, to: &body)
    // Only the last row of each subscription: nothing older decides anything, and the answer stays small.
    body += #","exclude-old-transactions":true}"#.utf8
    self.body = body
    self.answerLimit = answerLimit
  }

  func transportRequest(to url: String) -> TransportRequest {
    TransportRequest(
      method: .post, url: url, headers: [TransportHeader("Content-Type", "application/json")], body: body,
      responseBodyLimit: answerLimit)
  }

  /// A JSON string (RFC 8259, section 7): quotes, backslashes and control characters are escaped.
  private static func append(quoted text: String, to body: inout [UInt8]) {
    body.append(UInt8(ascii: "\""))
    if text.utf8.contains(where: needsEscape) {
      for byte in text.utf8 {
        if !needsEscape(byte) {
          body.append(byte)
        } else if byte < 0x20 {
          let hex = String(byte, radix: 16)
          body += (byte < 0x10 ? "\\u000" : "\\u00").utf8
          body += hex.utf8
        } else {
          body.append(UInt8(ascii: "\\"))
          body.append(byte)
        }
      }
    } else {
      body += text.utf8
    }
    body.append(UInt8(ascii: "\""))
  }

  private static func needsEscape(_ byte: UInt8) -> Bool {
    byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
  }
}
