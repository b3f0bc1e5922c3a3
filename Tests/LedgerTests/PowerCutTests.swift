import Entitlements
import Foundation
import Ledger
import LedgerFixtures
import TestSupport
import Testing

private let isFull = ProcessInfo.processInfo.environment["COUNTERSIGN_FAULTS"] == "full"

/// A power cut, played: the ledger lies on a file system in a file; while eight writers are at work the process is
/// stopped and the file copied. What was not synced is in the kernel's memory, and so not in the copy. A kill cannot show
/// this: the kernel outlives it.
///
/// `COUNTERSIGN_FAULTS=full` plays fifty cuts in place of three, and fails where the short form is skipped. It alone plays the
/// controls: whether they lose anything is up to the kernel, which may write everything back just before the cut.
@Suite(
  .ofTheFile, .serialized,
  .enabled(if: Disk.isPossible || isFull, "NOT PLAYED: no ext4 image can be made and mounted here"))
struct PowerCutTests {
  @Test func `power cuts lose nothing that was acknowledged`() async throws {
    let instants = isFull ? (0..<50).map { _ in Int.random(in: 20...600) } : [40, 150, 400]
    var (acknowledged, lost) = (0, 0)
    for count in instants {
      let cut = try await Self.cut(after: count, ["forever"])
      #expect(cut.acknowledged >= count - 1)
      acknowledged += cut.acknowledged
      lost += cut.lost
    }
    print("faults: power cut: \(instants.count) cuts, \(acknowledged) acknowledged, \(lost) lost, integrity ok")
    #expect(lost == 0)
  }

  #if DEBUG
    /// The control: with the setting that only syncs at checkpoints, the same cut must lose records.
    @Test(.playedInFull) func `planted: without full synchronisation the same power cut loses some`() async throws {
      // Before the first checkpoint, which syncs: that comes after a thousand pages, which is some 140 records.
      let cut = try await Self.cutThatLoses(after: 60, ["forever", "0", "normal"])
      #expect(cut.acknowledged >= 59)
      Self.sayPlanted("synchronous=NORMAL", cut)
      #expect(cut.lost > 0)
    }
  #endif

  /// The other control: a disk that says it has written, and has not.
  @Test(.playedInFull) func `planted: on a disk that lies about its syncs the same power cut loses some`() async throws
  {
    let cut = try await Self.cutThatLoses(
      after: 150, ["forever"],
      under: [
        "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:retval=0",
      ])
    #expect(cut.acknowledged >= 149)
    Self.sayPlanted("a disk that lies about fsync", cut)
    #expect(cut.lost > 0)
  }

  private static func sayPlanted(_ defect: String, _ cut: (acknowledged: Int, lost: Int)) {
    let verdict = cut.lost > 0 ? "caught" : "NOT CAUGHT"
    print("planted: \(defect): \(cut.lost) of \(cut.acknowledged) lost: \(verdict)")
  }

  private static func cutThatLoses(
    after count: Int, _ arguments: [String], under strace: [String] = []
  ) async throws -> (acknowledged: Int, lost: Int) {
    for _ in 1..<5 {
      let cut = try await cut(after: count, arguments, under: strace)
      if cut.lost > 0 { return cut }
    }
    return try await cut(after: count, arguments, under: strace)
  }

  private static func cut(
    after count: Int, _ arguments: [String], under strace: [String] = []
  ) async throws -> (acknowledged: Int, lost: Int) {
    let disk = try Disk()
    let probe = try await Probe([disk.directory + "/ledger.sqlite"] + arguments, under: strace)
    try await probe.wait(forLines: count)
    probe.process.signal(SIGSTOP)
    try await probe.hasStopped()
    let image = try disk.copyImage()
    let users = await probe.kill().filter { $0.hasPrefix("ack ") }.map { UserID(String($0.dropFirst(4))) }

    let after = try Disk(image: image)
    let ledger = try await Ledger.open(path: after.directory + "/ledger.sqlite") { problem in
      Issue.record("the ledger gave up: \(problem)")
    }
    var lost = 0
    for user in users where try await ledger.profile(of: user) == nil { lost += 1 }
    try await ledger.verifyIntegrity()
    await ledger.close()
    return (users.count, lost)
  }
}

extension Trait where Self == ConditionTrait {
  fileprivate static var playedInFull: Self { .enabled(if: isFull, "`make faults` plays it") }
}

extension Probe {
  /// A signal is acted on some time after it was sent, by each thread for itself; the kernel shows when (state `T`, or
  /// `t` under strace).
  func hasStopped() async throws {
    let tasks = "/proc/\(process.processID)/task"
    let end = ContinuousClock.now.advanced(by: .seconds(120))
    var runs = true
    while runs {
      guard ContinuousClock.now < end else { throw Ended() }
      await Task.yield()
      runs = try FileManager.default.contentsOfDirectory(atPath: tasks).contains { thread in
        let state = try String(contentsOfFile: "\(tasks)/\(thread)/stat", encoding: .utf8)
        return !state.contains(") T ") && !state.contains(") t ")
      }
    }
  }
}

/// An ext4 file system in a file, unmounted with the value. Needs root and loop devices.
final class Disk {
  struct Failed: Error {}

  static let isPossible: Bool = (try? Disk()) != nil

  private let scratch: Scratch
  private let image: String
  var directory: String { scratch.directory + "/mount" }

  convenience init() throws {
    let scratch = try Scratch()
    let image = scratch.directory + "/image"
    guard FileManager.default.createFile(atPath: image, contents: nil) else { throw Failed() }
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: image))
    try file.truncate(atOffset: 64 << 20)
    try file.close()
    guard Tool.run(Tool.mkfs, ["-q", image]) == 0 else { throw Failed() }
    try self.init(scratch: scratch, image: image)
  }

  convenience init(image: String) throws {
    try self.init(scratch: try Scratch(), image: image)
  }

  private init(scratch: Scratch, image: String) throws {
    self.scratch = scratch
    self.image = image
    try FileManager.default.createDirectory(atPath: scratch.directory + "/mount", withIntermediateDirectories: true)
    // The file system must not sync by its own clock while the test runs.
    let status = Tool.run(Tool.mount, ["-o", "loop,commit=300", image, scratch.directory + "/mount"])
    guard status == 0 else { throw Failed() }
  }

  deinit { _ = Tool.run(Tool.umount, ["-l", directory]) }

  /// The content of the device at this moment.
  func copyImage() throws -> String {
    let copy = scratch.directory + "/copy"
    guard Tool.run(Tool.copy, ["--sparse=always", image, copy]) == 0 else { throw Failed() }
    return copy
  }
}
