extension LedgerSchema {
  /// Migration 0028. Devices that follow others, and the list of trials that run.
  static let devices = """
    -- The app that runs there (its bundle ID); NULL: not known. trial_id may be the trial of the device before this one, whose
    -- push token it has.
    ALTER TABLE device ADD COLUMN app TEXT;
    CREATE INDEX device_push_token ON device (push_token, last_seen_at) WHERE push_token IS NOT NULL;
    CREATE INDEX given_period_trial ON given_period (id) WHERE kind = 'trial' AND is_over = 0;
    """
}
