extension LedgerSchema {
  /// Migration 0010. Five tables take the place of seven and their nineteen B-trees; `LedgerUpgrade` fills them, and
  /// then drops the former ones.
  ///
  ///     account 1 ──── * purchase * ──── 1 proof
  ///        │ 0…1            │
  ///        └──── outbox     └── event.purchase_id
  ///        └── newest ─► event ─ previous ─► event ─ previous ─► …
  ///
  /// What is large is appended, and what changes is small: a receipt writes one row per table, and of these only the
  /// account and the index of purchases lie in random places. Foreign keys would cost a look-up per row in tables that
  /// only the operations here write; `ledger verify` checks what they would hold.
  static let lean = """
    -- The state of each user. `key` is the user's ID, a UUID in small letters; spelling is the ID as first given, if it
    -- differs. newest is the last event of the user, verdict the last verdict; the columns after it are copies of its
    -- parts. NULL: there is no verdict yet. row_version is the version of the app's row.
    CREATE TABLE account (
      key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
      spelling TEXT CHECK (spelling <> key),
      version INTEGER NOT NULL CHECK (version >= 0),
      newest INTEGER NOT NULL,
      verdict INTEGER CHECK ((verdict IS NULL) = (version = 0)),
      tier TEXT CHECK ((tier IS NULL) = (version = 0) AND tier <> ''),
      status TEXT CHECK ((status IS NULL) = (version = 0) AND status IN ('active', 'cancelled', 'grace_period', 'expired')),
      product_id TEXT,
      access_until INTEGER,
      is_for_life INTEGER NOT NULL CHECK (is_for_life IN (0, 1)),
      row_version INTEGER NOT NULL CHECK (row_version >= 0),
      -- The IDs of the user's purchases, a JSON array.
      purchases TEXT NOT NULL CHECK (json_type(purchases) = 'array'),
      -- The user's given periods that are not over, a JSON array: copies of rows of given_period. NULL: none.
      given TEXT CHECK (iif(given IS NULL, 1, json_type(given) = 'array')),
      first_seen_at INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- The newest evidence of each purchase. The owner is a column of it, the account's key: two owners cannot be written
    -- down. scheduled_at is when Apple has to be asked again; due_at is that, spread, or later after a claim; attempts counts claims.
    CREATE TABLE purchase (
      id INTEGER NOT NULL PRIMARY KEY,
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      claim TEXT NOT NULL CHECK (claim IN ('proof', 'account_token')),
      proof_id INTEGER NOT NULL,
      source TEXT NOT NULL CHECK (source IN ('verify_receipt', 'server_api', 'signature', 'notification')),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      account_gone INTEGER NOT NULL CHECK (account_gone IN (0, 1)),
      evidence TEXT NOT NULL CHECK (json_valid(evidence)),
      -- When renewal was first seen to be off, and when billing first failed; NULL again when that is over.
      renewal_off_at INTEGER,
      billing_failed_at INTEGER,
      scheduled_at INTEGER,
      due_at INTEGER CHECK ((due_at IS NULL) = (scheduled_at IS NULL)),
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      UNIQUE (environment, original_transaction_id)
    ) STRICT;
    CREATE INDEX purchase_due_at ON purchase (due_at, scheduled_at) WHERE due_at IS NOT NULL;
    CREATE INDEX purchase_unscheduled ON purchase (id) WHERE due_at IS NULL;
    -- What has been claimed and is not settled: elsewhere due_at follows from scheduled_at.
    CREATE INDEX purchase_claimed ON purchase (scheduled_at) WHERE attempts > 0;

    -- What the newest evidence of a purchase was had with: a receipt (its bytes), or a signed transaction (its text).
    -- uses: purchases that name it.
    CREATE TABLE proof (
      id INTEGER NOT NULL PRIMARY KEY,
      sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      bundle_id TEXT NOT NULL CHECK (bundle_id <> ''),
      is_text INTEGER NOT NULL CHECK (is_text IN (0, 1)),
      content BLOB NOT NULL CHECK (length(content) > 0),
      recorded_at INTEGER NOT NULL,
      uses INTEGER NOT NULL CHECK (uses >= 1)
    ) STRICT;

    -- What happened, for ever: each event once, chained to the one before of the same user.
    CREATE TABLE event (
      sequence INTEGER NOT NULL PRIMARY KEY,
      -- The account's key. NULL: a note on a change of owner, which names it.
      user_id TEXT CHECK (user_id <> ''),
      previous INTEGER CHECK (previous < sequence),
      kind TEXT NOT NULL CHECK (kind IN ('verdict', 'gained', 'lost', 'note')),
      recorded_at INTEGER NOT NULL,
      request_id TEXT NOT NULL,
      -- The note that is the reason.
      note INTEGER CHECK (note < sequence),
      -- A verdict. The receipt is named by its digest, so that it can go while its trace stays.
      version INTEGER CHECK ((version IS NULL) = (kind <> 'verdict') AND version >= 1),
      changed INTEGER CHECK ((changed IS NULL) = (kind <> 'verdict') AND changed IN (0, 1)),
      -- NULL for a user of whom there is no receipt: a period was given.
      receipt_sha256 BLOB CHECK (iif(receipt_sha256 IS NULL, 1, kind = 'verdict' AND length(receipt_sha256) = 32)),
      evidence_at INTEGER,
      entitlement TEXT CHECK (iif(kind = 'verdict', json_valid(entitlement), entitlement IS NULL)),
      -- A change of owner: of what, and the other user, if there is one.
      purchase_id INTEGER CHECK ((purchase_id IS NULL) = (kind NOT IN ('gained', 'lost'))),
      other_user_id TEXT CHECK (other_user_id <> user_id),
      -- A note.
      author TEXT CHECK ((author IS NULL) = (kind <> 'note') AND author <> ''),
      text TEXT CHECK ((text IS NULL) = (kind <> 'note') AND text <> ''),
      CHECK (kind <> 'lost' OR other_user_id IS NOT NULL),
      CHECK (user_id IS NOT NULL OR kind = 'note')
    ) STRICT;
    CREATE INDEX event_gained ON event (purchase_id, recorded_at, sequence) WHERE kind = 'gained';
    CREATE TRIGGER event_no_update BEFORE UPDATE ON event
      BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;
    CREATE TRIGGER event_no_delete BEFORE DELETE ON event
      BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;
    -- INSERT OR REPLACE deletes without firing delete triggers.
    CREATE TRIGGER event_no_replace BEFORE INSERT ON event
      WHEN EXISTS (SELECT 1 FROM event WHERE sequence = NEW.sequence)
      BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;

    -- The app's rows that have to be written: of each user the newest verdict. due_at is zero until somebody has claimed it
    -- or tried it in vain. is_doubtful: an older write may still be carried out; a row that was written in spite of that is
    -- confirming: written again later.
    CREATE TABLE outbox (
      key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
      version INTEGER NOT NULL CHECK (version >= 1),
      state TEXT NOT NULL CHECK (state IN ('waiting', 'confirming', 'missing')),
      is_doubtful INTEGER NOT NULL CHECK (is_doubtful IN (0, 1)),
      waiting_since INTEGER NOT NULL,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      due_at INTEGER NOT NULL,
      problem TEXT,
      problem_at INTEGER
    ) STRICT, WITHOUT ROWID;
    -- With what the count of the backlog asks for, so that it reads no rows.
    CREATE INDEX outbox_due_at ON outbox (due_at, waiting_since, key, state, problem_at);

    -- Access that was given and not bought: grants and trials. ended_at: it was ended early.
    CREATE TABLE given_period (
      id INTEGER NOT NULL PRIMARY KEY,
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      kind TEXT NOT NULL CHECK (kind IN ('support', 'promotion', 'tester', 'migration', 'trial')),
      tier TEXT NOT NULL CHECK (tier <> ''),
      starts_at INTEGER NOT NULL,
      ends_at INTEGER NOT NULL CHECK (ends_at >= starts_at),
      ended_at INTEGER,
      author TEXT NOT NULL CHECK (author <> ''),
      text TEXT,
      request_id TEXT NOT NULL,
      recorded_at INTEGER NOT NULL,
      -- Whether the verdict without it was recorded.
      is_over INTEGER NOT NULL CHECK (is_over IN (0, 1)),
      idempotency_key TEXT CHECK (idempotency_key <> '')
    ) STRICT;
    CREATE INDEX given_period_user_id ON given_period (user_id);
    CREATE UNIQUE INDEX given_period_key ON given_period (user_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
    CREATE INDEX given_period_ends_at ON given_period (ends_at) WHERE is_over = 0;

    -- How many users a product gives access, so that nothing has to count them.
    CREATE TABLE access_count (
      tier TEXT NOT NULL,
      product_id TEXT NOT NULL,
      is_for_life INTEGER NOT NULL CHECK (is_for_life IN (0, 1)),
      users INTEGER NOT NULL CHECK (users >= 0),
      PRIMARY KEY (tier, product_id, is_for_life)
    ) STRICT, WITHOUT ROWID;

    -- For `LedgerUpgrade`: which event each former note became.
    CREATE TABLE upgraded_note (
      sequence INTEGER NOT NULL PRIMARY KEY,
      event INTEGER NOT NULL
    ) STRICT;
    """

  /// The last step of the upgrade: the former tables, emptied into the new ones.
  static let formerTables = [
    "recheck", "profile_update", "ownership_change", "history", "subscription", "receipt", "profile", "note",
  ]
}
