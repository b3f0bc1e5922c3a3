extension LedgerSchema {
  /// The total bytes of queued receipts, kept as a counter: a sum would read each receipt.
  static let pendingTotal = """
    CREATE TABLE pending_total (
      id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
      bytes INTEGER NOT NULL CHECK (bytes >= 0)
    ) STRICT;
    INSERT INTO pending_total (id, bytes) SELECT 1, coalesce(sum(length(base64)), 0) FROM pending_receipt;
    CREATE TRIGGER pending_receipt_added AFTER INSERT ON pending_receipt
      BEGIN UPDATE pending_total SET bytes = bytes + length(NEW.base64) WHERE id = 1; END;
    CREATE TRIGGER pending_receipt_removed AFTER DELETE ON pending_receipt
      BEGIN UPDATE pending_total SET bytes = bytes - length(OLD.base64) WHERE id = 1; END;
    """
}
