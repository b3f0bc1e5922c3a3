package import JSON

package import HTTPTransport

extension VerifyReceiptResponse {
  /// What the service looks at of an answer.
  package static var membersLookedAt: JSONSelection { selection }
}
