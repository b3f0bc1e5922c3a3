import Entitlements
import Foundation
import Ledger
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
    #expect(many.calls - none.calls < 250, "\(many.calls - none.calls) for 500")
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
      let probe = try Probe([scratch.path, "forever"])
      // A different instant each time: after so many acknowledgements.
      let lines = try probe.readLines(atLeast: 5 + 13 * round)
      kill(probe.process.processIdentifier, SIGKILL)
      probe.process.waitUntilExit()
      #expect(probe.process.terminationReason == .uncaughtSignal)
      acknowledged += (lines + probe.readRest()).compactMap(Self.acknowledgedUser)
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

  @Test(.enabled(if: hasStrace, "strace is not installed"))
  func `after one failed fsync nothing more is written, though the next would succeed`() async throws {
    let scratch = try Scratch()
    let first = try Probe([scratch.path, "forever"])
    let before = try first.readLines(atLeast: 6).compactMap(Self.acknowledgedUser)
    kill(first.process.processIdentifier, SIGKILL)
    first.process.waitUntilExit()
    // Opening a ledger that has a log syncs nothing: the first fsync is that of the first commit. strace counts by
    // thread; whichever thread would write next, its first fsync fails too, and later ones do not.
    let output = try Probe(
      [scratch.path, "concurrent", "200"],
      under: [
        "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
        "-e", "inject=fsync,fdatasync:error=EIO:when=1",
      ]
    ).finish()
    #expect(output.first == "ready")
    #expect(output.count { $0 == "fatal" } == 1)
    #expect(output.count { $0 == "error failed" } == 200)
    #expect(output.compactMap(Self.acknowledgedUser) == [])
    let ledger = try await scratch.open()
    #expect(before.count >= 5)
    for user in before { #expect(try await ledger.profile(of: UserID(user)) != nil) }
    try await ledger.verifyIntegrity()
    #expect(try await ledger.record(entry("after", [evidence("after")])).recorded != nil)
    await ledger.close()
  }

  @Test(.enabled(if: Tmpfs.isPossible, "a tmpfs cannot be mounted here"))
  func `a full disk is unavailable until there is room again`() async throws {
    let disk = try Tmpfs(size: "3m")
    let ledger = try await Ledger.open(path: disk.directory + "/ledger.sqlite") { problem in
      Issue.record("the ledger gave up: \(problem)")
    }
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
    let ledger = try await Ledger.open(path: disk.directory + "/ledger.sqlite") { problem in
      Issue.record("the ledger gave up: \(problem)")
    }
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
    let output = try Probe(
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
    let process = Process()
    process.executableURL = URL(fileURLWithPath: path)
    process.arguments = arguments
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return -1 }
    process.waitUntilExit()
    return process.terminationStatus
  }
}

/// A running `LedgerProbe`, which the build puts beside the tests.
final class Probe {
  struct Ended: Error {}

  let process = Process()
  private let output = Pipe()
  private var rest = ""

  init(_ arguments: [String], under strace: [String] = []) throws {
    let tests = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    let probe = tests.deletingLastPathComponent().appendingPathComponent("LedgerProbe").path
    if let tool = Tool.strace, !strace.isEmpty {
      process.executableURL = URL(fileURLWithPath: tool)
      process.arguments = strace + [probe] + arguments
    } else {
      process.executableURL = URL(fileURLWithPath: probe)
      process.arguments = arguments
    }
    process.standardOutput = output
    try process.run()
  }

  deinit {
    guard process.isRunning else { return }
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }

  /// All lines until it ends.
  func finish() throws -> [String] {
    let lines = readRest()
    process.waitUntilExit()
    guard process.terminationReason == .exit, process.terminationStatus == 0 else { throw Ended() }
    return lines
  }

  func readLines(atLeast count: Int) throws -> [String] {
    var lines: [String] = []
    while lines.count < count {
      let data = output.fileHandleForReading.availableData
      guard !data.isEmpty else { throw Ended() }
      lines += take(data)
    }
    return lines
  }

  /// What it printed before it ended; a line that was cut is not one.
  func readRest() -> [String] { take(output.fileHandleForReading.readDataToEndOfFile()) }

  private func take(_ data: Data) -> [String] {
    rest += String(decoding: data, as: UTF8.self)
    var lines = rest.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    rest = lines.popLast() ?? ""
    return lines
  }
}

/// A file system of a few megabytes in memory, unmounted with the value. Needs root.
final class Tmpfs {
  struct Failed: Error {}

  static let isPossible: Bool = (try? Tmpfs(size: "1m")) != nil

  private let scratch: Scratch
  var directory: String { scratch.directory }

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
    let path = directory + "/filler"
    _ = FileManager.default.createFile(atPath: path, contents: nil)
    guard let file = FileHandle(forWritingAtPath: path) else { return }
    let page = Data(repeating: 1, count: 4_096)
    while (try? file.write(contentsOf: page)) != nil {}
    try? file.close()
  }
}
