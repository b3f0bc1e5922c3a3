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
  private let shell: Process
  /// The shell reads from it; closing it ends the cluster.
  private let lifeline: FileHandle
  private let output: FileHandle

  private init(directory: String, shell: Process, lifeline: FileHandle, output: FileHandle) {
    self.directory = directory
    self.shell = shell
    self.lifeline = lifeline
    self.output = output
  }

  private static let script = #"""
    set -eu
    export PATH="$1:$PATH" LC_ALL=C
    # In memory, where there is room: a sync costs nothing there, and what the server wrote outlives its end all the same.
    base=/tmp
    if [ "$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 2000000 ] 2>/dev/null; then base=/dev/shm; fi
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
    let shell = Process()
    // The server refuses to run as root.
    let command = ["/bin/sh", "-c", script, "sh", programs, isDurable ? "on" : "off"]
    let asPostgres = geteuid() == 0 ? ["/usr/sbin/runuser", "-u", "postgres", "--"] : []
    let words = asPostgres + command
    guard let program = words.first else { throw Failure.notInstalled }
    shell.executableURL = URL(fileURLWithPath: program)
    shell.arguments = Array(words.dropFirst())
    shell.currentDirectoryURL = URL(fileURLWithPath: "/")
    let input = Pipe()
    let output = Pipe()
    shell.standardInput = input
    shell.standardOutput = output
    shell.standardError = output
    let lifeline = input.fileHandleForWriting
    // Other tests start programs too; none may keep the cluster alive.
    _ = fcntl(lifeline.fileDescriptor, F_SETFD, FD_CLOEXEC)
    try shell.run()

    let said = await text(from: output.fileHandleForReading)
    guard let line = said.split(separator: "\n").last(where: { $0.hasPrefix("ready ") }) else {
      throw Failure.notStarted(said)
    }
    return PostgreSQLServer(
      directory: String(line.dropFirst("ready ".count)), shell: shell, lifeline: lifeline,
      output: output.fileHandleForReading)
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

  /// What the shell says until it is ready or has failed.
  private static func text(from handle: FileHandle) async -> String {
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        var said = Data()
        while !String(decoding: said, as: UTF8.self).contains("ready /") {
          let more = handle.availableData
          if more.isEmpty { break }
          said += more
        }
        continuation.resume(returning: String(decoding: said, as: UTF8.self))
      }
    }
  }

  /// Ends the server as a power cut would, and starts it again.
  ///
  /// The shell does it: a server that this program starts holds what Foundation waits for at the end of a process.
  package func bounce() async throws {
    try lifeline.write(contentsOf: Data("bounce\n".utf8))
    let said = await Self.text(from: output)
    guard said.contains("ready /") else { throw Failure.notStarted(said) }
  }

  // MARK: Databases

  /// Where a database is, for libpq.
  package func url(of database: String) -> String {
    let host = directory.replacing("/", with: "%2F")
    return "postgresql://postgres@\(host)/\(database)"
  }

  /// Makes an empty database.
  /// - Returns: its name.
  package func makeDatabase() async throws -> String {
    let name = "test_\(UUID().uuidString.lowercased().filter { $0 != "-" })"
    try await run("CREATE DATABASE \(name)", on: "postgres")
    return name
  }

  /// Where the database is that stands for a directory; it is made at first.
  package func url(ofDirectory path: String) async throws -> String {
    let name = "directory_" + path.utf8.suffix(50).map { String($0, radix: 36) }.joined()
    let isKnown = try await !run("SELECT 1 FROM pg_database WHERE datname = '\(name.prefix(60))'", on: "postgres")
      .isEmpty
    if !isKnown { try await run("CREATE DATABASE \(name.prefix(60))", on: "postgres") }
    return url(of: String(name.prefix(60)))
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
