import Cryptography
internal import Entitlements

/// A receipt in its stored form: bytes, if it is base64 that spells them exactly, else its text.
struct StoredProof {
  var content: [UInt8]
  var isText: Bool
  /// The part that is stored elsewhere; `nil` where the content is whole.
  var frame: ProofFrame?

  init(_ base64: String) {
    if let bytes = Base64.bytes(of: base64) {
      (content, isText) = (bytes, false)
    } else {
      (content, isText) = (Array(base64.utf8), true)
    }
  }

  /// The receipt in the form in which Apple takes it.
  static func base64(of content: [UInt8], isText: Bool) -> String {
    isText ? String(decoding: content, as: UTF8.self) : Base64.text(of: content)
  }
}

/// Octets of a receipt that many others have too, in `proof_frame`.
struct ProofFrame {
  /// The fewest octets that are worth a row: shorter than any certificate.
  static let least = 512
  /// The most octets, as many as `AppReceipt` remembers of a frame. Apple's have about 4 KiB.
  static let most = 16 * 1_024
  /// The most rows. Apple has used a handful of signers in ten years. Whoever has a receipt of Apple's can write its
  /// certificates in other ways, and use the rows up: then receipts of later signers are stored whole.
  static let limit: Int64 = 256

  var id: Int64
  /// Where it stood in the receipt.
  var at: Int64
}

extension LedgerTables {
  // MARK: Proofs

  func proof(_ id: Int64) throws -> (receipt: KeptReceipt, digest: ReceiptDigest) {
    let proof = try first(
      """
      SELECT sha256, environment, bundle_id, is_text, content, frame_at,
        (SELECT content FROM proof_frame WHERE id = frame_id)
      FROM proof WHERE id = ?
      """, id
    ) { row in
      var content: [UInt8] = try row.get(4)
      if let at: Int64 = try row.get(5) {
        guard let frame: [UInt8] = try row.get(6), let at = Int(exactly: at), (0...content.count).contains(at) else {
          throw StoredForm.Unstorable()
        }
        content.insert(contentsOf: frame, at: at)
      }
      return (
        receipt: KeptReceipt(
          base64: StoredProof.base64(of: content, isText: try row.get(3)), environment: try row.get(1),
          bundleID: try row.get(2)),
        digest: try row.get(0, as: ReceiptDigest.self)
      )
    }
    guard let proof else { throw StoredForm.Unstorable() }
    return proof
  }

  func digest(ofProof id: Int64) throws -> ReceiptDigest {
    guard let digest: ReceiptDigest = try first("SELECT sha256 FROM proof WHERE id = ?", id) else {
      throw StoredForm.Unstorable()
    }
    return digest
  }

  /// Whether a stored proof is this receipt.
  func isProof(_ id: Int64, _ receipt: KeptReceipt, _ digest: ReceiptDigest) throws -> Bool {
    try exists(
      "SELECT 1 FROM proof WHERE id = ? AND sha256 = ? AND environment = ? AND bundle_id = ?", id, digest,
      receipt.environment, receipt.bundleID)
  }

  private static let proofColumns =
    "sha256, environment, bundle_id, is_text, content, recorded_at, frame_id, frame_at"
  private static let insertProof = SQL.insert("proof", "id, uses, \(proofColumns)")
  private static let updateProof = SQL.update("proof", proofColumns, "WHERE id = ? AND uses = 1")

  /// - Parameter shared: the octets of the receipt that others have too; `nil`: none.
  /// - Returns: the ID of a new row, which one purchase uses.
  func add(
    _ receipt: KeptReceipt, _ digest: ReceiptDigest, sharing shared: Range<Int>? = nil, at now: Int64
  ) throws -> Int64 {
    let stored = try stored(receipt, without: shared)
    return try insert(
      nextProof(), Self.insertProof, 1, digest, receipt.environment, receipt.bundleID, stored.isText, stored.content,
      now, stored.frame?.id, stored.frame?.at)
  }

  /// Puts a receipt in the place of one that only one purchase uses.
  /// - Returns: whether it could be done.
  func replace(
    proof id: Int64, by receipt: KeptReceipt, _ digest: ReceiptDigest, sharing shared: Range<Int>?, at now: Int64
  ) throws -> Bool {
    let stored = try stored(receipt, without: shared)
    try execute(
      Self.updateProof, digest, receipt.environment, receipt.bundleID, stored.isText, stored.content, now,
      stored.frame?.id, stored.frame?.at, id)
    return changesCount == 1
  }

  func use(proof id: Int64) throws { try execute("UPDATE proof SET uses = uses + 1 WHERE id = ?", id) }

  /// Releases one use of a proof, and deletes it with the last.
  func leave(proof id: Int64) throws {
    try execute("DELETE FROM proof WHERE id = ? AND uses = 1", id)
    if changesCount == 0 { try execute("UPDATE proof SET uses = uses - 1 WHERE id = ?", id) }
  }

  /// A receipt, without what is stored for all that share it.
  ///
  /// PostgreSQL stores receipts whole: a transaction would wait for another replica's that adds the same frame.
  private func stored(_ receipt: KeptReceipt, without shared: Range<Int>?) throws -> StoredProof {
    var stored = StoredProof(receipt.base64)
    guard !connection.isShared, let range = shared, (ProofFrame.least...ProofFrame.most).contains(range.count),
      range.lowerBound >= 0,
      range.upperBound <= stored.content.count, range.count < stored.content.count,
      !stored.isText || stored.content.contains(UInt8(ascii: ".")), let frame = try frame(stored.content[range])
    else { return stored }
    stored.content.removeSubrange(range)
    stored.frame = ProofFrame(id: frame, at: Int64(range.lowerBound))
    return stored
  }

  /// The row of these octets; `nil` where there are too many rows for a new one.
  private func frame(_ octets: ArraySlice<UInt8>) throws -> Int64? {
    let digest = SHA256Digest(of: octets).bytes
    let known = try first("SELECT id, content FROM proof_frame WHERE sha256 = ?", digest, as: (Int64, [UInt8]).self)
    // A row that was damaged on the disk takes no other receipt along.
    if let (id, content) = known { return SHA256Digest(of: content).bytes == digest ? id : nil }
    let last = try first("SELECT max(id) FROM proof_frame", as: Int64?.self) ?? nil
    let id = (last ?? 0) + 1
    guard id <= ProofFrame.limit else { return nil }
    try execute("INSERT INTO proof_frame (id, sha256, content) VALUES (?, ?, ?)", id, digest, Array(octets))
    return id
  }
}
