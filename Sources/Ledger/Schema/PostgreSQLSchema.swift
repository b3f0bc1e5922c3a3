/// The ledger's tables in PostgreSQL: those of SQLite, in PostgreSQL's words, so that there is one schema.
///
/// They differ where replicas would wait for each other:
/// - `access_count` and `pending_total` are views, as every replica would change the same few rows. `pending_total` is the size
///   of the table, dead rows included: see `Ledger.run(_: Postpone)`.
/// - `ledger_gate` is empty. Transactions lock it, those that cannot be made beside others exclusively.
/// - `ledger_commit` has a row for each session, with the number of its last transaction (`PostgreSQLSession.hasCommitted`).
/// - `replica` has a row for each process that has the ledger open.
/// - Checks of JSON are left out: PostgreSQL 15 has no test of a text that returns false.
enum PostgreSQLSchema {
  /// The longest time for a statement of a migration, the wait for that of another replica included.
  private static let longest: Duration = .seconds(900)

  /// Brings a database to a schema, under a lock, so that replicas that start together do it once.
  ///
  /// - Returns: whether the database had no tables.
  /// - Throws: `PostgreSQLError`, `Superseded`.
  @discardableResult
  static func migrate(_ connection: PostgreSQLConnection, to schema: LedgerSchema) throws -> Bool {
    func run(_ sql: String) throws { try connection.run(sql, within: longest) }
    // A lock is waited for as long as a migration takes, which is longer than a statement may.
    let lock = AdvisoryLock.migration.rawValue
    try run("SET statement_timeout = 0; SET lock_timeout = 0; SELECT pg_advisory_lock(\(lock))")
    defer { _ = try? run("SELECT pg_advisory_unlock(\(lock))") }
    try run(
      """
      CREATE TABLE IF NOT EXISTS ledger_migration (
        identifier TEXT COLLATE "C" PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())
      """)
    let known = schema.migrations.map(\.identifier)
    let applied = try migrations(of: connection)
    guard applied.isSubset(of: known) else { throw Superseded() }
    if !applied.isEmpty { try run("DELETE FROM ledger_commit WHERE at < now() - interval '1 day'") }
    let missing = known.filter { !applied.contains($0) }
    guard !missing.isEmpty else { return false }
    try run("BEGIN")
    do {
      for statement in try statements(of: schema, after: known.filter(applied.contains)) {
        try run(statement)
      }
      for identifier in missing {
        try run("INSERT INTO ledger_migration (identifier) VALUES ('\(identifier)')")
      }
      try run("COMMIT")
      return applied.isEmpty
    } catch {
      _ = try? run("ROLLBACK")
      throw error
    }
  }

  /// Whether a database has the present schema, and not an older one or none.
  ///
  /// - Throws: `PostgreSQLError`, `Superseded`.
  static func isPresent(_ connection: PostgreSQLConnection) throws -> Bool {
    guard try connection.run("SELECT to_regclass('ledger_migration')::text") != nil else { return false }
    let known = Set(LedgerSchema.present.migrations.map(\.identifier))
    let applied = try migrations(of: connection)
    guard applied.isSubset(of: known) else { throw Superseded() }
    return applied == known
  }

  private static func migrations(of connection: PostgreSQLConnection) throws -> Set<String> {
    let text = try connection.run("SELECT string_agg(identifier, E'\\n') FROM ledger_migration", within: longest) ?? ""
    return Set(text.split(separator: "\n").map(String.init))
  }

  /// A newer version of the service has migrated the database.
  struct Superseded: Error {}

  /// The statements that bring a database to a schema: all tables and indexes that the missing migrations add, and what these
  /// name beside them. Replicas of the release before go on beside them during an upgrade.
  static func statements(of schema: LedgerSchema, after applied: [String]) throws -> [String] {
    let former = Set(
      try objects(of: LedgerSchema(migrations: schema.migrations.filter { applied.contains($0.identifier) })).map(
        \.name))
    let added = try objects(of: schema).filter { !former.contains($0.name) }
      .map { object in try object.isTable ? table(object.sql) : object.sql }
    let missing = schema.migrations.filter { !applied.contains($0.identifier) }
    return added + missing.map(\.postgreSQL).filter { !$0.isEmpty }
  }

  struct SchemaObject {
    var name: String
    var isTable: Bool
    var sql: String
  }

  /// The tables and indexes that both engines have, the tables first.
  static func objects(of schema: LedgerSchema) throws -> [SchemaObject] {
    let connection = try SQLiteConnection(path: ":memory:")
    try schema.migrate(connection)
    return try connection.rows(
      of: """
        SELECT type, name, sql FROM sqlite_master
        WHERE sql IS NOT NULL AND type IN ('table', 'index') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
        ORDER BY type DESC, rowid
        """
    ) { row in
      SchemaObject(name: try row.get(1), isTable: try row.get(0, as: String.self) == "table", sql: try row.get(2))
    }
    .filter { !views.contains($0.name) }
  }

  /// Tables of which PostgreSQL has a view, or one of its own.
  private static let views: Set<String> = ["access_count", "pending_total", "ledger_migration"]

  /// Migration 0001's views, the tables of replicas, an index of rows by `rowid` for searches, and SQLite's triggers
  /// event_no_update, event_no_delete, thinned_only_grows and thinned_no_delete in PostgreSQL's words.
  static let firstAdditions = """
    CREATE VIEW access_count AS
      SELECT tier, product_id, is_for_life, count(*) AS users FROM account
      WHERE product_id IS NOT NULL AND tier IS NOT NULL AND status <> 'expired'
      GROUP BY tier, product_id, is_for_life;
    CREATE VIEW pending_total AS SELECT 1 AS id, pg_table_size('pending_receipt') AS bytes;
    CREATE TABLE ledger_gate (id BIGINT PRIMARY KEY);
    CREATE TABLE ledger_commit (
      session TEXT COLLATE "C" PRIMARY KEY, number BIGINT NOT NULL, at TIMESTAMPTZ NOT NULL DEFAULT now()
    ) WITH (fillfactor = 50);
    CREATE TABLE replica (
      id TEXT COLLATE "C" PRIMARY KEY,
      name TEXT COLLATE "C" NOT NULL,
      started_at BIGINT NOT NULL,
      beat_at TIMESTAMPTZ NOT NULL
    );
    CREATE FUNCTION event_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
      DECLARE names CONSTANT TEXT[] := ARRAY['user_id', 'other_user_id', 'request_id', 'receipt_sha256', 'text'];
      BEGIN
        IF TG_OP = 'UPDATE' AND EXISTS (SELECT 1 FROM memo WHERE name = 'erasing')
          AND to_jsonb(NEW) - names = to_jsonb(OLD) - names THEN RETURN NEW; END IF;
        IF TG_OP = 'DELETE' AND (
          OLD.user_id IS NULL AND NOT EXISTS (SELECT 1 FROM event WHERE note = OLD.sequence)
          OR EXISTS (SELECT 1 FROM thinned
            WHERE user_id = OLD.user_id AND newest >= OLD.sequence AND oldest <= OLD.sequence))
          THEN RETURN OLD; END IF;
        RAISE EXCEPTION 'event is append-only';
      END $$;
    CREATE TRIGGER event_is_append_only BEFORE UPDATE OR DELETE ON event
      FOR EACH ROW EXECUTE FUNCTION event_is_append_only();
    CREATE FUNCTION thinned_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF TG_OP = 'UPDATE' AND NEW.oldest = OLD.oldest AND NEW.previous IS NOT DISTINCT FROM OLD.previous
          AND NEW.first_at = OLD.first_at AND NEW.newest >= OLD.newest AND NEW.events >= OLD.events
          AND NEW.verdicts >= OLD.verdicts THEN RETURN NEW; END IF;
        RAISE EXCEPTION 'thinned only grows';
      END $$;
    CREATE TRIGGER thinned_only_grows BEFORE UPDATE OR DELETE ON thinned
      FOR EACH ROW EXECUTE FUNCTION thinned_only_grows();
    CREATE UNIQUE INDEX unclaimed_evidence_rowid ON unclaimed_evidence (rowid);
    INSERT INTO heartbeat (id, beats) VALUES (1, 0);
    """

  /// A table of SQLite's in PostgreSQL's words.
  static func table(_ sqlite: String) throws -> String {
    let lines = sqlite.split(separator: "\n").map { (line: Substring) -> Substring in
      line.firstRange(of: "--").map { line[..<$0.lowerBound] } ?? line
    }
    var sql = lines.joined(separator: "\n")
    let hasRowID = !sql.contains("WITHOUT ROWID") && !sql.contains("INTEGER NOT NULL PRIMARY KEY")
    for (words, replacement) in [
      (", WITHOUT ROWID", ""), (") STRICT", ")"),
      ("INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
      ("INTEGER NOT NULL PRIMARY KEY", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
      ("INTEGER", "BIGINT"), (" TEXT", " TEXT COLLATE \"C\""), ("BLOB", "BYTEA"), ("instr(", "strpos("),
    ] {
      sql.replace(words, with: replacement)
    }
    sql = withoutChecksOfJSON(sql)
    guard hasRowID, let end = sql.lastIndex(of: ")") else { return sql }
    return sql[..<end] + ", rowid BIGINT GENERATED BY DEFAULT AS IDENTITY" + sql[end...]
  }

  private static func withoutChecksOfJSON(_ sql: String) -> String {
    var result = ""
    var rest = sql[...]
    while let check = rest.firstRange(of: "CHECK (") {
      var depth = 1
      var end = check.upperBound
      while depth > 0, end < rest.endIndex {
        if rest[end] == "(" { depth += 1 }
        if rest[end] == ")" { depth -= 1 }
        end = rest.index(after: end)
      }
      let text = rest[check.lowerBound..<end]
      let isOfJSON = text.contains("json_") || text.contains("iif(")
      result += rest[..<check.lowerBound]
      if !isOfJSON { result += text }
      rest = rest[end...]
    }
    return result + rest
  }
}
