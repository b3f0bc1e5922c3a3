/// Where a piece of evidence comes from.
package enum EvidenceSource: String, Hashable, Codable, Sendable, CaseIterable {
  case verifyReceipt = "verify_receipt"
  case serverAPI = "server_api"
  case signature
  case notification
}
