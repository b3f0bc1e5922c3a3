extension LedgerSchema {
  /// Migration 0020. The figures, kept up beside the purchases, so that nobody has to count a million of them.
  static let figures = """
    -- Purchases that changed since they were counted. changes makes two writers of one row meet.
    CREATE TABLE figure_due (
      purchase_id INTEGER NOT NULL PRIMARY KEY,
      changes INTEGER NOT NULL
    ) STRICT;

    -- What each purchase was counted as: what has to be taken back when it changes.
    CREATE TABLE counted_purchase (
      purchase_id INTEGER NOT NULL PRIMARY KEY,
      counts TEXT NOT NULL CHECK (json_type(counts) = 'array')
    ) STRICT;

    -- The sums, by day (since 1970-01-01, UTC) and once more by month, under its first day. Of active, trials, grace and mrr a
    -- row has the change. Money is in thousandths of the currency's unit.
    CREATE TABLE figure (
      grain TEXT NOT NULL CHECK (grain IN ('day', 'month')),
      day INTEGER NOT NULL,
      product_id TEXT NOT NULL,
      currency TEXT NOT NULL,
      active INTEGER NOT NULL,
      trials INTEGER NOT NULL,
      grace INTEGER NOT NULL,
      mrr INTEGER NOT NULL,
      new_subscriptions INTEGER NOT NULL,
      new_mrr INTEGER NOT NULL,
      ended INTEGER NOT NULL,
      resubscribed INTEGER NOT NULL,
      payments INTEGER NOT NULL,
      refunded_payments INTEGER NOT NULL,
      revenue INTEGER NOT NULL,
      refunds INTEGER NOT NULL,
      trial_starts INTEGER NOT NULL,
      trial_conversions INTEGER NOT NULL,
      trials_pending INTEGER NOT NULL,
      PRIMARY KEY (grain, day, product_id, currency)
    ) STRICT, WITHOUT ROWID;
    """
}
