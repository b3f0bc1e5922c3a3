internal import GRDB

/// The ledger's tables. A migration, once shipped, is never edited: a change is a new one below the last.
///
///     account 1 ──── * purchase * ──── 1 proof * ──── 0…1 proof_frame
///        │ 1 ──── 0…1 outbox
///        └─► event ─► event ─► …  (each names the one before)    thinned  (in the place of those that are gone)
///     pending_receipt 1 ──── * provisional_grant    pending_total    memo    heartbeat    access_count
///     run 1 ──── * run_item
///     notification    refused_notification    unclaimed_evidence
///     consumption    feature_total    user_time_zone
///     trial 1 ──── 1 given_period    trial_session    device
///     account 1 ──── * store_purchase    store_report    store_transfer
///     event 1 ──── * change_event    account 1 ──── 0…1 covered_verdict    told_refusal    reported_event    reported_bytes
///     webhook 1 ──── * webhook_delivery * ──── 1 change_event
///     figure_due    counted_purchase    figure    figure_cohort    tally_change    tally    product_period
///     user_progress    near_limit    past_evidence
///     exposure * ──── 0…1 counted_exposure    exposure_due    variant_figure
///
/// Times are milliseconds since 1970 (UTC). JSON columns are the forms of `StoredForm`.
enum LedgerSchema {
  static var migrator: DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("0001 verdicts") { db in try db.execute(sql: verdicts) }
    migrator.registerMigration("0002 pending receipts") { db in try db.execute(sql: pendingReceipts) }
    migrator.registerMigration("0003 updates, grants, rechecks") { db in try db.execute(sql: updates) }
    migrator.registerMigration("0004 runs") { db in try db.execute(sql: runs) }
    migrator.registerMigration("0005 notes") { db in try db.execute(sql: notes) }
    migrator.registerMigration("0006 notifications") { db in try db.execute(sql: notifications) }
    // Foreign keys are checked per copied row; GRDB would otherwise check every table, the history included.
    migrator.registerMigration("0007 fewer trees", foreignKeyChecks: .immediate) { db in
      try db.execute(sql: fewerTrees)
    }
    migrator.registerMigration("0008 pending total", foreignKeyChecks: .immediate) { db in
      try db.execute(sql: pendingTotal)
    }
    migrator.registerMigration("0009 refused by whom") { db in try db.execute(sql: refusedKinds) }
    // Rows are moved by `LedgerUpgrade`.
    migrator.registerMigration("0010 lean", foreignKeyChecks: .immediate) { db in try db.execute(sql: lean) }
    migrator.registerMigration("0011 usage", foreignKeyChecks: .immediate) { db in try db.execute(sql: usage) }
    migrator.registerMigration("0012 trials", foreignKeyChecks: .immediate) { db in try db.execute(sql: trials) }
    migrator.registerMigration("0013 revenuecat", foreignKeyChecks: .immediate) { db in
      try db.execute(sql: revenueCat)
    }
    migrator.registerMigration("0014 customers", foreignKeyChecks: .immediate) { db in try db.execute(sql: customers) }
    // No table changes: the evidence says what a transaction was sold for, which a release of before cannot read.
    migrator.registerMigration("0015 sales", foreignKeyChecks: .immediate) { _ in }
    migrator.registerMigration("0017 changes", foreignKeyChecks: .immediate) { db in try db.execute(sql: changes) }
    migrator.registerMigration("0018 webhooks", foreignKeyChecks: .immediate) { db in try db.execute(sql: webhooks) }
    migrator.registerMigration("0019 erasure", foreignKeyChecks: .immediate) { db in try db.execute(sql: erasure) }
    migrator.registerMigration("0020 figures", foreignKeyChecks: .immediate) { db in try db.execute(sql: figures) }
    migrator.registerMigration("0021 experiments", foreignKeyChecks: .immediate) { db in
      try db.execute(sql: experiments)
    }
    migrator.registerMigration("0022 retention", foreignKeyChecks: .immediate) { db in try db.execute(sql: retention) }
    migrator.registerMigration("0023 tallies", foreignKeyChecks: .immediate) { db in try db.execute(sql: tallies) }
    migrator.registerMigration("0024 progress", foreignKeyChecks: .immediate) { db in try db.execute(sql: progress) }
    migrator.registerMigration("0025 existing", foreignKeyChecks: .immediate) { db in try db.execute(sql: existing) }
    migrator.registerMigration("0026 reported events", foreignKeyChecks: .immediate) { db in
      try db.execute(sql: reportedEvents)
    }
    migrator.registerMigration("0027 frames", foreignKeyChecks: .immediate) { db in try db.execute(sql: frames) }
    migrator.registerMigration("0028 devices", foreignKeyChecks: .immediate) { db in try db.execute(sql: devices) }
    migrator.registerMigration("0029 bounds", foreignKeyChecks: .immediate) { db in try db.execute(sql: bounds) }
    return migrator
  }

  private static let notes = """
    -- What people said who had Apple asked anew about a user, or handed a purchase to another one (then user_id is NULL, and
    -- the change of owner tells of it).
    CREATE TABLE note (
      sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      user_id TEXT CHECK (user_id <> ''),
      author TEXT NOT NULL CHECK (author <> ''),
      text TEXT NOT NULL CHECK (text <> ''),
      recorded_at INTEGER NOT NULL,
      request_id TEXT NOT NULL
    ) STRICT;
    CREATE INDEX note_user_id ON note (user_id, sequence);
    CREATE TRIGGER note_no_update BEFORE UPDATE ON note
      BEGIN SELECT RAISE(ABORT, 'note is append-only'); END;
    CREATE TRIGGER note_no_delete BEFORE DELETE ON note
      BEGIN SELECT RAISE(ABORT, 'note is append-only'); END;
    CREATE TRIGGER note_no_replace BEFORE INSERT ON note
      WHEN EXISTS (SELECT 1 FROM note WHERE sequence = NEW.sequence)
      BEGIN SELECT RAISE(ABORT, 'note is append-only'); END;
    ALTER TABLE history ADD COLUMN note_sequence INTEGER REFERENCES note (sequence);
    ALTER TABLE ownership_change ADD COLUMN note_sequence INTEGER REFERENCES note (sequence);
    -- A user's timeline has the purchases that came and those that went.
    CREATE INDEX ownership_change_from_user_id ON ownership_change (from_user_id, sequence);
    CREATE INDEX ownership_change_to_user_id ON ownership_change (to_user_id, sequence);
    """

  private static let updates = """
    -- What each user's row at the app's own store has to be told: the newest verdict, which is in profile. due_at is zero
    -- until somebody has claimed it or tried it in vain. is_doubtful: an older write may still be carried out; a row that
    -- was written in spite of that is confirming: written again later.
    CREATE TABLE profile_update (
      user_id TEXT NOT NULL PRIMARY KEY REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE CASCADE,
      version INTEGER NOT NULL CHECK (version >= 1),
      state TEXT NOT NULL CHECK (state IN ('waiting', 'confirming', 'written', 'missing')),
      is_doubtful INTEGER NOT NULL CHECK (is_doubtful IN (0, 1)),
      waiting_since INTEGER NOT NULL,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      due_at INTEGER NOT NULL,
      problem TEXT,
      problem_at INTEGER
    ) STRICT;
    CREATE INDEX profile_update_due_at ON profile_update (due_at, waiting_since, user_id) WHERE state <> 'written';
    CREATE INDEX profile_update_waiting_since ON profile_update (waiting_since) WHERE state = 'waiting';
    CREATE INDEX profile_update_missing ON profile_update (user_id) WHERE state = 'missing';
    INSERT INTO profile_update (user_id, version, state, is_doubtful, waiting_since, attempts, due_at)
      SELECT user_id,
             max(version, coalesce((SELECT max(evidence_at) FROM history WHERE history.user_id = profile.user_id), 0)),
             'waiting', 0, recorded_at, 0, 0
      FROM profile;

    -- Purchases that count, for a while, on their signature alone. The first user who presents one has it. A grant whose
    -- time is over stays until its receipt is settled, so that none is given on the purchase again.
    CREATE TABLE provisional_grant (
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      pending_receipt_id INTEGER NOT NULL REFERENCES pending_receipt (id) ON UPDATE RESTRICT ON DELETE CASCADE,
      source TEXT NOT NULL CHECK (source IN ('verify_receipt', 'server_api', 'signature', 'notification')),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      until INTEGER NOT NULL,
      is_over INTEGER NOT NULL CHECK (is_over IN (0, 1)),
      evidence TEXT NOT NULL CHECK (json_valid(evidence)),
      PRIMARY KEY (environment, original_transaction_id)
    ) STRICT;
    CREATE INDEX provisional_grant_user_id ON provisional_grant (user_id);
    CREATE INDEX provisional_grant_pending_receipt_id ON provisional_grant (pending_receipt_id);
    CREATE INDEX provisional_grant_until ON provisional_grant (until) WHERE is_over = 0;

    -- When a subscription has to be asked about again. scheduled_at is what its state asks for; due_at is that, spread, or
    -- later while somebody has claimed it.
    CREATE TABLE recheck (
      environment TEXT NOT NULL,
      original_transaction_id TEXT NOT NULL,
      scheduled_at INTEGER NOT NULL,
      due_at INTEGER NOT NULL,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      PRIMARY KEY (environment, original_transaction_id),
      FOREIGN KEY (environment, original_transaction_id)
        REFERENCES subscription (environment, original_transaction_id) ON UPDATE RESTRICT ON DELETE CASCADE
    ) STRICT;
    CREATE INDEX recheck_due_at ON recheck (due_at);
    -- Subscriptions of before: each is asked about when its present state ends; the answer says when again.
    INSERT INTO recheck (environment, original_transaction_id, scheduled_at, due_at, attempts)
      SELECT environment, original_transaction_id, access_until, access_until, 0
      FROM subscription JOIN profile USING (user_id) WHERE access_until IS NOT NULL;

    CREATE TABLE memo (
      name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
      text TEXT NOT NULL
    ) STRICT;
    """

  private static let pendingReceipts = """
    -- Acknowledged before Apple could be asked; a row goes when there is a verdict.
    CREATE TABLE pending_receipt (
      id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
      base64 TEXT NOT NULL CHECK (base64 <> ''),
      request_id TEXT NOT NULL,
      received_at INTEGER NOT NULL,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      due_at INTEGER NOT NULL,
      UNIQUE (user_id, sha256)
    ) STRICT;
    CREATE INDEX pending_receipt_due_at ON pending_receipt (due_at, id);
    -- To learn whether a receipt was judged before without reading a user's whole history.
    CREATE INDEX history_user_id_receipt ON history (user_id, receipt_sha256);
    """

  private static let verdicts = """
    -- The verdict on each user; the columns beside the JSON are copies of its parts, for queries.
    CREATE TABLE profile (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      version INTEGER NOT NULL CHECK (version >= 1),
      tier TEXT NOT NULL CHECK (tier <> ''),
      status TEXT NOT NULL CHECK (status IN ('active', 'cancelled', 'grace_period', 'expired')),
      access_until INTEGER,
      expires_at INTEGER,
      entitlement TEXT NOT NULL CHECK (json_valid(entitlement)),
      recorded_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX profile_access_until ON profile (access_until) WHERE access_until IS NOT NULL;

    -- Receipts that the newest evidence of a subscription came from; others are not kept.
    CREATE TABLE receipt (
      id INTEGER NOT NULL PRIMARY KEY,
      sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
      base64 TEXT NOT NULL CHECK (base64 <> ''),
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      bundle_id TEXT NOT NULL CHECK (bundle_id <> ''),
      first_seen_at INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL,
      UNIQUE (sha256, environment, bundle_id)
    ) STRICT;

    -- The newest evidence of each subscription. The owner is a column of it: two owners cannot be written down.
    CREATE TABLE subscription (
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      user_id TEXT NOT NULL REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE RESTRICT,
      receipt_id INTEGER NOT NULL REFERENCES receipt (id) ON UPDATE RESTRICT ON DELETE RESTRICT,
      source TEXT NOT NULL CHECK (source IN ('verify_receipt', 'server_api', 'signature', 'notification')),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      account_gone INTEGER NOT NULL CHECK (account_gone IN (0, 1)),
      evidence TEXT NOT NULL CHECK (json_valid(evidence)),
      PRIMARY KEY (environment, original_transaction_id)
    ) STRICT;
    CREATE INDEX subscription_user_id ON subscription (user_id);
    CREATE INDEX subscription_original_transaction_id ON subscription (original_transaction_id);
    CREATE INDEX subscription_receipt_id ON subscription (receipt_id);

    -- Every verdict, for ever. The receipt is named by its digest, so that it can go while its trace stays.
    CREATE TABLE history (
      sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      user_id TEXT NOT NULL REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE RESTRICT,
      version INTEGER NOT NULL CHECK (version >= 1),
      recorded_at INTEGER NOT NULL,
      request_id TEXT NOT NULL,
      changed INTEGER NOT NULL CHECK (changed IN (0, 1)),
      entitlement TEXT NOT NULL CHECK (json_valid(entitlement)),
      receipt_sha256 BLOB NOT NULL CHECK (length(receipt_sha256) = 32),
      evidence_at INTEGER,
      UNIQUE (user_id, version)
    ) STRICT;
    CREATE INDEX history_user_id_sequence ON history (user_id, sequence);

    -- Who came to own a subscription, and from whom; NULL for the first owner.
    CREATE TABLE ownership_change (
      sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      environment TEXT NOT NULL,
      original_transaction_id TEXT NOT NULL,
      from_user_id TEXT REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE RESTRICT,
      to_user_id TEXT NOT NULL REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE RESTRICT,
      recorded_at INTEGER NOT NULL,
      request_id TEXT NOT NULL,
      CHECK (from_user_id IS NOT to_user_id),
      FOREIGN KEY (environment, original_transaction_id)
        REFERENCES subscription (environment, original_transaction_id) ON UPDATE RESTRICT ON DELETE RESTRICT
    ) STRICT;
    CREATE INDEX ownership_change_key ON ownership_change (environment, original_transaction_id, sequence);

    -- Written by the readiness check, to learn whether writing works.
    CREATE TABLE heartbeat (
      id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
      beats INTEGER NOT NULL
    ) STRICT;
    INSERT INTO heartbeat (id, beats) VALUES (1, 0);

    -- Append-only means that not even this service can rewrite the past. INSERT OR REPLACE deletes without firing delete
    -- triggers, hence the ones before INSERT.
    CREATE TRIGGER history_no_update BEFORE UPDATE ON history
      BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
    CREATE TRIGGER history_no_delete BEFORE DELETE ON history
      BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
    CREATE TRIGGER history_no_replace BEFORE INSERT ON history
      WHEN EXISTS (SELECT 1 FROM history WHERE sequence = NEW.sequence)
        OR EXISTS (SELECT 1 FROM history WHERE user_id = NEW.user_id AND version = NEW.version)
      BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
    CREATE TRIGGER ownership_change_no_update BEFORE UPDATE ON ownership_change
      BEGIN SELECT RAISE(ABORT, 'ownership_change is append-only'); END;
    CREATE TRIGGER ownership_change_no_delete BEFORE DELETE ON ownership_change
      BEGIN SELECT RAISE(ABORT, 'ownership_change is append-only'); END;
    CREATE TRIGGER ownership_change_no_replace BEFORE INSERT ON ownership_change
      WHEN EXISTS (SELECT 1 FROM ownership_change WHERE sequence = NEW.sequence)
      BEGIN SELECT RAISE(ABORT, 'ownership_change is append-only'); END;
    """
}
