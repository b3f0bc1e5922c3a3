import Cryptography
internal import Entitlements

/// A receipt in its stored form: bytes, if it is base64 that spells them exactly, else its text.
struct StoredProof: Sendable {
  var digest: ReceiptDigest
  var environment: StoreEnvironment
  var bundleID: BundleID
  /// Without the frame.
  private(set) var content: [UInt8]
  let isText: Bool
  /// The part that is stored elsewhere, and the place where it stood; `nil` where the content is whole.
  private(set) var frame: (octets: [UInt8], at: Int)?

  /// - Parameters:
  ///   - octets: those that the base64 spells; `nil`: it has not been decoded.
  ///   - shared: the octets of the receipt that others have too; `nil`: none.
  ///   - digest: the receipt's; `nil`: it is not known.
  init(
    _ receipt: KeptReceipt, octets: [UInt8]? = nil, sharing shared: Range<Int>? = nil, digest: SHA256Digest? = nil
  ) {
    (environment, bundleID) = (receipt.environment, receipt.bundleID)
    let bytes = octets ?? Base64.bytes(of: receipt.base64)
    (content, isText) = (bytes ?? Array(receipt.base64.utf8), bytes == nil)
    self.digest = ReceiptDigest(bytes: (digest ?? SHA256Digest(of: content)).bytes)
    guard let shared, (ProofFrame.least...ProofFrame.most).contains(shared.count), shared.lowerBound >= 0,
      shared.upperBound <= content.count, shared.count < content.count,
      !isText || content.contains(UInt8(ascii: "."))
    else { return }
    frame = (Array(content[shared]), shared.lowerBound)
    content.removeSubrange(shared)
  }

  /// The proof with its frame inside.
  var whole: StoredProof {
    var whole = self
    if let frame { whole.content.insert(contentsOf: frame.octets, at: frame.at) }
    whole.frame = nil
    return whole
  }
}

/// Octets of a receipt that many others have too, in `proof_frame`.
enum ProofFrame {
  /// The fewest octets that are worth a row: shorter than any certificate.
  static let least = 512
  /// The most octets, as many as `AppReceipt` remembers of a frame. Apple's have about 4 KiB.
  static let most = 16 * 1_024
  /// The most rows. Apple has used a handful of signers in ten years. Whoever has a receipt of Apple's can write its
  /// certificates in other ways, and use the rows up: then receipts of later signers are stored whole.
  static let limit: Int64 = 256
}

/// Receipts and signed transactions, each stored once.
struct ProofTable: LedgerTable {
  let tables: LedgerTables

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
          base64: try row.get(3) ? String(decoding: content, as: UTF8.self) : Base64.text(of: content),
          environment: try row.get(1), bundleID: try row.get(2)),
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

  /// The app of a purchase.
  func bundleID(ofProof id: Int64) throws -> BundleID? { try first("SELECT bundle_id FROM proof WHERE id = ?", id) }

  /// Whether a stored proof is this receipt.
  func isProof(_ id: Int64, _ proof: StoredProof) throws -> Bool {
    try exists(
      "SELECT 1 FROM proof WHERE id = ? AND sha256 = ? AND environment = ? AND bundle_id = ?", id, proof.digest,
      proof.environment, proof.bundleID)
  }

  private static let proofColumns =
    "sha256, environment, bundle_id, is_text, content, recorded_at, frame_id, frame_at"
  private static let insertProof = SQL.insert("proof", "id, uses, \(proofColumns)")
  private static let updateProof = SQL.update("proof", proofColumns, "WHERE id = ? AND uses = 1")

  func nextID() throws -> Int64? { try tables.nextID("SELECT nextval('proof_id_seq')") }

  /// - Returns: the ID of a new row, which one purchase uses.
  func add(_ proof: StoredProof, at now: Int64) throws -> Int64 {
    let (proof, frame) = try storable(proof)
    return try insert(
      nextID(), Self.insertProof, 1, proof.digest, proof.environment, proof.bundleID, proof.isText, proof.content,
      now, frame, proof.frame?.at)
  }

  /// Puts a receipt in the place of one that only one purchase uses.
  /// - Returns: whether it could be done.
  func replace(proof id: Int64, by proof: StoredProof, at now: Int64) throws -> Bool {
    let (proof, frame) = try storable(proof)
    try execute(
      Self.updateProof, proof.digest, proof.environment, proof.bundleID, proof.isText, proof.content, now, frame,
      proof.frame?.at, id)
    return changesCount == 1
  }

  func use(proof id: Int64) throws { try execute("UPDATE proof SET uses = uses + 1 WHERE id = ?", id) }

  /// Releases one use of a proof, and deletes it with the last.
  func leave(proof id: Int64) throws {
    try execute("DELETE FROM proof WHERE id = ? AND uses = 1", id)
    if changesCount == 0 { try execute("UPDATE proof SET uses = uses - 1 WHERE id = ?", id) }
  }

  /// A proof, and the row of its frame; the whole proof where there is no such row.
  ///
  /// PostgreSQL stores receipts whole: a transaction would wait for another replica's that adds the same frame.
  private func storable(_ proof: StoredProof) throws -> (proof: StoredProof, frame: Int64?) {
    guard let octets = proof.frame?.octets, !connection.isShared, let row = try row(of: octets) else {
      return (proof.whole, nil)
    }
    return (proof, row)
  }

  /// The row of a frame; `nil` where there are too many rows for a new one. To compare the few rows costs less than a digest.
  private func row(of frame: [UInt8]) throws -> Int64? {
    if let known: Int64 = try first("SELECT id FROM proof_frame WHERE content = ?", frame) { return known }
    let last = try first("SELECT max(id) FROM proof_frame", as: Int64?.self) ?? nil
    let id = (last ?? 0) + 1
    guard id <= ProofFrame.limit else { return nil }
    // A row that was damaged on the disk keeps its digest, and takes no other receipt along.
    try execute(
      "INSERT INTO proof_frame (id, sha256, content) VALUES (?, ?, ?) ON CONFLICT (sha256) DO NOTHING", id,
      SHA256Digest(of: frame).bytes, frame)
    return changesCount == 1 ? id : nil
  }
}
