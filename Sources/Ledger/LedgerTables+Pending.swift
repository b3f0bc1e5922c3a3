internal import Entitlements
internal import struct FoundationEssentials.Data
internal import struct FoundationEssentials.Date
internal import GRDB

extension LedgerTables {
  /// So many receipts of one user may wait: far more than an app has reason to post, and too few to fill a disk.
  static let pendingPerUser = 20

  func postpone(_ receipt: PendingReceipt, digest: ReceiptDigest) throws -> PostponeOutcome {
    let sha256 = Data(digest.bytes)
    let user = receipt.user.rawValue
    let known = try row("SELECT 1 FROM pending_receipt WHERE user_id = \(user) AND sha256 = \(sha256)") != nil
    if known { return .kept }
    let waiting = try row("SELECT count(*) AS waiting FROM pending_receipt WHERE user_id = \(user)")
    guard let waiting, try waiting.decode(Int.self, forColumn: "waiting") < Self.pendingPerUser else { return .tooMany }
    let receivedAt = try StoredForm.milliseconds(receipt.receivedAt)
    try execute(
      """
      INSERT INTO pending_receipt (user_id, sha256, base64, request_id, received_at, attempts, due_at)
      VALUES (\(user), \(sha256), \(receipt.base64), \(receipt.requestID), \(receivedAt), 0, \(receivedAt))
      """)
    return .kept
  }

  func pendingReceipts(dueAt now: Date, limit: Int) throws -> [PendingReceipt] {
    try rows(
      """
      SELECT id, user_id, base64, request_id, received_at, attempts FROM pending_receipt
      WHERE due_at <= \(try StoredForm.milliseconds(now))
      ORDER BY due_at, id LIMIT \(max(0, limit))
      """
    ).map { row in
      PendingReceipt(
        id: try row.decode(forColumn: "id"), user: UserID(try row.decode(String.self, forColumn: "user_id")),
        base64: try row.decode(forColumn: "base64"), requestID: try row.decode(forColumn: "request_id"),
        receivedAt: StoredForm.date(try row.decode(forColumn: "received_at")),
        attempts: try row.decode(forColumn: "attempts"))
    }
  }

  func retryPending(_ id: Int64, at due: Date) throws {
    try execute(
      """
      UPDATE pending_receipt SET attempts = attempts + 1, due_at = \(try StoredForm.milliseconds(due)) WHERE id = \(id)
      """)
  }

  func settlePending(_ id: Int64) throws { try execute("DELETE FROM pending_receipt WHERE id = \(id)") }
}
