internal import Entitlements
internal import struct FoundationEssentials.Date

/// Receipts that wait for Apple.
package struct PendingTable: LedgerTable {
  package let tables: LedgerTables

  /// The most queued receipts of one user: far more than an app has reason to post, and too few to fill a disk.
  static let pendingPerUser = 20
  /// The most queued bytes of one user: one receipt of the greatest size, or twenty of the usual size.
  static let pendingBytesPerUser = 4 << 20
  /// The most queued bytes of all users, so that many users together cannot fill the disk.
  static let pendingBytes = 1 << 30

  /// The outcome of queueing a receipt.
  enum Place {
    /// The receipt's row, new or existing.
    case row(Int64)
    case tooMany
    case full
  }

  struct StoredPending {
    var user: UserID
    var digest: ReceiptDigest
    var requestID: String
  }

  /// - Parameter waiting: the queued bytes of all users; `nil`: as `pending_total` has them.
  func postpone(_ receipt: PendingReceipt, digest: ReceiptDigest, waiting total: Int?) throws -> Place {
    let user = receipt.user
    let known = try first(
      "SELECT id FROM pending_receipt WHERE user_id = ? AND sha256 = ?", user, digest, as: Int64.self)
    if let known { return .row(known) }
    // Base64 has as many bytes as characters.
    let size = receipt.base64.utf8.count
    let own = try first(
      "SELECT count(*), coalesce(sum(length(base64)), 0) FROM pending_receipt WHERE user_id = ?", user,
      as: (Int, Int).self)
    guard let (waiting, bytes) = own, waiting < Self.pendingPerUser, bytes + size <= Self.pendingBytesPerUser else {
      return .tooMany
    }
    let all = try total ?? first("SELECT bytes FROM pending_total WHERE id = 1", as: Int.self)
    guard let all, all + size <= Self.pendingBytes else { return .full }
    let saved = try first(
      """
      INSERT INTO pending_receipt (user_id, sha256, base64, request_id, received_at, attempts, due_at)
      VALUES (?, ?, ?, ?, ?, 0, ?) RETURNING id
      """, user, digest, receipt.base64, receipt.requestID, receipt.receivedAt, receipt.receivedAt, as: Int64.self)
    guard let saved else { throw StoredForm.Unstorable() }
    return .row(saved)
  }

  /// The queued bytes of all users in PostgreSQL, by their rows.
  func size() throws -> Int {
    try first("SELECT coalesce(sum(octet_length(base64)), 0) FROM pending_receipt") ?? 0
  }

  func pending(_ id: Int64) throws -> StoredPending? {
    try first(
      "SELECT user_id, sha256, request_id FROM pending_receipt WHERE id = ?", id,
      into: StoredPending.init(user:digest:requestID:))
  }

  private static let pendingRow = "SELECT id, user_id, base64, request_id, received_at, attempts FROM pending_receipt"
  private static let pendingDue = SQL("\(pendingRow) WHERE due_at <= ? ORDER BY due_at, id LIMIT ?")
  private static let pendingToClaim = SQL(
    "\(pendingRow) WHERE due_at <= ? ORDER BY due_at, id LIMIT ? /*pg: FOR UPDATE SKIP LOCKED */")
  private static let pendingOfUser = SQL("\(pendingRow) WHERE user_id = ? ORDER BY id")

  func receipts(dueAt now: Date, limit: Int) throws -> [PendingReceipt] {
    try all(Self.pendingDue, now, max(0, limit), into: PendingReceipt.init)
  }

  func receipts(of spelling: String) throws -> [PendingReceipt] {
    try all(Self.pendingOfUser, spelling, into: PendingReceipt.init)
  }

  /// As `pendingReceipts`, each for the caller alone.
  func claim(dueAt now: Date, until lease: Date, limit: Int) throws -> [PendingReceipt] {
    let due = try all(Self.pendingToClaim, now, max(0, limit), into: PendingReceipt.init)
    for receipt in due { try execute("UPDATE pending_receipt SET due_at = ? WHERE id = ?", lease, receipt.id) }
    return due
  }

  func retry(_ id: Int64, at due: Date, isCounted: Bool = true) throws {
    try execute(
      "UPDATE pending_receipt SET attempts = attempts + ?, due_at = ? WHERE id = ?", isCounted ? 1 : 0, due, id)
  }

  /// Deletes a queued receipt; its grants go with it.
  func remove(_ id: Int64) throws {
    changes.invalidateAll()
    try execute("DELETE FROM pending_receipt WHERE id = ?", id)
  }
}

extension LedgerTables { package var pending: PendingTable { PendingTable(tables: self) } }
