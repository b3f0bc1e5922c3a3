extension LedgerSchema {
  /// Migration 0007. Each record pays for every B-tree that it touches: one page of the log for most of them.
  ///
  /// - `profile_access_until`: no query uses it.
  /// - `history_user_id_sequence`: a user's versions grow with the sequence, and are indexed already.
  /// - `subscription_original_transaction_id`: there are two stores, so the primary key is queried twice.
  /// - `ownership_change_from_user_id`: most changes are the first claim of a purchase, without a former owner.
  /// - `profile_update_waiting_since`, `profile_update_missing`: the index of due updates covers waiting and missing
  ///   rows.
  /// - `recheck` is stored in its primary key. `profile_update` is not: its rows are rewritten soon after delivery, and
  ///   rows of new users, which are adjacent by row ID, then share a page of the log.
  ///
  /// The one table that is copied has no foreign keys pointing to it. The large ones stay as they are: copying a
  /// history of millions would delay the start by minutes.
  static let fewerTrees = """
    DROP INDEX profile_access_until;
    DROP INDEX history_user_id_sequence;
    DROP INDEX subscription_original_transaction_id;
    DROP INDEX ownership_change_from_user_id;
    CREATE INDEX ownership_change_from_user_id ON ownership_change (from_user_id, sequence)
      WHERE from_user_id IS NOT NULL;

    DROP INDEX profile_update_waiting_since;
    DROP INDEX profile_update_missing;
    DROP INDEX profile_update_due_at;
    -- With what the count of the backlog asks for, so that it reads no rows.
    CREATE INDEX profile_update_due_at ON profile_update (due_at, waiting_since, user_id, state, problem_at)
      WHERE state <> 'written';

    -- When a subscription has to be asked about again. scheduled_at is what its state asks for; due_at is that, spread, or
    -- later while somebody has claimed it.
    CREATE TABLE new_recheck (
      environment TEXT NOT NULL,
      original_transaction_id TEXT NOT NULL,
      scheduled_at INTEGER NOT NULL,
      due_at INTEGER NOT NULL,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      PRIMARY KEY (environment, original_transaction_id),
      FOREIGN KEY (environment, original_transaction_id)
        REFERENCES subscription (environment, original_transaction_id) ON UPDATE RESTRICT ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    INSERT INTO new_recheck (environment, original_transaction_id, scheduled_at, due_at, attempts)
      SELECT environment, original_transaction_id, scheduled_at, due_at, attempts
      FROM recheck ORDER BY environment, original_transaction_id;
    DROP TABLE recheck;
    ALTER TABLE new_recheck RENAME TO recheck;
    CREATE INDEX recheck_due_at ON recheck (due_at, scheduled_at);
    -- A run takes what is scheduled, whoever has claimed it.
    CREATE INDEX recheck_scheduled_at ON recheck (scheduled_at, environment, original_transaction_id);
    """
}
