import CPostgreSQL
import Foundation

/// A PostgreSQL server of this test run's own: a new cluster in a temporary directory, reached by its socket alone.
///
/// A shell holds it. When this program ends, however it ends, the shell's input ends, and it stops the server and
/// removes the directory.
package final class PostgreSQLServer: Sendable {
  package enum Failure: Error, CustomStringConvertible {
    case notInstalled
    case notStarted(String)

    package var description: String {
      switch self {
      case .notInstalled: "PostgreSQL's server programs are not installed; run `make test-deps`"
      case .notStarted(let text): "PostgreSQL did not start: \(text)"
      }
    }
  }

  /// Where the socket is.
  package let directory: String
  private let shell: ChildProcess

  private init(directory: String, shell: ChildProcess) {
    self.directory = directory
    self.shell = shell
  }

  /// The shell stops the server when its input ends; killed, it would leave the server behind.
  deinit { shell.closeInput() }

  private static let script = #"""
    set -eu
    export PATH="$1:$PATH" LC_ALL=C
    # In memory, where there is room: a sync costs nothing there, and what the server wrote outlives its end all the same.
    base=/tmp
    if [ "$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 9000000 ] 2>/dev/null; then base=/dev/shm; fi
    directory=$(mktemp -d "$base/countersign-postgresql.XXXXXX")
    trap 'pg_ctl -D "$directory/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$directory"' EXIT
    trap 'exit 1' HUP INT TERM
    cd "$directory"
    initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-sync --no-instructions >initdb.log 2>&1 ||
      { cat initdb.log; exit 1; }
    cat >>data/postgresql.conf <<EOF
    listen_addresses = ''
    unix_socket_directories = '$directory'
    max_connections = 200
    timezone = UTC
    autovacuum = off
    shared_buffers = 16MB
    wal_level = minimal
    max_wal_senders = 0
    fsync = $2
    full_page_writes = $2
    synchronous_commit = $2
    EOF
    pg_ctl -D data -w -l server.log start >pg_ctl.log 2>&1 </dev/null || { cat pg_ctl.log server.log; exit 1; }
    echo "ready $directory"
    while read -r bounce; do
      pg_ctl -D data -m immediate stop >/dev/null 2>&1
      pg_ctl -D data -w -l server.log start >pg_ctl.log 2>&1 </dev/null || { cat pg_ctl.log server.log; exit 1; }
      echo "ready $directory"
    done
    """#

  /// - Parameter isDurable: a commit is kept through a crash, as a ledger asks for; without, tests are faster.
  package static func start(isDurable: Bool) async throws -> PostgreSQLServer {
    let programs = try directoryOfPrograms()
    // The server refuses to run as root.
    let command = ["/bin/sh", "-c", script, "sh", programs, isDurable ? "on" : "off"]
    let asPostgres = geteuid() == 0 ? ["/usr/sbin/runuser", "-u", "postgres", "--"] : []
    let words = asPostgres + command
    guard let program = words.first else { throw Failure.notInstalled }
    let shell = try await ChildProcess.start(
      program, Array(words.dropFirst()), directory: "/", keepsInputOpen: true)
    guard let said = await shell.output({ $0.hasSuffix("\n") && $0.contains("ready /") }),
      let line = said.split(separator: "\n").last(where: { $0.hasPrefix("ready ") })
    else {
      let ending = await shell.ending()
      throw Failure.notStarted(ending.output + ending.error)
    }
    return PostgreSQLServer(directory: String(line.dropFirst("ready ".count)), shell: shell)
  }

  /// Debian keeps the server's programs off the PATH, one directory a version; the newest is taken.
  package static func directoryOfPrograms(
    root: String = "/usr/lib/postgresql", otherwise: [String] = ["/usr/local/bin", "/usr/bin"]
  ) throws -> String {
    let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
    let candidates =
      versions.compactMap(Int.init).sorted(by: >).map { "\(root)/\($0)/bin" } + otherwise
    let found = candidates.first { directory in
      ["initdb", "pg_ctl", "postgres"].allSatisfy {
        FileManager.default.isExecutableFile(atPath: "\(directory)/\($0)")
      }
    }
    guard let found else { throw Failure.notInstalled }
    return found
  }

  /// Ends the server as a power cut would, and starts it again.
  package func bounce() async throws {
    let starts = { (said: String) in said.split(separator: "\n").count { $0.hasPrefix("ready /") } }
    let before = starts(await shell.output { _ in true } ?? "")
    shell.write("bounce\n")
    guard await shell.output({ starts($0) > before }) != nil else {
      throw Failure.notStarted(await shell.ending().output)
    }
  }

  // MARK: Databases

  /// Where a database is, for libpq.
  package func url(of database: String) -> String {
    let host = directory.replacing("/", with: "%2F")
    return "postgresql://postgres@\(host)/\(database)"
  }

  /// Makes a database.
  /// - Parameter template: the database that it is a copy of; `nil` for an empty one.
  /// - Returns: its name.
  package func makeDatabase(from template: String? = nil) async throws -> String {
    let name = "test_\(UUID().uuidString.lowercased().filter { $0 != "-" })"
    try await makeDatabase(name, from: template)
    return name
  }

  private func makeDatabase(_ name: String, from template: String?) async throws {
    try await run("CREATE DATABASE \(name) TEMPLATE \(template ?? "template1") STRATEGY FILE_COPY", on: "postgres")
  }

  /// Where the database is that stands for a directory; it is made at first.
  package func url(ofDirectory path: String, from template: String? = nil) async throws -> String {
    let name = String(("directory_" + path.utf8.suffix(50).map { String($0, radix: 36) }.joined()).prefix(60))
    let isKnown = try await !run("SELECT 1 FROM pg_database WHERE datname = '\(name)'", on: "postgres").isEmpty
    if !isKnown { try await makeDatabase(name, from: template) }
    return url(of: name)
  }

  /// Runs statements on a database, as its superuser.
  /// - Returns: the rows of the last one; `nil` for NULL.
  @discardableResult
  package func run(_ sql: String, on database: String) async throws -> [[String?]] {
    let url = url(of: database)
    return try await withCheckedThrowingContinuation { continuation in
      DispatchQueue.global().async {
        let connection = PQconnectdb(url)
        let result = PQexec(connection, sql)
        defer {
          PQclear(result)
          PQfinish(connection)
        }
        guard [PGRES_TUPLES_OK, PGRES_COMMAND_OK].contains(PQresultStatus(result)) else {
          return continuation.resume(throwing: Failure.notStarted(String(cString: PQerrorMessage(connection))))
        }
        continuation.resume(
          returning: (0..<PQntuples(result)).map { row in
            (0..<PQnfields(result)).map { column in
              PQgetisnull(result, row, column) == 1 ? nil : String(cString: PQgetvalue(result, row, column))
            }
          })
      }
    }
  }
}
