import Entitlements
import Foundation
import Ledger
import LedgerFixtures
import TestSupport
import Testing

/// Tests against a process of its own (`LedgerProbe`) or a file system of its own.
@Suite(.ofTheFile, .serialized) struct DurabilityTests {
  static let hasStrace = Tool.strace != nil

  // MARK: fsync

  @Test(.enabled(if: hasStrace, "strace is not installed"))
  func `each record that waits for nobody has an fsync of its own`() async throws {
    let (none, fifty) = try await (Self.fsyncs("sequential", 0), Self.fsyncs("sequential", 50))
    #expect(fifty.calls - none.calls >= 50, "\(none.calls) for none, \(fifty.calls) for 50")
    #expect(fifty.acknowledged == 50)
  }

  @Test(.enabled(if: hasStrace, "strace is not installed"))
  func `records at the same time share fsyncs`() async throws {
    let (none, many) = try await (Self.fsyncs("concurrent", 0), Self.fsyncs("concurrent", 500))
    #expect(many.acknowledged == 500)
    #expect(many.calls - none.calls >= 8)  // batches hold 64
    #expect(many.calls - none.calls < 50, "\(many.calls - none.calls) for 500")
  }

  #if DEBUG
    /// The control of the two above: with the setting that loses records in a power cut, the count shows it.
    @Test(.enabled(if: hasStrace, "strace is not installed"))
    func `without full synchronisation there are no fsyncs to count`() async throws {
      let (none, fifty) = try await (Self.fsyncs("sequential", 0, "normal"), Self.fsyncs("sequential", 50, "normal"))
      #expect(fifty.acknowledged == 50)
      // One checkpoint may fall among them: it syncs the log, the file, and the log that begins anew.
      #expect(abs(fifty.calls - none.calls) <= 3, "\(none.calls) for none, \(fifty.calls) for 50")
    }
  #endif

  // MARK: kill -9

  @Test func `twenty kills lose nothing that was acknowledged`() async throws {
    let scratch = try Scratch()
    var acknowledged: [String] = []
    for round in 1...20 {
      let probe = try await Probe([scratch.path, "forever"])
      // A different instant each time: after so many acknowledgements.
      try await probe.wait(forLines: 5 + 13 * round)
      acknowledged += await probe.kill().compactMap(Self.acknowledgedUser)
      #expect(await probe.process.ending().wasKilled)
    }
    #expect(acknowledged.count >= 20 * 15)
    let ledger = try await scratch.open()
    var lost: [String] = []
    for user in acknowledged where try await ledger.profile(of: UserID(user)) == nil { lost.append(user) }
    #expect(lost == [], "\(lost.count) of \(acknowledged.count)")
    try await ledger.verifyIntegrity()
    await ledger.close()
  }

  // MARK: Failing disks

  /// SQLite tells nobody of it where it copies within a COMMIT.
  @Test(.enabled(if: hasStrace, "strace is not installed"))
  func `a copy of the log that cannot be synced ends the process`() async throws {
    let scratch = try Scratch()
    await (try await scratch.open()).close()
    let failing = Self.failingSyncs(of: scratch.path)
    let output = try await Probe([scratch.path, "sequential", "800"], under: failing).finish()
    #expect(output.count { $0 == "fatal" } == 1)
    let acknowledged = output.compactMap(Self.acknowledgedUser)
    #expect(output.count { $0 == "error failed" } == 800 - acknowledged.count)
    // Those whose records were copied have had their answers.
    #expect(acknowledged.count >= 64)
    let ledger = try await scratch.open()
    for user in acknowledged { #expect(try await ledger.profile(of: UserID(user)) != nil) }
    try await ledger.verifyIntegrity()
    await ledger.close()
  }

  /// A sync of the log may have failed in the process before: then its last pages are in the kernel's memory alone.
  @Test(.enabled(if: hasStrace, "strace is not installed"))
  func `a log that was left behind is on the disk before anything is recorded on it`() async throws {
    let scratch = try Scratch()
    let probe = try await Probe([scratch.path, "forever"])
    try await probe.wait(forLines: 20)
    let acknowledged = await probe.kill().compactMap(Self.acknowledgedUser)
    let failing = try await Probe([scratch.path, "sequential", "1"], under: Self.failingSyncs(of: scratch.path))
    #expect(try await failing.finish() == ["open diskFailed"])
    #expect(try await Probe([scratch.path, "sequential", "1"]).finish().first == "ready")
    let ledger = try await scratch.open()
    for user in acknowledged { #expect(try await ledger.profile(of: UserID(user)) != nil) }
    await ledger.close()
  }

  private static func failingSyncs(of path: String) -> [String] {
    [
      "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", "trace=fdatasync,fsync", "-e",
      "inject=fdatasync,fsync:error=EIO:when=1",
    ]
  }

  #if DEBUG
    @Test func `after one failed fsync nothing more is written, though the next would succeed`() async throws {
      let scratch = try Scratch()
      let first = try await Probe([scratch.path, "forever"])
      try await first.wait(forLines: 6)
      var before = await first.kill().compactMap(Self.acknowledgedUser)
      await (try await scratch.open()).close()
      // The start of a log is synced while it is opened; the third sync is that of a commit.
      let output = try await Probe([scratch.path, "concurrent", "400"], logFault: "sync:3:\(EIO)").finish()
      #expect(output.first == "ready")
      #expect(output.count { $0 == "fatal" } == 1)
      let acknowledged = output.compactMap(Self.acknowledgedUser)
      let failed = output.count { $0 == "error failed" }
      #expect(failed > 0 && failed + acknowledged.count == 400)
      before += acknowledged
      let ledger = try await scratch.open()
      #expect(before.count >= 5)
      for user in before { #expect(try await ledger.profile(of: UserID(user)) != nil) }
      try await ledger.verifyIntegrity()
      #expect(try await ledger.record(entry("after", [evidence("after")])).recorded != nil)
      await ledger.close()
    }
  #endif

  @Test(.enabled(if: Tmpfs.isPossible, "a tmpfs cannot be mounted here"))
  func `a full disk is unavailable until there is room again`() async throws {
    let disk = try Tmpfs(size: "3m")
    let ledger = try await disk.scratch.open()
    let receipt = String(repeating: "A", count: 40_000)
    var recorded: [String] = []
    var failure: LedgerError?
    for number in 0..<500 where failure == nil {
      do throws(LedgerError) {
        _ = try await ledger.record(
          entry(UserID("u\(number)"), [evidence("\(number)")], receipt: receipt + "\(number)"))
        recorded.append("u\(number)")
      } catch {
        failure = error
      }
    }
    guard case .unavailable(let sentence) = failure else {
      Issue.record("\(String(describing: failure)) after \(recorded.count)")
      return
    }
    #expect(sentence.contains("full"))
    #expect(recorded.count > 10)
    for user in recorded { #expect(try await ledger.profile(of: UserID(user)) != nil) }

    try disk.resize("30m")
    for number in 500..<520 {
      _ = try await ledger.record(entry(UserID("u\(number)"), [evidence("\(number)")], receipt: receipt + "\(number)"))
      recorded.append("u\(number)")
    }
    try await ledger.check()
    for user in recorded { #expect(try await ledger.profile(of: UserID(user)) != nil) }
    try await ledger.verifyIntegrity()
    await ledger.close()
  }

  @Test(.enabled(if: Tmpfs.isPossible, "a tmpfs cannot be mounted here"))
  func `the check notices a full disk`() async throws {
    let disk = try Tmpfs(size: "3m")
    let ledger = try await disk.scratch.open()
    try await ledger.check()
    disk.fill()
    var failure: LedgerError?
    // The log may have a few pages of room left in what is allocated.
    for _ in 0..<20 where failure == nil {
      do throws(LedgerError) { try await ledger.check() } catch { failure = error }
    }
    guard case .unavailable = failure else {
      Issue.record("\(String(describing: failure))")
      return
    }
    try disk.resize("30m")
    try await ledger.check()
    await ledger.close()
  }

  // MARK: Counting

  private struct Count {
    var calls: Int
    var acknowledged: Int
  }

  private static func fsyncs(_ mode: String, _ count: Int, _ more: String...) async throws -> Count {
    let scratch = try Scratch()
    let log = scratch.directory + "/strace"
    let output = try await Probe(
      [scratch.path, mode, "\(count)"] + more, under: ["-f", "-qq", "-o", log, "-e", "trace=fsync,fdatasync"]
    ).finish()
    let lines = try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n")
    // A call that another thread interrupts is printed on two lines.
    let calls = lines.count { ($0.contains("fsync(") || $0.contains("fdatasync(")) && !$0.contains("resumed") }
    return Count(calls: calls, acknowledged: output.compactMap(acknowledgedUser).count)
  }

  private static func acknowledgedUser(_ line: String) -> String? {
    line.hasPrefix("ack ") ? String(line.dropFirst(4)) : nil
  }
}

enum Tool {
  static let strace = path("strace")
  static let mount = path("mount")
  static let umount = path("umount")
  static let mkfs = path("mkfs.ext4")
  static let copy = path("cp")

  private static func path(_ name: String) -> String? {
    ["/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"].map { $0 + name }
      .first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  /// - Returns: the exit status.
  static func run(_ path: String?, _ arguments: [String]) -> Int32 {
    guard let path else { return -1 }
    return ChildProcess.runBlocking(path, arguments)
  }
}

/// A running `LedgerProbe`, which the build puts beside the tests.
final class Probe: Sendable {
  struct Ended: Error {}

  let process: ChildProcess

  /// - Parameter fault: of the log, such as `write:8:5`: the eighth write fails with errno 5; `read:1:5` is of the file.
  init(_ arguments: [String], under strace: [String] = [], logFault fault: String? = nil) async throws {
    let tests = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    let probe = tests.deletingLastPathComponent().appendingPathComponent("LedgerProbe").path
    if let tool = Tool.strace, !strace.isEmpty {
      process = try await ChildProcess.start(tool, strace + [probe] + arguments)
    } else {
      let environment = fault.map {
        ProcessInfo.processInfo.environment.merging(["COUNTERSIGN_PLANTED_LOG_FAULT": $0]) { $1 }
      }
      process = try await ChildProcess.start(probe, arguments, environment: environment)
    }
  }

  /// All lines until it ends.
  func finish() async throws -> [String] {
    let ending = await process.ending()
    guard ending.code == 0, !ending.wasKilled else { throw Ended() }
    return Self.lines(in: ending.output)
  }

  func wait(forLines count: Int) async throws {
    guard await process.output({ Self.lines(in: $0).count >= count }) != nil else { throw Ended() }
  }

  /// Ends it as a power cut would.
  /// - Returns: what it printed before; a line that was cut is not one.
  func kill() async -> [String] {
    process.signal(SIGKILL)
    return Self.lines(in: await process.ending().output)
  }

  private static func lines(in text: String) -> [String] {
    text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
  }
}

/// A file system of a few megabytes in memory, unmounted with the value. Needs root.
final class Tmpfs {
  struct Failed: Error {}

  static let isPossible: Bool = (try? Tmpfs(size: "1m")) != nil

  let scratch: Scratch

  init(size: String) throws {
    scratch = try Scratch()
    guard Tool.run(Tool.mount, ["-t", "tmpfs", "-o", "size=\(size)", "tmpfs", scratch.directory]) == 0 else {
      throw Failed()
    }
  }

  deinit { _ = Tool.run(Tool.umount, ["-l", scratch.directory]) }

  func resize(_ size: String) throws {
    guard Tool.run(Tool.mount, ["-o", "remount,size=\(size)", scratch.directory]) == 0 else { throw Failed() }
  }

  /// Leaves no byte free.
  func fill() {
    let path = scratch.directory + "/filler"
    _ = FileManager.default.createFile(atPath: path, contents: nil)
    guard let file = FileHandle(forWritingAtPath: path) else { return }
    let page = Data(repeating: 1, count: 4_096)
    while (try? file.write(contentsOf: page)) != nil {}
    try? file.close()
  }
}
