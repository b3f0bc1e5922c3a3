extension LedgerSchema {
  /// Migration 0024. What conversion, funnel, retention and the users near a limit are counted of.
  static let progress = """
    -- How far each user has come: first heard of, first shown a paywall, first paid. Days are since 1970-01-01 in UTC.
    CREATE TABLE user_progress (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      seen INTEGER NOT NULL,
      viewed INTEGER,
      paid INTEGER
    ) STRICT, WITHOUT ROWID;

    -- The users who have almost as many of a thing as their tier allows, and that tier.
    CREATE TABLE near_limit (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      feature TEXT NOT NULL CHECK (feature <> ''),
      tier TEXT NOT NULL CHECK (tier <> ''),
      PRIMARY KEY (user_id, feature)
    ) STRICT, WITHOUT ROWID;

    -- The subscriptions that were first paid for in a month, by its first day. change is that of the number which is paid for,
    -- so many months later.
    CREATE TABLE figure_cohort (
      month INTEGER NOT NULL,
      product_id TEXT NOT NULL,
      since INTEGER NOT NULL,
      change INTEGER NOT NULL,
      PRIMARY KEY (month, product_id, since)
    ) STRICT, WITHOUT ROWID;
    """
}
