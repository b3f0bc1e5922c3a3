extension LedgerSchema {
  /// Migration 0018. Receivers of events, and what they were not told yet.
  static let webhooks = """
    -- The receivers that the configuration names. through: every event up to it was delivered, or is below. url_sha256: a new
    -- URL enables a receiver again that said it was gone.
    CREATE TABLE webhook (
      name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
      url_sha256 BLOB NOT NULL CHECK (length(url_sha256) = 32),
      through INTEGER NOT NULL CHECK (through >= 0),
      is_enabled INTEGER NOT NULL CHECK (is_enabled IN (0, 1))
    ) STRICT, WITHOUT ROWID;

    -- Which of several replicas tells a receiver, and until when no other one may.
    CREATE TABLE webhook_lease (
      webhook TEXT NOT NULL PRIMARY KEY CHECK (webhook <> ''),
      holder TEXT NOT NULL CHECK (holder <> ''),
      lease_until INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- Events that were not delivered at once: to be sent again, or given up. Of a user the first that waits goes first. due_at
    -- is zero for one that waits behind another one.
    CREATE TABLE webhook_delivery (
      webhook TEXT NOT NULL CHECK (webhook <> ''),
      sequence INTEGER NOT NULL,
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      is_dead INTEGER NOT NULL CHECK (is_dead IN (0, 1)),
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      due_at INTEGER NOT NULL,
      problem TEXT,
      problem_at INTEGER,
      PRIMARY KEY (webhook, sequence)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX webhook_delivery_user ON webhook_delivery (webhook, user_id, sequence) WHERE is_dead = 0;
    CREATE INDEX webhook_delivery_due_at ON webhook_delivery (webhook, due_at, sequence) WHERE is_dead = 0;
    CREATE INDEX webhook_delivery_dead ON webhook_delivery (webhook, sequence) WHERE is_dead = 1;
    """
}
