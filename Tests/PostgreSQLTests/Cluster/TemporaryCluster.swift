import Foundation

/// A PostgreSQL server of this test run's own: a new cluster in a temporary directory, reached by its socket alone.
///
/// A shell holds it. When this program ends, however it ends, the shell's input ends, and it stops the server and
/// removes the directory.
final class TemporaryCluster: Sendable {
  enum Failure: Error, CustomStringConvertible {
    case notInstalled
    case notStarted(String)

    var description: String {
      switch self {
      case .notInstalled: "PostgreSQL's server programs are not installed; run `make test-deps`"
      case .notStarted(let text): "PostgreSQL did not start: \(text)"
      }
    }
  }

  /// Where the socket is.
  let directory: String
  private let shell: Process
  /// The shell reads from it; closing it ends the cluster.
  private let lifeline: FileHandle

  /// The one of this run.
  private static let shared = Task.detached { try await TemporaryCluster.start() }

  static func running() async throws -> TemporaryCluster { try await shared.value }

  private init(directory: String, shell: Process, lifeline: FileHandle) {
    self.directory = directory
    self.shell = shell
    self.lifeline = lifeline
  }

  private static let script = #"""
    set -eu
    export PATH="$1:$PATH" LC_ALL=C
    directory=$(mktemp -d /tmp/countersign-postgresql.XXXXXX)
    trap 'pg_ctl -D "$directory/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$directory"' EXIT
    trap 'exit 1' HUP INT TERM
    cd "$directory"
    initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-sync --no-instructions >initdb.log 2>&1 ||
      { cat initdb.log; exit 1; }
    pg_ctl -D data -w -l server.log -o "-c listen_addresses= -c unix_socket_directories=$directory \
      -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=200 -c timezone=UTC \
      -c autovacuum=off" start >pg_ctl.log 2>&1 </dev/null || { cat pg_ctl.log server.log; exit 1; }
    echo "ready $directory"
    read -r end || true
    """#

  private static func start() async throws -> TemporaryCluster {
    let programs = try directoryOfPrograms()
    let shell = Process()
    // The server refuses to run as root.
    let command = ["/bin/sh", "-c", script, "sh", programs]
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
    let cluster = TemporaryCluster(
      directory: String(line.dropFirst("ready ".count)), shell: shell, lifeline: lifeline)
    try await TestDatabase.makeTemplates(on: cluster)
    return cluster
  }

  /// Debian keeps the server's programs off the PATH, one directory a version; the newest is taken.
  static func directoryOfPrograms(
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
}
