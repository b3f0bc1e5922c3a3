internal import CPostgreSQL
internal import Glibc

/// Where the database is: a connection string of libpq's, with what it leaves open decided.
struct PostgreSQLAddress: Sendable {
  /// Without the password.
  let description: String
  /// How long a server that has let a client in has for each of its first answers: a proxy may hand nothing on.
  var patience = Duration.seconds(10)
  private let options: [(name: String, value: String)]
  /// Whether all hosts are this machine. Without any, libpq connects to its socket.
  private let isLocal: Bool

  /// - Throws: `.inaccessible` for a string that libpq does not understand.
  init(_ url: String) throws(LedgerOpenError) {
    var message: UnsafeMutablePointer<CChar>?
    guard let parsed = PQconninfoParse(url, &message) else {
      PQfreemem(message)
      throw .inaccessible(
        path: "at ledger.url", problem: "its value is not a connection string, postgresql://user@host/database")
    }
    defer { PQconninfoFree(parsed) }
    var options: [(name: String, value: String)] = []
    var option = parsed
    while let keyword = option.pointee.keyword {
      if let value = option.pointee.val { options.append((String(cString: keyword), String(cString: value))) }
      option += 1
    }
    func value(_ name: String) -> String? { options.first { $0.name == name }?.value }
    func add(_ name: String, _ fallback: String) {
      if value(name) == nil { options.append((name, fallback)) }
    }
    // A server elsewhere proves its name, or gets no password. libpq takes what the string leaves open from elsewhere.
    let variables = [("host", "PGHOST"), ("hostaddr", "PGHOSTADDR"), ("service", "PGSERVICE")]
    let hosts = variables.compactMap { name, variable in value(name) ?? getenv(variable).map { String(cString: $0) } }
    isLocal = hosts.flatMap { $0.split(separator: ",") }.allSatisfy { host in
      host.hasPrefix("/") || ["localhost", "127.0.0.1", "::1"].contains(host)
    }
    if !isLocal {
      add("sslmode", "verify-full")
      add("sslrootcert", "/etc/ssl/certs/ca-certificates.crt")
    }
    add("connect_timeout", "5")
    // Seconds; a server that has gone without a word is noticed then.
    add("keepalives_idle", "10")
    add("keepalives_interval", "5")
    add("keepalives_count", "2")
    add("tcp_user_timeout", "10000")
    // Of several hosts, the one that is no standby.
    add("target_session_attrs", "read-write")
    add("application_name", "countersign")
    options.removeAll { $0.name == "client_encoding" }
    options.append(("client_encoding", "UTF8"))
    self.options = options
    description = "\(value("dbname") ?? "the default database") at \(value("host") ?? "this machine")"
  }

  /// `allow` and `prefer` go on without encryption where the server, or whoever is in between, has none.
  fileprivate var mayBeInClear: Bool { !isLocal && ["disable", "allow", "prefer"].contains(sslMode) }

  /// `sslmode`; `nil` leaves it to libpq.
  var sslMode: String? { options.first { $0.name == "sslmode" }?.value }

  /// - Throws: `PostgreSQLError`.
  func connect() throws -> PostgreSQLConnection {
    let connection = try PostgreSQLConnection(options)
    // Milliseconds. An operation takes some; what takes longer than these waits for a lock that nobody will give. Without
    // sequential scans those that remain look so costly to the planner that it would compile each by LLVM, which takes longer
    // than they do.
    try connection.run(
      """
      SET statement_timeout = 30000; SET lock_timeout = 5000; SET idle_in_transaction_session_timeout = 30000;
      SET TimeZone = 'UTC'; SET bytea_output = 'hex'; SET enable_seqscan = off; SET jit = off;
      SET plan_cache_mode = force_generic_plan
      """, within: patience)
    return connection
  }

  /// Connects for operations, and checks the server as at the start: another one may be there since, or other settings.
  ///
  /// The server ends the transaction of a client that has vanished after five seconds, as long as others wait for its locks.
  func connectForOperations() throws -> PostgreSQLConnection {
    let connection = try connect()
    let settings = try connection.run(
      """
      SET idle_in_transaction_session_timeout = 5000;
      SELECT set_config('client_connection_check_interval', '5000', false) WHERE version() LIKE '%linux%';
      SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local');
      SELECT current_setting('fsync') || current_setting('full_page_writes')
      """, within: patience)
    guard settings == "onon" else {
      throw LedgerFailure(
        reach: .transaction, sentence: "The database loses what it acknowledges: its fsync or full_page_writes is off")
    }
    return connection
  }

  /// Connects, checks that the server keeps what it acknowledges, and does something with the connection. Blocks.
  func checked<Value>(_ body: (PostgreSQLConnection) throws -> Value) throws(LedgerOpenError) -> Value {
    let path = "in \(description)"
    do {
      let connection = try connect()
      for (setting, bad) in [("synchronous_commit", "off"), ("fsync", "off"), ("full_page_writes", "off")]
      where try connection.run("SHOW \(setting)", within: patience) == bad {
        throw LedgerOpenError.notDurable(path: path, problem: "PostgreSQL says \(setting) = \(bad)")
      }
      guard try connection.run("SHOW server_encoding", within: patience) == "UTF8" else {
        throw LedgerOpenError.inaccessible(path: path, problem: "the database's encoding is not UTF8")
      }
      let version = try connection.run("SHOW server_version_num", within: patience)
      guard let version, let number = Int(version), number >= 140_000 else {
        throw LedgerOpenError.inaccessible(path: path, problem: "PostgreSQL 14 or later is needed")
      }
      return try body(connection)
    } catch let error as LedgerOpenError {
      throw error
    } catch is PostgreSQLSchema.Superseded {
      throw .newerSchema(path: path)
    } catch let error as PostgreSQLError {
      let text = error.message.split(whereSeparator: \.isNewline).joined(separator: " ")
      throw .inaccessible(path: path, problem: "PostgreSQL \(error.state): \(text)")
    } catch {
      throw .inaccessible(path: path, problem: "its schema cannot be made")
    }
  }
}

extension LedgerPlace {
  /// Whether libpq understands a connection string.
  package static func isURL(_ text: String) -> Bool { (try? PostgreSQLAddress(text)) != nil }

  /// Whether a connection string lets the connection to another machine go without encryption.
  package static func isReadableByOthers(_ text: String) -> Bool {
    (try? PostgreSQLAddress(text))?.mayBeInClear ?? false
  }
}
