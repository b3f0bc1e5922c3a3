import Foundation
import TestSupport

/// Programs of the system that bring faults about.
enum FaultTool {
  static let strace = path("strace")
  static let mount = path("mount")
  static let umount = path("umount")

  static func path(_ name: String) -> String? {
    let directories = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":").map(String.init) ?? []
    return (directories + ["/usr/sbin", "/sbin"]).map { $0 + "/" + name }
      .first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  /// - Returns: the exit status; -1 when it could not be run.
  @discardableResult static func run(_ path: String?, _ arguments: [String]) -> Int32 {
    guard let path else { return -1 }
    return ChildProcess.runBlocking(path, arguments)
  }
}

/// A file system of a few megabytes in memory, unmounted with the value. Needs root.
final class SmallDisk: Sendable {
  struct Failed: Error {}

  static let isPossible: Bool = (try? SmallDisk(size: "1m")) != nil

  let directory: URL

  init(size: String) throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "countersign-disk-\(UUID())")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    guard FaultTool.run(FaultTool.mount, ["-t", "tmpfs", "-o", "size=\(size)", "tmpfs", path]) == 0 else {
      try? FileManager.default.removeItem(at: directory)
      throw Failed()
    }
  }

  deinit {
    FaultTool.run(FaultTool.umount, ["-l", path])
    try? FileManager.default.removeItem(at: directory)
  }

  var path: String { directory.path(percentEncoded: false) }

  func resize(_ size: String) throws {
    guard FaultTool.run(FaultTool.mount, ["-o", "remount,size=\(size)", path]) == 0 else { throw Failed() }
  }
}

/// strace's ways to make system calls on a ledger's files fail.
struct SystemCallFault {
  /// The ledger's path; the log beside it is meant too.
  var ledger: String
  /// strace's own words, such as `pwrite64:error=EIO:when=3`; empty to watch only.
  var injections: [String] = []
  var log: String

  private var arguments: [String] {
    ["-f", "-q", "-ttt", "-o", log, "-P", ledger, "-P", ledger + "-wal", "-e", "trace=pwrite64,fsync,fdatasync"]
      + injections.flatMap { ["-e", "inject=\($0)"] }
  }

  /// Runs a program from its start; the program stays the process that was started (`-D`).
  var prefix: [String] { [FaultTool.strace ?? "strace", "-D"] + arguments }

  /// Lays hold of a running process, each of its threads, until the value that is returned is released.
  func attach(to process: Int32) async throws -> Attached {
    let attached = try await Attached(arguments, process: process)
    guard try await eventually(within: .seconds(60), { attached.hasAllThreads(of: process) }) else {
      throw NotAttached()
    }
    return attached
  }

  struct NotAttached: Error {}

  final class Attached {
    private let strace: ChildProcess

    init(_ arguments: [String], process: Int32) async throws {
      strace = try await ChildProcess.start(FaultTool.strace ?? "strace", arguments + ["-p", "\(process)"])
    }

    /// The kernel names the tracer of each thread.
    func hasAllThreads(of process: Int32) -> Bool {
      let tasks = "/proc/\(process)/task"
      let threads = (try? FileManager.default.contentsOfDirectory(atPath: tasks)) ?? []
      return !threads.isEmpty
        && threads.allSatisfy { thread in
          let status = try? String(contentsOfFile: "\(tasks)/\(thread)/status", encoding: .utf8)
          return status?.contains("TracerPid:\t\(strace.processID)\n") ?? true
        }
    }

    /// Lets go of the process, which runs on.
    func release() async {
      strace.signal(SIGKILL)
      await strace.ending()
    }
  }

  /// The record that strace wrote until the process ended: one call a line. Its last line may come after the end.
  func read() async throws -> Record {
    var record = Record(lines: [])
    _ = try await eventually(within: .seconds(60)) {
      let text = try String(contentsOfFile: log, encoding: .utf8)
      record = Record(lines: text.split(separator: "\n").map(String.init))
      return text.hasSuffix("\n") && record.hasEnd
    }
    return record
  }

  struct Record {
    var lines: [String]

    /// The most calls of these names that one thread made: strace counts by thread.
    func calls(_ names: [String]) -> Int {
      let calls = lines.filter { line in names.contains { line.contains(" \($0)(") } }
      return Dictionary(grouping: calls) { $0.prefix { $0 != " " } }.values.map(\.count).max() ?? 0
    }

    /// Every thread that was seen has ended.
    var hasEnd: Bool {
      var running: Set<Substring> = []
      for line in lines {
        let thread = line.prefix { $0 != " " }
        if line.contains(" +++ ") { running.remove(thread) } else { running.insert(thread) }
      }
      return !lines.isEmpty && running.isEmpty
    }

    var injectedAt: Double? { lines.first { $0.contains("(INJECTED)") }.flatMap(Self.time) }
    var endedAt: Double? { lines.last { $0.contains("+++ exited") || $0.contains("+++ killed") }.flatMap(Self.time) }

    /// From the failed call to the end of the process, in seconds; nil where no call was made to fail.
    var delay: Double? { injectedAt.flatMap { injected in endedAt.map { $0 - injected } } }

    private static func time(_ line: String) -> Double? {
      let words = line.split(separator: " ", omittingEmptySubsequences: true)
      return words.count > 1 ? Double(words[1]) : nil
    }
  }
}
