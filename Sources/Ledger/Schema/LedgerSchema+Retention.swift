extension LedgerSchema {
  /// Migration 0022. What retention has taken out of the history, accounted for.
  ///
  /// The history stays append-only but for one thing: an event may go once a row of `thinned` stands for it, and a note on a
  /// change once no event names it. Such a row only grows, and never goes.
  static let retention = """
    -- Stretches of events of a user that followed one another and are gone. newest is what the event after it names as the
    -- one before; previous is the event before its oldest. verdicts: those among the events, whose versions are gone too.
    -- digest: SHA-256 over the events, the oldest first; see `LedgerTables.digest`.
    CREATE TABLE thinned (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      newest INTEGER NOT NULL,
      oldest INTEGER NOT NULL CHECK (oldest <= newest),
      previous INTEGER CHECK (previous < oldest),
      events INTEGER NOT NULL CHECK (events >= 1),
      verdicts INTEGER NOT NULL CHECK (verdicts >= 0 AND verdicts <= events),
      first_at INTEGER NOT NULL,
      last_at INTEGER NOT NULL,
      digest BLOB NOT NULL CHECK (length(digest) = 32),
      PRIMARY KEY (user_id, newest)
    ) STRICT, WITHOUT ROWID;
    CREATE TRIGGER thinned_only_grows BEFORE UPDATE ON thinned
      WHEN NEW.oldest <> OLD.oldest OR NEW.previous IS NOT OLD.previous OR NEW.first_at <> OLD.first_at
        OR NEW.newest < OLD.newest OR NEW.events < OLD.events OR NEW.verdicts < OLD.verdicts
      BEGIN SELECT RAISE(ABORT, 'thinned only grows'); END;
    CREATE TRIGGER thinned_no_delete BEFORE DELETE ON thinned
      BEGIN SELECT RAISE(ABORT, 'thinned only grows'); END;
    -- Notes are rare, and so are the rows of this index.
    CREATE INDEX event_note ON event (note) WHERE note IS NOT NULL;
    DROP TRIGGER event_no_delete;
    CREATE TRIGGER event_no_delete BEFORE DELETE ON event
      WHEN NOT iif(OLD.user_id IS NULL,
        NOT EXISTS (SELECT 1 FROM event WHERE note = OLD.sequence),
        EXISTS (SELECT 1 FROM thinned
          WHERE user_id = OLD.user_id AND newest >= OLD.sequence AND oldest <= OLD.sequence))
      BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;
    """
}
