extension LedgerSchema {
  /// Migration 0017. What others are told, each change once, in the transaction of the change.
  static let changes = """
    -- What is told, in order. user_id is the account's key. type has a dot, or is the app's own. verdict and former are the
    -- verdicts after and before it, in event; data is what they do not tell. The newest row is never deleted, so that no
    -- number is given twice. Rows are deleted when they are old.
    CREATE TABLE change_event (
      sequence INTEGER NOT NULL PRIMARY KEY,
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      type TEXT NOT NULL CHECK (type <> ''),
      at INTEGER NOT NULL,
      recorded_at INTEGER NOT NULL,
      verdict INTEGER,
      former INTEGER,
      data TEXT CHECK (json_type(data) = 'object')
    ) STRICT;

    -- What the purchases of a user give while a grant or a trial decides: what changes among them is told all the same.
    CREATE TABLE covered_verdict (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      entitlement TEXT NOT NULL CHECK (json_valid(entitlement))
    ) STRICT, WITHOUT ROWID;

    -- Refusals that were told. Until then the same one is not told again.
    CREATE TABLE told_refusal (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      subject TEXT NOT NULL CHECK (subject <> ''),
      until INTEGER NOT NULL,
      PRIMARY KEY (user_id, subject)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX told_refusal_until ON told_refusal (until);
    """
}
