extension LedgerSchema {
  /// Migration 0019. What the erasure of a user needs.
  ///
  /// The history stays append-only but for one thing: while a memo says that a user is being erased, names and free
  /// texts of an event may change, and nothing else of it. The memo lives inside the erasure's transaction only.
  ///
  /// Each index has rows for few events: for the first owner of a purchase there is no other user, and notes are rare.
  static let erasure = """
    DROP TRIGGER event_no_update;
    CREATE TRIGGER event_no_update BEFORE UPDATE ON event
      WHEN NOT EXISTS (SELECT 1 FROM memo WHERE name = 'erasing')
        OR NEW.sequence IS NOT OLD.sequence OR NEW.previous IS NOT OLD.previous OR NEW.kind IS NOT OLD.kind
        OR NEW.recorded_at IS NOT OLD.recorded_at OR NEW.note IS NOT OLD.note OR NEW.version IS NOT OLD.version
        OR NEW.changed IS NOT OLD.changed OR NEW.evidence_at IS NOT OLD.evidence_at
        OR NEW.entitlement IS NOT OLD.entitlement OR NEW.purchase_id IS NOT OLD.purchase_id
        OR NEW.author IS NOT OLD.author
      BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;
    CREATE INDEX event_other_user_id ON event (other_user_id) WHERE other_user_id IS NOT NULL;
    CREATE INDEX event_noted ON event (kind) WHERE kind = 'note';
    CREATE INDEX store_transfer_to_user_id ON store_transfer (to_user_id);

    -- Of an erased user, who has no account: the verdict for the app's row, and how the row's ID is written, if that
    -- differs from the key.
    ALTER TABLE outbox ADD COLUMN reset TEXT CHECK (iif(reset IS NULL, 1, json_valid(reset)));
    ALTER TABLE outbox ADD COLUMN reset_spelling TEXT CHECK (reset_spelling <> key);
    """
}
