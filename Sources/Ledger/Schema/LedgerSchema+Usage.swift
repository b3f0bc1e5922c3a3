extension LedgerSchema {
  /// Migration 0011. What users consumed of the features of the catalog.
  ///
  /// Users need no account: whoever has bought nothing has limits too. A consumption writes one page of each table, and
  /// a third one for its key.
  static let usage = """
    -- Each consumption of a meter. number tells those of one millisecond apart. Of what was given back returned is the
    -- amount, and amount is zero. request and answer are those of the key, which is kept for a week.
    CREATE TABLE consumption (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      feature TEXT NOT NULL CHECK (feature <> ''),
      consumed_at INTEGER NOT NULL,
      number INTEGER NOT NULL,
      amount INTEGER NOT NULL CHECK (amount >= 0),
      returned INTEGER CHECK (iif(returned IS NULL, amount >= 1, returned >= 1 AND amount = 0)),
      idempotency_key TEXT CHECK (idempotency_key <> ''),
      request TEXT CHECK ((request IS NULL) = (idempotency_key IS NULL)),
      answer TEXT CHECK ((answer IS NULL) = (idempotency_key IS NULL)),
      PRIMARY KEY (user_id, feature, consumed_at, number)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX consumption_key ON consumption (user_id, feature, idempotency_key)
      WHERE idempotency_key IS NOT NULL;

    -- The sum of a meter over all time, whose consumptions may be forgotten; of a limit, how many exist. keys_until: the
    -- keys of earlier consumptions are forgotten.
    CREATE TABLE feature_total (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      feature TEXT NOT NULL CHECK (feature <> ''),
      total INTEGER NOT NULL CHECK (total >= 0),
      next_number INTEGER NOT NULL CHECK (next_number >= 0),
      keys_until INTEGER NOT NULL,
      PRIMARY KEY (user_id, feature)
    ) STRICT, WITHOUT ROWID;

    -- The zone in which a user's days, weeks and months begin, where one was named.
    CREATE TABLE user_time_zone (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      name TEXT NOT NULL CHECK (name <> ''),
      changed_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """
}
