extension LedgerSchema {
  /// Migration 0014. The customers of SDKs.
  static let customers = """
    -- Users whom an SDK has named, whether they bought or not. joined_to: the key of the user whom an anonymous customer
    -- turned out to be; whatever is asked of this one is asked of that one. attributes: what the app says of the customer, a
    -- JSON object of {"value", "updated_at_ms"}; NULL: nothing.
    CREATE TABLE customer (
      key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
      spelling TEXT CHECK (spelling <> key),
      joined_to TEXT CHECK (joined_to <> key),
      first_seen_at INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL,
      attributes TEXT CHECK (iif(attributes IS NULL, 1, json_type(attributes) = 'object'))
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX customer_joined_to ON customer (joined_to, first_seen_at) WHERE joined_to IS NOT NULL;
    """
}
