extension LedgerSchema {
  /// Migration 0013. What RevenueCat reports about stores that the service cannot ask.
  static let revenueCat = """
    -- Purchases at other stores than Apple's. IDs are negative, so that an account can list them among its purchases.
    -- original_transaction_id begins with the store: play_store:GPA.1234. events is what was reported, a JSON array;
    -- evidence is made from it, and unlocks is what the products unlock at RevenueCat. due_at is when time alone
    -- changes what it gives.
    CREATE TABLE store_purchase (
      id INTEGER NOT NULL PRIMARY KEY CHECK (id < 0),
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (instr(original_transaction_id, ':') > 1),
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      events TEXT NOT NULL CHECK (json_type(events) = 'array'),
      evidence TEXT NOT NULL CHECK (json_valid(evidence)),
      unlocks TEXT CHECK (iif(unlocks IS NULL, 1, json_type(unlocks) = 'object')),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      due_at INTEGER,
      UNIQUE (environment, original_transaction_id)
    ) STRICT;
    CREATE INDEX store_purchase_due_at ON store_purchase (due_at) WHERE due_at IS NOT NULL;

    -- Reports that somebody else has to confirm: about a purchase at Apple's until Apple has answered, and of access that
    -- RevenueCat gives while it cannot reach a store. until is when the access ends that is given meanwhile; NULL: none
    -- is. due_at is when Apple is asked again, or when that access ends.
    CREATE TABLE store_report (
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      events TEXT NOT NULL CHECK (json_type(events) = 'array'),
      evidence TEXT CHECK (iif(evidence IS NULL, 1, json_valid(evidence))),
      unlocks TEXT CHECK (iif(unlocks IS NULL, 1, json_type(unlocks) = 'object')),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      reported_at INTEGER NOT NULL,
      until INTEGER,
      due_at INTEGER NOT NULL,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      PRIMARY KEY (environment, original_transaction_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX store_report_user_id ON store_report (user_id);
    CREATE INDEX store_report_due_at ON store_report (due_at);

    -- Changes of user at RevenueCat that policy.ownership allowed. They count for events that arrive later, too.
    CREATE TABLE store_transfer (
      from_user_id TEXT NOT NULL CHECK (from_user_id <> ''),
      id TEXT NOT NULL CHECK (id <> ''),
      to_user_id TEXT NOT NULL CHECK (to_user_id <> ''),
      at INTEGER NOT NULL,
      is_of_inactive INTEGER NOT NULL CHECK (is_of_inactive IN (0, 1)),
      PRIMARY KEY (from_user_id, id)
    ) STRICT, WITHOUT ROWID;
    """
}
