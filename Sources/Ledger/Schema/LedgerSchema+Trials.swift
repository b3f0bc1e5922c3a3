extension LedgerSchema {
  /// Migration 0012. Trials, and the devices on which they were begun.
  static let trials = """
    -- Each trial that was ever begun. Its period is a row of given_period. IDs of devices are UUIDs in small letters.
    -- sessions_total NULL: only its time ends it. bit_owed: Apple has not been told yet that the device had a trial.
    CREATE TABLE trial (
      id INTEGER NOT NULL PRIMARY KEY,
      name TEXT NOT NULL CHECK (name <> ''),
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      device_id TEXT NOT NULL CHECK (device_id <> ''),
      sessions_total INTEGER CHECK (sessions_total >= 1),
      sessions_used INTEGER NOT NULL CHECK (sessions_used >= 0),
      bit_owed INTEGER NOT NULL CHECK (bit_owed IN (0, 1))
    ) STRICT;
    CREATE INDEX trial_user_id ON trial (user_id, id);
    CREATE INDEX trial_device_id ON trial (device_id, id);

    -- Each session of a trial that had an idempotency key.
    CREATE TABLE trial_session (
      trial_id INTEGER NOT NULL,
      idempotency_key TEXT NOT NULL CHECK (idempotency_key <> ''),
      PRIMARY KEY (trial_id, idempotency_key)
    ) STRICT, WITHOUT ROWID;

    -- The devices of each user, as their app names them. trial_id: the trial of the user's of which it used a session.
    CREATE TABLE device (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      device_id TEXT NOT NULL CHECK (device_id <> ''),
      model TEXT,
      ios_version TEXT,
      app_version TEXT,
      push_token TEXT,
      trial_id INTEGER,
      first_seen_at INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL,
      PRIMARY KEY (user_id, device_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX device_trial ON device (device_id, trial_id) WHERE trial_id IS NOT NULL;
    CREATE INDEX device_last_seen_at ON device (user_id, last_seen_at);
    """
}
