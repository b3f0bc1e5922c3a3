extension LedgerSchema {
  static let runs = """
    -- Runs of re-validation on demand, one under way at a time. What is due is done, failed, held back, or left in run_item.
    CREATE TABLE run (
      id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      idempotency_key TEXT UNIQUE,
      expiring_within INTEGER NOT NULL CHECK (expiring_within >= 0),
      horizon INTEGER NOT NULL,
      item_limit INTEGER NOT NULL CHECK (item_limit >= 1),
      state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'stopped')),
      stop_reason TEXT CHECK ((state = 'stopped') = (stop_reason IS NOT NULL)),
      started_at INTEGER NOT NULL,
      finished_at INTEGER CHECK ((state = 'running') = (finished_at IS NULL)),
      due INTEGER NOT NULL,
      done INTEGER NOT NULL CHECK (done >= 0),
      changed INTEGER NOT NULL CHECK (changed BETWEEN 0 AND done),
      failed INTEGER NOT NULL CHECK (failed >= 0),
      held_back INTEGER NOT NULL CHECK (held_back >= 0),
      CHECK (done + failed + held_back <= due)
    ) STRICT;
    CREATE UNIQUE INDEX run_running ON run (state) WHERE state = 'running';

    -- What is left of a run, in the order in which it is done. due_at is zero until somebody has claimed it or tried it in
    -- vain. A number is never given again: one who comes late with a claim must not settle another run's.
    CREATE TABLE run_item (
      id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      run_id INTEGER NOT NULL REFERENCES run (id) ON UPDATE RESTRICT ON DELETE CASCADE,
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      due_at INTEGER NOT NULL,
      UNIQUE (run_id, environment, original_transaction_id)
    ) STRICT;
    CREATE INDEX run_item_due_at ON run_item (run_id, due_at, id);

    -- A run takes what is scheduled, whoever has claimed it.
    CREATE INDEX recheck_scheduled_at ON recheck (scheduled_at, environment, original_transaction_id);
    """
}
