extension LedgerSchema {
  /// Migration 0027. What receipts have in common is stored once.
  static let frames = """
    -- The octets that many receipts share: the certificates that Apple signs with, most of a small receipt. One
    -- row for each way in which they were written, at most ProofFrame.limit.
    CREATE TABLE proof_frame (
      id INTEGER NOT NULL PRIMARY KEY,
      sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
      content BLOB NOT NULL CHECK (length(content) > 0)
    ) STRICT;
    -- Which of them was taken out of the content, and where it stood; NULL where the content is whole. No CHECK, which would
    -- be tested against every row that there is.
    ALTER TABLE proof ADD COLUMN frame_id INTEGER;
    ALTER TABLE proof ADD COLUMN frame_at INTEGER;
    """
}
