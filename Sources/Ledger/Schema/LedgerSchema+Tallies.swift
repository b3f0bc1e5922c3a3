extension LedgerSchema {
  /// Migration 0023. Counts of what is no purchase, and the lengths of what is.
  static let tallies = """
    -- Counts: see `Tally`. day is since 1970-01-01 in UTC, and zero for what is counted as of now.
    CREATE TABLE tally (
      name TEXT NOT NULL CHECK (name <> ''),
      day INTEGER NOT NULL,
      label TEXT NOT NULL,
      detail TEXT NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (name, day, label, detail)
    ) STRICT, WITHOUT ROWID;

    -- What is still to be added to them. It is appended in the transaction of what it tells, and is gone when a job has added
    -- it: a row that every transaction changed would make each wait for the others.
    CREATE TABLE tally_change (
      id INTEGER NOT NULL PRIMARY KEY,
      name TEXT NOT NULL CHECK (name <> ''),
      day INTEGER NOT NULL,
      label TEXT NOT NULL,
      detail TEXT NOT NULL,
      change INTEGER NOT NULL
    ) STRICT;

    -- The length of a product's periods, in the form of ISO 8601: P1M.
    CREATE TABLE product_period (
      product_id TEXT NOT NULL PRIMARY KEY CHECK (product_id <> ''),
      period TEXT NOT NULL CHECK (period <> '')
    ) STRICT, WITHOUT ROWID;
    """
}
