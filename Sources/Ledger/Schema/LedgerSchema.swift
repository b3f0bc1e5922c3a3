/// The ledger's tables.
///
/// A migration is never edited once a release has it: a change is another one below the last. SQLite is read from the migrations'
/// own words; PostgreSQL's are translated from them (`PostgreSQLSchema`).
///
///     account 1 ──── * purchase * ──── 1 proof * ──── 0…1 proof_frame        purchase 1 ──── 0…1 past_evidence
///        │ 1 ──── 0…1 outbox
///        └─► event ─► event ─► …  (each names the one before)    thinned  (in the place of deleted ones)
///     pending_receipt 1 ──── * provisional_grant        run 1 ──── * run_item        trial 1 ──── 1 given_period
///     account 1 ──── * revenuecat_purchase              webhook 1 ──── * webhook_delivery * ──── 1 change_event
///
/// Times are milliseconds since 1970 (UTC). JSON columns are the forms of `StoredForm`. Foreign keys would cost a lookup per row
/// in tables that this target alone writes: `ledger verify` checks what they would hold.
/// A check of a word that each receipt writes compares it with each word that is allowed: for an IN of more than two, SQLite
/// makes and drops a table at each run.
struct LedgerSchema: Sendable {
  struct Migration: Sendable {
    /// Sorts after those before it.
    var identifier: String
    var sql: String
    /// PostgreSQL's statements beside the tables and indexes that `sql` adds: altered tables, views, triggers, rows.
    var postgreSQL = ""
  }

  var migrations: [Migration]

  static let present = LedgerSchema(migrations: [
    Migration(
      identifier: "0001", sql: [service, users, purchases, access, changes, figures].joined(separator: "\n"),
      postgreSQL: PostgreSQLSchema.firstAdditions)
  ])

  // MARK: Migrating a file

  /// Brings a file to this schema. Each migration that it lacks is a transaction of its own, in which foreign keys hold.
  func migrate(_ connection: SQLiteConnection) throws {
    let applied = try Self.applied(in: connection)
    for migration in migrations where !applied.contains(migration.identifier) {
      try connection.write {
        // Another process may have been faster.
        guard try !Self.applied(in: connection).contains(migration.identifier) else { return }
        try connection.run("CREATE TABLE IF NOT EXISTS ledger_migration (identifier TEXT NOT NULL PRIMARY KEY) STRICT")
        try connection.run(migration.sql)
        try connection.execute("INSERT INTO ledger_migration (identifier) VALUES (?)", migration.identifier)
      }
    }
  }

  /// Whether a file has all migrations of this schema.
  func isComplete(in connection: SQLiteConnection) throws -> Bool {
    try Self.applied(in: connection).isSuperset(of: migrations.map(\.identifier))
  }

  /// Whether a newer version of the service has migrated a file.
  func isSuperseded(in connection: SQLiteConnection) throws -> Bool {
    try !Self.applied(in: connection).isSubset(of: migrations.map(\.identifier))
  }

  private static func applied(in connection: SQLiteConnection) throws -> Set<String> {
    guard try connection.hasTable("ledger_migration") else { return [] }
    return Set(try connection.rows(of: "SELECT identifier FROM ledger_migration") { try $0.get(0) })
  }

  // MARK: The service itself

  private static let service = """
    -- Written by the readiness check, to prove that writing works.
    CREATE TABLE heartbeat (
      id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
      beats INTEGER NOT NULL
    ) STRICT;
    INSERT INTO heartbeat (id, beats) VALUES (1, 0);

    -- Notes of the service to itself.
    CREATE TABLE memo (
      name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
      text TEXT NOT NULL
    ) STRICT;
    """

  // MARK: Users, and their history

  private static let users = """
    -- The state of each user. key: the user's ID, a UUID in small letters. spelling: the ID as first given, where it
    -- differs. newest: the user's last event. verdict: the last verdict, of which the columns after it are copies; NULL
    -- before the first. row_version: the version of the app's row.
    CREATE TABLE account (
      key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
      spelling TEXT CHECK (spelling <> key),
      version INTEGER NOT NULL CHECK (version >= 0),
      newest INTEGER NOT NULL,
      verdict INTEGER CHECK ((verdict IS NULL) = (version = 0)),
      tier TEXT CHECK ((tier IS NULL) = (version = 0) AND tier <> ''),
      status TEXT CHECK ((status IS NULL) = (version = 0)
        AND (status = 'active' OR status = 'cancelled' OR status = 'grace_period' OR status = 'expired')),
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

    -- The number of users to whom a product gives access, kept so that no query counts them.
    CREATE TABLE access_count (
      tier TEXT NOT NULL,
      product_id TEXT NOT NULL,
      is_for_life INTEGER NOT NULL CHECK (is_for_life IN (0, 1)),
      users INTEGER NOT NULL CHECK (users >= 0),
      PRIMARY KEY (tier, product_id, is_for_life)
    ) STRICT, WITHOUT ROWID;

    -- Users whom an SDK has named, whether they bought or not. joined_to: the key of the user to whom an anonymous
    -- customer belongs; every request about the customer is about that user.
    CREATE TABLE customer (
      key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
      spelling TEXT CHECK (spelling <> key),
      joined_to TEXT CHECK (joined_to <> key),
      first_seen_at INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX customer_joined_to ON customer (joined_to, first_seen_at) WHERE joined_to IS NOT NULL;

    -- Attributes that an app sets for a customer. value NULL: deleted at updated_at, by the device's clock.
    CREATE TABLE customer_attribute (
      key TEXT NOT NULL CHECK (key <> ''),
      name TEXT NOT NULL CHECK (name <> ''),
      value TEXT,
      updated_at INTEGER NOT NULL,
      PRIMARY KEY (key, name)
    ) STRICT, WITHOUT ROWID;

    -- The history of each user, append-only. previous: the event before it, of the same user.
    CREATE TABLE event (
      sequence INTEGER NOT NULL PRIMARY KEY,
      -- The account's key. NULL: a note on a change of owner, which names it.
      user_id TEXT CHECK (user_id <> ''),
      previous INTEGER CHECK (previous < sequence),
      kind TEXT NOT NULL CHECK (kind = 'verdict' OR kind = 'gained' OR kind = 'lost' OR kind = 'note'),
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
    -- INSERT OR REPLACE deletes without firing delete triggers.
    CREATE TRIGGER event_no_replace BEFORE INSERT ON event
      WHEN EXISTS (SELECT 1 FROM event WHERE sequence = NEW.sequence)
      BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;
    -- While a user is erased, names and free texts may change.
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
    -- Notes are rare, and so are the rows of this index.
    CREATE INDEX event_note ON event (note) WHERE note IS NOT NULL;
    -- An event may go that a row of thinned stands for, and a note that no event names.
    CREATE TRIGGER event_no_delete BEFORE DELETE ON event
      WHEN NOT iif(OLD.user_id IS NULL,
        NOT EXISTS (SELECT 1 FROM event WHERE note = OLD.sequence),
        EXISTS (SELECT 1 FROM thinned
          WHERE user_id = OLD.user_id AND newest >= OLD.sequence AND oldest <= OLD.sequence))
      BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;

    -- Stretches of consecutive events that retention has deleted. newest: the event that the one after the stretch
    -- names as previous. verdicts: the number of verdicts among the events. digest: SHA-256 over the events, the oldest
    -- first; see ThinnedHistoryTable.digest. A row only grows, and is never deleted.
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
    """

  // MARK: Purchases and their evidence

  private static let purchases = """
    -- The newest evidence of each purchase. The owner is a column, the account's key: a purchase cannot have two.
    -- scheduled_at: when the purchase's state calls for a check. due_at: scheduled_at plus jitter, or the end of the
    -- current claim. attempts: the number of claims. renewal_off_at and billing_failed_at: when renewal was first seen
    -- to be off, and billing to fail; NULL again when that is over.
    CREATE TABLE purchase (
      id INTEGER NOT NULL PRIMARY KEY,
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      claim TEXT NOT NULL CHECK (claim IN ('proof', 'account_token')),
      proof_id INTEGER NOT NULL,
      source TEXT NOT NULL
        CHECK (source = 'verify_receipt' OR source = 'server_api' OR source = 'signature' OR source = 'notification'),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      account_gone INTEGER NOT NULL CHECK (account_gone IN (0, 1)),
      evidence TEXT NOT NULL CHECK (json_valid(evidence)),
      renewal_off_at INTEGER,
      billing_failed_at INTEGER,
      scheduled_at INTEGER,
      due_at INTEGER CHECK ((due_at IS NULL) = (scheduled_at IS NULL)),
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      UNIQUE (environment, original_transaction_id)
    ) STRICT;
    CREATE INDEX purchase_due_at ON purchase (due_at, scheduled_at) WHERE due_at IS NOT NULL;
    CREATE INDEX purchase_unscheduled ON purchase (id) WHERE due_at IS NULL;
    -- Claims that are not settled: elsewhere due_at follows from scheduled_at.
    CREATE INDEX purchase_claimed ON purchase (scheduled_at) WHERE attempts > 0;

    -- Purchases that Apple moved to another original transaction ID.
    CREATE TABLE migrated_purchase (
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      successor_id TEXT NOT NULL CHECK (successor_id <> original_transaction_id),
      PRIMARY KEY (environment, original_transaction_id)
    ) STRICT, WITHOUT ROWID;

    -- The source of a purchase's newest evidence: a receipt (bytes) or a signed transaction (text). uses: the number of
    -- purchases that name it. frame_id, frame_at: the row of proof_frame that belongs at that offset of the content.
    CREATE TABLE proof (
      id INTEGER NOT NULL PRIMARY KEY,
      sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      bundle_id TEXT NOT NULL CHECK (bundle_id <> ''),
      is_text INTEGER NOT NULL CHECK (is_text IN (0, 1)),
      content BLOB NOT NULL CHECK (length(content) > 0),
      recorded_at INTEGER NOT NULL,
      uses INTEGER NOT NULL CHECK (uses >= 1),
      frame_id INTEGER,
      frame_at INTEGER CHECK ((frame_at IS NULL) = (frame_id IS NULL))
    ) STRICT;

    -- Bytes that many receipts share: Apple's signing certificates, most of a small receipt. One row for each encoding,
    -- at most ProofFrame.limit.
    CREATE TABLE proof_frame (
      id INTEGER NOT NULL PRIMARY KEY,
      sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
      content BLOB NOT NULL CHECK (length(content) > 0)
    ) STRICT;

    -- Transactions that a purchase's evidence no longer has, for the figures and earlier free periods.
    CREATE TABLE past_evidence (
      purchase_id INTEGER NOT NULL PRIMARY KEY,
      evidence TEXT NOT NULL CHECK (json_valid(evidence))
    ) STRICT;

    -- Receipts that were acknowledged before Apple could be asked. A row goes when there is a verdict.
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

    -- The size of all pending receipts, in bytes of base64.
    CREATE TABLE pending_total (
      id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
      bytes INTEGER NOT NULL CHECK (bytes >= 0)
    ) STRICT;
    INSERT INTO pending_total (id, bytes) VALUES (1, 0);
    CREATE TRIGGER pending_receipt_added AFTER INSERT ON pending_receipt
      BEGIN UPDATE pending_total SET bytes = bytes + length(NEW.base64) WHERE id = 1; END;
    CREATE TRIGGER pending_receipt_removed AFTER DELETE ON pending_receipt
      BEGIN UPDATE pending_total SET bytes = bytes - length(OLD.base64) WHERE id = 1; END;

    -- Purchases that count for a while on their signature alone, for the first user who presents one. A grant that is
    -- over stays until its receipt is settled, so that the purchase gets no second one.
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

    -- Apple's notifications whose signature was valid, each once. A row goes when Apple no longer sends the
    -- notification. payload: NULL where it was too large.
    CREATE TABLE notification (
      uuid TEXT NOT NULL PRIMARY KEY CHECK (uuid <> ''),
      type TEXT,
      subtype TEXT,
      environment TEXT CHECK (environment IN ('production', 'sandbox')),
      bundle_id TEXT,
      original_transaction_id TEXT,
      signed_at INTEGER,
      received_at INTEGER NOT NULL,
      outcome TEXT NOT NULL CHECK (outcome IN ('recorded', 'unclaimed', 'noted')),
      user_id TEXT CHECK ((outcome = 'recorded') = (user_id IS NOT NULL)),
      payload TEXT
    ) STRICT;
    CREATE INDEX notification_key ON notification (environment, original_transaction_id, received_at);
    CREATE INDEX notification_received_at ON notification (received_at);

    -- Notifications without a valid signature, or unreadable: the newest alone are kept.
    CREATE TABLE refused_notification (
      id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
      problem TEXT NOT NULL CHECK (problem <> ''),
      payload TEXT NOT NULL,
      received_at INTEGER NOT NULL,
      is_signed INTEGER NOT NULL CHECK (is_signed IN (0, 1))
    ) STRICT;
    CREATE INDEX refused_notification_received_at ON refused_notification (received_at);
    CREATE INDEX refused_notification_is_signed ON refused_notification (is_signed, id);

    -- Apple's newest request for consumption information about a transaction (state is not NULL), and the word of the app's
    -- backend (said). claimed_until: the end of a replica's claim.
    CREATE TABLE consumption_request (
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      transaction_id TEXT NOT NULL CHECK (transaction_id <> ''),
      said TEXT CHECK (json_type(said) = 'object'),
      original_transaction_id TEXT CHECK (original_transaction_id <> ''),
      bundle_id TEXT CHECK (bundle_id <> ''),
      is_auto_renewable INTEGER CHECK (is_auto_renewable IN (0, 1)),
      state TEXT CHECK (state IN ('due', 'answered', 'unconsented', 'missed', 'refused')),
      asked_at INTEGER CHECK ((asked_at IS NULL) = (state IS NULL)),
      answer_by INTEGER CHECK ((answer_by IS NULL) = (state IS NULL)),
      due_at INTEGER CHECK ((due_at IS NULL) = (state IS NULL OR state <> 'due')),
      claimed_until INTEGER,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      problem TEXT,
      closed_at INTEGER CHECK ((closed_at IS NULL) = (state IS NULL OR state = 'due')),
      changed_at INTEGER NOT NULL,
      PRIMARY KEY (environment, transaction_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX consumption_request_due_at ON consumption_request (due_at) WHERE due_at IS NOT NULL;
    CREATE INDEX consumption_request_changed_at ON consumption_request (changed_at, state);
    CREATE INDEX consumption_request_purchase ON consumption_request (environment, original_transaction_id)
      WHERE original_transaction_id IS NOT NULL;

    -- Users whom Apple has to be told, each the newest of a purchase. A row goes when Apple has taken or refused it.
    -- account_token: the user's ID. claimed_until: the end of a replica's claim.
    CREATE TABLE account_token_due (
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      bundle_id TEXT NOT NULL CHECK (bundle_id <> ''),
      account_token TEXT NOT NULL CHECK (account_token <> ''),
      due_at INTEGER NOT NULL,
      claimed_until INTEGER,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      PRIMARY KEY (environment, original_transaction_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX account_token_due_due_at ON account_token_due (due_at);
    -- Extensions of renewal dates that Apple was asked for: of a purchase, or of all active subscribers of a product (subject).
    -- request_identifier names the request at Apple. due_at: when Apple is asked, again or for the status; NULL: it is over.
    -- claimed_until: the end of a replica's claim. expires_at: the new end of the purchase's period. expected: users here
    -- with access by the product.
    CREATE TABLE renewal_extension (
      id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      request_identifier TEXT NOT NULL UNIQUE CHECK (request_identifier <> ''),
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      subject TEXT NOT NULL CHECK (subject <> ''),
      is_of_product INTEGER NOT NULL CHECK (is_of_product IN (0, 1)),
      storefronts TEXT CHECK (json_type(storefronts) = 'array'),
      bundle_id TEXT CHECK (bundle_id <> ''),
      days INTEGER NOT NULL CHECK (days BETWEEN 1 AND 90),
      reason TEXT NOT NULL CHECK (reason IN ('undeclared', 'customer_satisfaction', 'other', 'service_issue')),
      author TEXT NOT NULL CHECK (author <> ''),
      note TEXT,
      request_id TEXT NOT NULL,
      idempotency_key TEXT CHECK (idempotency_key <> ''),
      asked_at INTEGER NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('due', 'running', 'done', 'refused', 'failed')),
      due_at INTEGER CHECK ((due_at IS NULL) = (state NOT IN ('due', 'running'))),
      claimed_until INTEGER,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      problem TEXT,
      closed_at INTEGER CHECK ((closed_at IS NULL) = (due_at IS NOT NULL)),
      expires_at INTEGER,
      expected INTEGER CHECK ((expected IS NULL) = (is_of_product = 0)),
      succeeded INTEGER NOT NULL CHECK (succeeded >= 0),
      failed INTEGER NOT NULL CHECK (failed >= 0)
    ) STRICT;
    CREATE INDEX renewal_extension_due_at ON renewal_extension (due_at) WHERE due_at IS NOT NULL;
    CREATE INDEX renewal_extension_subject ON renewal_extension (environment, subject, is_of_product, id);
    CREATE INDEX renewal_extension_newest ON renewal_extension (is_of_product, id);
    CREATE UNIQUE INDEX renewal_extension_key ON renewal_extension (environment, subject, is_of_product, idempotency_key)
      WHERE idempotency_key IS NOT NULL;
    -- One at a time of a purchase: two that are sent at once are one.
    CREATE UNIQUE INDEX renewal_extension_waiting ON renewal_extension (environment, subject)
      WHERE is_of_product = 0 AND due_at IS NOT NULL;

    -- Evidence from notifications about purchases without an owner. A row goes when the purchase has one.
    -- account_token: the UUID of the user whom the purchase names. proof: the newest signed transaction.
    CREATE TABLE unclaimed_evidence (
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      source TEXT NOT NULL CHECK (source IN ('verify_receipt', 'server_api', 'signature', 'notification')),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      evidence TEXT NOT NULL CHECK (json_valid(evidence)),
      account_token TEXT CHECK (account_token = lower(account_token)),
      bundle_id TEXT CHECK (bundle_id <> ''),
      proof TEXT CHECK (proof <> ''),
      proof_at INTEGER CHECK ((proof IS NULL) = (proof_at IS NULL)),
      first_seen_at INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL,
      CHECK (proof IS NULL OR bundle_id IS NOT NULL),
      PRIMARY KEY (environment, original_transaction_id)
    ) STRICT;
    CREATE INDEX unclaimed_evidence_account_token ON unclaimed_evidence (account_token)
      WHERE account_token IS NOT NULL;

    -- Purchases at other stores, as RevenueCat's events report them. IDs are negative, so that an account lists them
    -- among its purchases. original_transaction_id begins with the store: play_store:GPA.1234. events: the reports, a
    -- JSON array from which evidence is made. unlocks: the entitlements of the products at RevenueCat. due_at: when
    -- time alone changes the access.
    CREATE TABLE revenuecat_purchase (
      id INTEGER NOT NULL PRIMARY KEY CHECK (id < 0),
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (instr(original_transaction_id, ':') > 1),
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      events TEXT NOT NULL CHECK (json_type(events) = 'array'),
      evidence TEXT NOT NULL CHECK (json_valid(evidence)),
      unlocks TEXT CHECK (iif(unlocks IS NULL, 1, json_type(unlocks) = 'object')),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      due_at INTEGER,
      UNIQUE (environment, original_transaction_id)
    ) STRICT;
    CREATE INDEX revenuecat_purchase_due_at ON revenuecat_purchase (due_at) WHERE due_at IS NOT NULL;

    -- RevenueCat's reports that another source has to confirm: about a purchase at Apple's until Apple has answered,
    -- and about access that RevenueCat gives while it cannot reach a store. until: the end of the access that is given
    -- meanwhile, if any. due_at: when Apple is asked again, or until.
    CREATE TABLE revenuecat_report (
      environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
      original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      events TEXT NOT NULL CHECK (json_type(events) = 'array'),
      evidence TEXT CHECK (iif(evidence IS NULL, 1, json_valid(evidence))),
      unlocks TEXT CHECK (iif(unlocks IS NULL, 1, json_type(unlocks) = 'object')),
      evidence_at INTEGER NOT NULL,
      judged_at INTEGER NOT NULL,
      reported_at INTEGER NOT NULL,
      until INTEGER,
      due_at INTEGER NOT NULL,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      PRIMARY KEY (environment, original_transaction_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX revenuecat_report_user_id ON revenuecat_report (user_id);
    CREATE INDEX revenuecat_report_due_at ON revenuecat_report (due_at);

    -- Changes of user at RevenueCat that policy.ownership allowed. Events that arrive later follow them.
    CREATE TABLE revenuecat_transfer (
      from_user_id TEXT NOT NULL CHECK (from_user_id <> ''),
      id TEXT NOT NULL CHECK (id <> ''),
      to_user_id TEXT NOT NULL CHECK (to_user_id <> ''),
      at INTEGER NOT NULL,
      is_of_inactive INTEGER NOT NULL CHECK (is_of_inactive IN (0, 1)),
      PRIMARY KEY (from_user_id, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX revenuecat_transfer_to_user_id ON revenuecat_transfer (to_user_id);

    -- Rows of the profile store that have to be written, with the version of the verdict. due_at: zero until the first
    -- claim or failure. is_doubtful: an older write may still be carried out. confirming: written in spite of that, and
    -- written again later. reset: the row of an erased user; reset_spelling: that user's ID, where it differs from the
    -- key.
    CREATE TABLE outbox (
      key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
      version INTEGER NOT NULL CHECK (version >= 1),
      state TEXT NOT NULL CHECK (state = 'waiting' OR state = 'confirming' OR state = 'missing'),
      is_doubtful INTEGER NOT NULL CHECK (is_doubtful IN (0, 1)),
      waiting_since INTEGER NOT NULL,
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      due_at INTEGER NOT NULL,
      problem TEXT,
      problem_at INTEGER,
      reset TEXT CHECK (iif(reset IS NULL, 1, json_valid(reset))),
      reset_spelling TEXT CHECK (reset_spelling <> key)
    ) STRICT, WITHOUT ROWID;
    -- Covers the count of the backlog.
    CREATE INDEX outbox_due_at ON outbox (due_at, waiting_since, key, state, problem_at);

    -- Runs of re-validation on demand, one at a time. due = done + failed + held_back + rows of run_item.
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

    -- The purchases that a run still has to check, in order. due_at: zero until the first claim or failure. IDs are
    -- never reused: a late claim must not settle another run's item.
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
    """

  // MARK: Access that is given, and its use

  private static let access = """
    -- Grants and trials. ended_at: when it was ended early. is_over: the verdict without it is recorded.
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
      is_over INTEGER NOT NULL CHECK (is_over IN (0, 1)),
      idempotency_key TEXT CHECK (idempotency_key <> '')
    ) STRICT;
    CREATE INDEX given_period_user_id ON given_period (user_id);
    CREATE UNIQUE INDEX given_period_key ON given_period (user_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
    CREATE INDEX given_period_ends_at ON given_period (ends_at) WHERE is_over = 0;
    CREATE INDEX given_period_trial ON given_period (id) WHERE kind = 'trial' AND is_over = 0;

    -- Every trial that began; its period is a row of given_period. Device IDs are UUIDs in small letters.
    -- sessions_total NULL: time alone ends the trial. bit_owed: Apple's bit for the device is still to be set.
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

    -- Sessions of a trial that had an idempotency key.
    CREATE TABLE trial_session (
      trial_id INTEGER NOT NULL,
      idempotency_key TEXT NOT NULL CHECK (idempotency_key <> ''),
      PRIMARY KEY (trial_id, idempotency_key)
    ) STRICT, WITHOUT ROWID;

    -- The devices of each user, named by the app. trial_id: the trial of which the device used a session.
    CREATE TABLE device (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      device_id TEXT NOT NULL CHECK (device_id <> ''),
      app TEXT,
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
    CREATE INDEX device_push_token ON device (push_token, last_seen_at) WHERE push_token IS NOT NULL;

    -- Consumptions of a meter. number: tells those of one millisecond apart. returned: the amount that was given back;
    -- amount is zero then. request, answer: those of the idempotency key, which is kept for a week. running_total: grows
    -- from row to row by their amounts, in the order of the key; two rows give the sum of any range.
    CREATE TABLE consumption (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      feature TEXT NOT NULL CHECK (feature <> ''),
      consumed_at INTEGER NOT NULL,
      number INTEGER NOT NULL,
      amount INTEGER NOT NULL CHECK (amount >= 0),
      returned INTEGER CHECK (iif(returned IS NULL, amount >= 1, returned >= 1 AND amount = 0)),
      idempotency_key TEXT CHECK (idempotency_key <> ''),
      request TEXT CHECK ((request IS NULL) = (idempotency_key IS NULL)),
      answer TEXT CHECK ((answer IS NULL) = (idempotency_key IS NULL)),
      running_total INTEGER NOT NULL,
      PRIMARY KEY (user_id, feature, consumed_at, number)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX consumption_key ON consumption (user_id, feature, idempotency_key)
      WHERE idempotency_key IS NOT NULL;

    -- The sum of a meter's consumptions over all time; of a limit, the number that exists. keys_until: idempotency keys
    -- of earlier consumptions are forgotten.
    CREATE TABLE feature_total (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      feature TEXT NOT NULL CHECK (feature <> ''),
      total INTEGER NOT NULL CHECK (total >= 0),
      next_number INTEGER NOT NULL CHECK (next_number >= 0),
      keys_until INTEGER NOT NULL,
      PRIMARY KEY (user_id, feature)
    ) STRICT, WITHOUT ROWID;

    -- The zone in which a user's days, weeks and months begin, where the app named one.
    CREATE TABLE user_time_zone (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      name TEXT NOT NULL CHECK (name <> ''),
      changed_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- Users who have almost reached their tier's limit of a feature.
    CREATE TABLE near_limit (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      feature TEXT NOT NULL CHECK (feature <> ''),
      tier TEXT NOT NULL CHECK (tier <> ''),
      PRIMARY KEY (user_id, feature)
    ) STRICT, WITHOUT ROWID;

    -- Refusals for which a change event is recorded. Before until the same refusal records no other.
    CREATE TABLE recorded_refusal (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      subject TEXT NOT NULL CHECK (subject <> ''),
      until INTEGER NOT NULL,
      PRIMARY KEY (user_id, subject)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX recorded_refusal_until ON recorded_refusal (until);
    """

  // MARK: Events and their receivers

  private static let changes = """
    -- Events for webhooks and readers, in order. user_id: the account's key. type: has a dot, or is the app's own.
    -- user_id of apple.*: empty without a user; of apple.notification, which is forwarded, the purchase.
    -- former, verdict: the verdicts before and after, in event. data: what these do not tell. Old rows are deleted, but
    -- never the newest, so that no number is used twice.
    CREATE TABLE change_event (
      sequence INTEGER NOT NULL PRIMARY KEY,
      user_id TEXT NOT NULL CHECK (user_id <> '' OR substr(type, 1, 6) = 'apple.'),
      type TEXT NOT NULL CHECK (type <> ''),
      at INTEGER NOT NULL,
      recorded_at INTEGER NOT NULL,
      verdict INTEGER,
      former INTEGER,
      data TEXT CHECK (json_type(data) = 'object'),
      -- The begin, the price and the offer of the period that the verdict is about.
      purchased_at INTEGER,
      sale TEXT CHECK (json_type(sale) = 'array')
    ) STRICT;

    -- What a user's purchases give while a grant or trial decides: a change among them records an event all the same.
    CREATE TABLE covered_verdict (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      entitlement TEXT NOT NULL CHECK (json_valid(entitlement))
    ) STRICT, WITHOUT ROWID;

    -- Digests of the IDs of events that apps reported: an event with the same ID is the same one. A row goes when its
    -- event is old.
    CREATE TABLE reported_event (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      id_sha256 BLOB NOT NULL CHECK (length(id_sha256) = 32),
      recorded_at INTEGER NOT NULL,
      PRIMARY KEY (user_id, id_sha256)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX reported_event_recorded_at ON reported_event (recorded_at);

    -- The bytes of the events that a user's app reported on the newest such day (since 1970-01-01, UTC).
    CREATE TABLE reported_bytes (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      day INTEGER NOT NULL,
      bytes INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- The receivers in the configuration. through: every event up to it is delivered, or has a row in webhook_delivery.
    -- url_sha256: a receiver that answered 410 is enabled again when its URL changes.
    CREATE TABLE webhook (
      name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
      url_sha256 BLOB NOT NULL CHECK (length(url_sha256) = 32),
      through INTEGER NOT NULL CHECK (through >= 0),
      is_enabled INTEGER NOT NULL CHECK (is_enabled IN (0, 1))
    ) STRICT, WITHOUT ROWID;

    -- The replica that delivers to a receiver.
    CREATE TABLE webhook_lease (
      webhook TEXT NOT NULL PRIMARY KEY CHECK (webhook <> ''),
      holder TEXT NOT NULL CHECK (holder <> ''),
      lease_until INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- Events that are to be delivered again, or that were given up (is_dead). A user's first undelivered event goes
    -- first; due_at is zero for those behind it.
    CREATE TABLE webhook_delivery (
      webhook TEXT NOT NULL CHECK (webhook <> ''),
      sequence INTEGER NOT NULL,
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      is_dead INTEGER NOT NULL CHECK (is_dead IN (0, 1)),
      attempts INTEGER NOT NULL CHECK (attempts >= 0),
      due_at INTEGER NOT NULL,
      problem TEXT,
      problem_at INTEGER,
      PRIMARY KEY (webhook, sequence)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX webhook_delivery_user ON webhook_delivery (webhook, user_id, sequence) WHERE is_dead = 0;
    CREATE INDEX webhook_delivery_due_at ON webhook_delivery (webhook, due_at, sequence) WHERE is_dead = 0;
    CREATE INDEX webhook_delivery_dead ON webhook_delivery (webhook, sequence) WHERE is_dead = 1;
    """

  // MARK: Figures and experiments

  private static let figures = """
    -- Marks of purchases to be counted again, and of the app's own trials: see trialPlace. changes: makes two writers of one
    -- row meet.
    CREATE TABLE figure_due (
      purchase_id INTEGER NOT NULL PRIMARY KEY,
      changes INTEGER NOT NULL
    ) STRICT;

    -- Marks of users whose tier has other limits than before. changes: makes two writers of one row meet.
    CREATE TABLE limit_due (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      changes INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- The counts of each purchase, to be subtracted when it changes.
    CREATE TABLE counted_purchase (
      purchase_id INTEGER NOT NULL PRIMARY KEY,
      counts TEXT NOT NULL CHECK (json_type(counts) = 'array')
    ) STRICT;

    -- Sums by day (since 1970-01-01, UTC), and by month under its first day. active, trials, grace and mrr are changes.
    -- Money is in thousandths of the currency's unit.
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
      existing INTEGER NOT NULL,
      existing_mrr INTEGER NOT NULL,
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

    -- Subscriptions first paid for in a month, by its first day. change: of the number that is paid for, since months
    -- later.
    CREATE TABLE figure_cohort (
      month INTEGER NOT NULL,
      product_id TEXT NOT NULL,
      since INTEGER NOT NULL,
      change INTEGER NOT NULL,
      PRIMARY KEY (month, product_id, since)
    ) STRICT, WITHOUT ROWID;

    -- Counts; see Tally. day: since 1970-01-01, UTC; zero for a count as of now.
    CREATE TABLE tally (
      name TEXT NOT NULL CHECK (name <> ''),
      day INTEGER NOT NULL,
      label TEXT NOT NULL,
      detail TEXT NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (name, day, label, detail)
    ) STRICT, WITHOUT ROWID;

    -- Changes that a job adds to tally, appended in the transaction that causes them: a row that every transaction
    -- changed would make each wait for the others.
    CREATE TABLE tally_change (
      id INTEGER NOT NULL PRIMARY KEY,
      name TEXT NOT NULL CHECK (name <> ''),
      day INTEGER NOT NULL,
      label TEXT NOT NULL,
      detail TEXT NOT NULL,
      change INTEGER NOT NULL
    ) STRICT;

    -- The length of a product's periods in the form of ISO 8601: P1M.
    CREATE TABLE product_period (
      product_id TEXT NOT NULL PRIMARY KEY CHECK (product_id <> ''),
      period TEXT NOT NULL CHECK (period <> '')
    ) STRICT, WITHOUT ROWID;

    -- The days (since 1970-01-01, UTC) on which a user was first seen, first shown a paywall, first paid.
    CREATE TABLE user_progress (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      seen INTEGER NOT NULL,
      viewed INTEGER,
      paid INTEGER
    ) STRICT, WITHOUT ROWID;

    -- The variant that a user saw first. It stays the user's, whatever the weights become.
    CREATE TABLE exposure (
      user_id TEXT NOT NULL CHECK (user_id <> ''),
      experiment TEXT NOT NULL CHECK (experiment <> ''),
      variant TEXT NOT NULL CHECK (variant <> ''),
      exposed_at INTEGER NOT NULL,
      PRIMARY KEY (user_id, experiment)
    ) STRICT, WITHOUT ROWID;

    -- Marks of users in experiments to be counted again. changes: makes two writers of one row meet.
    CREATE TABLE exposure_due (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      changes INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- The counts of each user, to be subtracted when they change.
    CREATE TABLE counted_exposure (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      counts TEXT NOT NULL CHECK (json_type(counts) = 'array')
    ) STRICT, WITHOUT ROWID;

    -- Sums by the day of the exposure (since 1970-01-01, UTC). Users have no currency. Money is in thousandths of the
    -- currency's unit.
    CREATE TABLE variant_figure (
      experiment TEXT NOT NULL,
      day INTEGER NOT NULL,
      variant TEXT NOT NULL,
      currency TEXT NOT NULL,
      exposed INTEGER NOT NULL,
      paid_before INTEGER NOT NULL,
      trials INTEGER NOT NULL,
      paid INTEGER NOT NULL,
      revenue INTEGER NOT NULL,
      refunds INTEGER NOT NULL,
      PRIMARY KEY (experiment, day, variant, currency)
    ) STRICT, WITHOUT ROWID;
    """
}
