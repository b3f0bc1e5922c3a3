extension LedgerSchema {
  /// Migration 0025. Subscriptions whose first payment is not known.
  static let existing = """
    ALTER TABLE figure ADD COLUMN existing INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE figure ADD COLUMN existing_mrr INTEGER NOT NULL DEFAULT 0;

    -- The transactions of a purchase that its evidence no longer has, in the form of that. Only figures are counted of them.
    CREATE TABLE past_evidence (
      purchase_id INTEGER NOT NULL PRIMARY KEY,
      evidence TEXT NOT NULL CHECK (json_valid(evidence))
    ) STRICT;
    """
}
