extension LedgerSchema {
  /// Migration 0026. The IDs of events that apps report.
  static let reportedEvents = """
    -- An event of the user's under the same ID is the same one. The ID stands in the event, which may name somebody: here is a
    -- digest of it. A row goes when its event is old.
    CREATE TABLE reported_event (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      id_sha256 BLOB NOT NULL CHECK (length(id_sha256) = 32),
      recorded_at INTEGER NOT NULL,
      PRIMARY KEY (user_id, id_sha256)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX reported_event_recorded_at ON reported_event (recorded_at);
    """
}
