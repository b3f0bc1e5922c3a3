extension LedgerSchema {
  static let refusedKinds = """
    -- Whether Apple signed it, and it is another app's: of those as many are kept however many strangers post.
    ALTER TABLE refused_notification ADD COLUMN is_signed INTEGER NOT NULL DEFAULT 0 CHECK (is_signed IN (0, 1));
    CREATE INDEX refused_notification_is_signed ON refused_notification (is_signed, id);
    """

  static let notifications = """
    -- How the owner came to a purchase: by presenting proof of it, or because the purchase names them.
    ALTER TABLE subscription ADD COLUMN claim TEXT NOT NULL DEFAULT 'proof' CHECK (claim IN ('proof', 'account_token'));

    -- Apple's notifications that were believed, each once. They are forgotten when Apple sends them no more. payload is NULL
    -- for one that was too large to be kept.
    CREATE TABLE notification (
      uuid TEXT NOT NULL PRIMARY KEY CHECK (uuid <> ''),
      type TEXT,
      subtype TEXT,
      environment TEXT CHECK (environment IN ('production', 'sandbox')),
      bundle_id TEXT,
      original_transaction_id TEXT,
      signed_at INTEGER,
      received_at INTEGER NOT NULL,
      outcome TEXT NOT NULL CHECK (outcome IN ('recorded', 'unclaimed', 'noted')),
      user_id TEXT CHECK ((outcome = 'recorded') = (user_id IS NOT NULL)),
      payload TEXT
    ) STRICT;
    CREATE INDEX notification_key ON notification (environment, original_transaction_id, received_at);
    CREATE INDEX notification_received_at ON notification (received_at);

    -- Those that were not believed or could not be read: only the newest are kept.
    CREATE TABLE refused_notification (
      id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
      problem TEXT NOT NULL CHECK (problem <> ''),
      payload TEXT NOT NULL,
      received_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX refused_notification_received_at ON refused_notification (received_at);

    -- What notifications told of purchases that nobody owns yet; a row goes when somebody does. account_token is the UUID of
    -- the user whom the purchase names; proof is the transaction that was signed last.
    CREATE TABLE unclaimed_evidence (
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      source TEXT NOT NULL CHECK (source IN ('verify_receipt', 'server_api', 'signature', 'notification')),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      evidence TEXT NOT NULL CHECK (json_valid(evidence)),
      account_token TEXT CHECK (account_token = lower(account_token)),
      bundle_id TEXT CHECK (bundle_id <> ''),
      proof TEXT CHECK (proof <> ''),
      proof_at INTEGER CHECK ((proof IS NULL) = (proof_at IS NULL)),
      first_seen_at INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL,
      CHECK (proof IS NULL OR bundle_id IS NOT NULL),
      PRIMARY KEY (environment, original_transaction_id)
    ) STRICT;
    CREATE INDEX unclaimed_evidence_account_token ON unclaimed_evidence (account_token)
      WHERE account_token IS NOT NULL;
    """
}
