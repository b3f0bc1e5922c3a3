/// One call to DeviceCheck, for log and metrics, without tokens.
package struct DeviceCheckAttempt: Hashable, Sendable {
  package enum Call: String, Hashable, Sendable, CaseIterable {
    case query = "query_two_bits"
    case update = "update_two_bits"
  }

  package var call: Call
  package var server: DeviceCheck.Server
  /// `nil` for an answer.
  package var failure: DeviceCheckError?
  package var duration: Duration
}
