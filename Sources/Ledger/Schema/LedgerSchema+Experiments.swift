extension LedgerSchema {
  /// Migration 0021. The variants of experiments that users saw, and what became of the users.
  static let experiments = """
    -- The variant that a user saw first. It is the user's, whatever the weights become.
    CREATE TABLE exposure (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      experiment TEXT NOT NULL CHECK (experiment <> ''),
      variant TEXT NOT NULL CHECK (variant <> ''),
      exposed_at INTEGER NOT NULL,
      PRIMARY KEY (user_id, experiment)
    ) STRICT, WITHOUT ROWID;

    -- Users who saw a variant, and whose exposures, purchases or trials changed since they were counted. changes makes two
    -- writers of one row meet.
    CREATE TABLE exposure_due (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      changes INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- What each user was counted as: what has to be taken back when it changes.
    CREATE TABLE counted_exposure (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      counts TEXT NOT NULL CHECK (json_type(counts) = 'array')
    ) STRICT, WITHOUT ROWID;

    -- The sums, by the day (since 1970-01-01, UTC) of the exposure. Users are under no currency. Money is in thousandths of
    -- the currency's unit.
    CREATE TABLE variant_figure (
      experiment TEXT NOT NULL,
      day INTEGER NOT NULL,
      variant TEXT NOT NULL,
      currency TEXT NOT NULL,
      exposed INTEGER NOT NULL,
      paid_before INTEGER NOT NULL,
      trials INTEGER NOT NULL,
      paid INTEGER NOT NULL,
      revenue INTEGER NOT NULL,
      refunds INTEGER NOT NULL,
      PRIMARY KEY (experiment, day, variant, currency)
    ) STRICT, WITHOUT ROWID;
    """
}
