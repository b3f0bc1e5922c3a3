import ArgumentParser
import Foundation

/// A PostgreSQL server of this run's own, on the core of the others, with its files beside those of the other ledgers. It keeps
/// what it acknowledges.
final class DatabaseServer {
  private let shell = Process()
  private let input = Pipe()
  private let directory: String
  /// The first process of the server; all others are its children.
  private let id: Int32

  private static let script = #"""
    set -eu
    export PATH="$1:$PATH" LC_ALL=C
    directory=$(mktemp -d /var/tmp/countersign-bench.XXXXXX)
    trap 'pg_ctl -D "$directory/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$directory"' EXIT
    trap 'exit 1' HUP INT TERM
    cd "$directory"
    initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-instructions >initdb.log 2>&1
    cat >>data/postgresql.conf <<EOF
    listen_addresses = ''
    unix_socket_directories = '$directory'
    shared_buffers = 512MB
    EOF
    pg_ctl -D data -w -l server.log start >pg_ctl.log 2>&1 </dev/null
    echo "$directory $(head -n 1 data/postmaster.pid)"
    read -r end || true
    """#

  init() throws {
    let root = "/usr/lib/postgresql"
    let versions = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).compactMap(Int.init)
    guard let version = versions.max() else { throw ValidationError("PostgreSQL is not installed") }
    let command = ["sh", "-c", Self.script, "sh", "\(root)/\(version)/bin"]
    // The server refuses to run as root.
    let user = geteuid() == 0 ? ["runuser", "-u", "postgres", "--"] : []
    let output = Pipe()
    shell.executableURL = URL(filePath: "/usr/bin/env")
    shell.arguments = ["taskset", "-c", "\(Bed.othersCore)"] + user + command
    shell.standardInput = input
    shell.standardOutput = output
    shell.currentDirectoryURL = URL(filePath: "/")
    try shell.run()
    let words = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self).split(separator: " ")
    guard words.count == 2, let id = Int32(words[1].trimmingCharacters(in: .whitespacesAndNewlines)) else {
      throw ValidationError("PostgreSQL did not start")
    }
    directory = String(words[0])
    self.id = id
  }

  var url: String { url(of: "postgres") }

  private func url(of database: String) -> String {
    "postgresql://postgres@\(directory.replacing("/", with: "%2F"))/\(database)"
  }

  /// Copies the database, which nobody may be connected to.
  /// - Returns: the copy's URL.
  func copy(as name: String) throws -> String {
    _ = try Child.output(of: "psql", [url(of: "template1"), "-qc", "CREATE DATABASE \(name) TEMPLATE postgres"])
    return url(of: name)
  }

  /// User and kernel time of the server's processes: those that are, and those that have ended.
  var cpu: Duration {
    let processes = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
    let ticks = processes.reduce(0) { sum, process in
      guard let text = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8),
        let end = text.lastIndex(of: ")")
      else { return sum }
      let fields = text[text.index(after: end)...].split(separator: " ").map { Int($0) ?? 0 }
      guard fields.count > 14, process == "\(id)" || fields[1] == Int(id) else { return sum }
      return sum + fields[11] + fields[12] + (process == "\(id)" ? fields[13] + fields[14] : 0)
    }
    return .milliseconds(ticks * 1000 / sysconf(Int32(_SC_CLK_TCK)))
  }

  func stop() {
    try? input.fileHandleForWriting.close()
    shell.waitUntilExit()
  }

  deinit { if shell.isRunning { stop() } }
}
