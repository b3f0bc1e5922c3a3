import Subprocess
import Synchronization
import SystemPackage

#if canImport(Glibc)
  import Glibc
#endif

/// A program that a test runs as a process of its own, and may signal or kill.
///
///     let probe = try await ChildProcess.start(program, ["forever"])
///     let lines = await probe.output { $0.contains("ready") }
///     probe.signal(SIGKILL)
///     let ending = await probe.ending()
///
/// It begins with the default action for each signal, whatever this process ignores or blocks, and inherits no file but its
/// standard streams. When the value goes, the process is killed.
package final class ChildProcess: Sendable {
  /// The exit code and the output of a process that has ended.
  package struct Ending: Sendable {
    /// The exit code, or the signal's number where one ended the process.
    package var code: Int32
    package var wasKilled: Bool
    /// All that it wrote to standard output and to standard error.
    package var output: String
    package var error: String
  }

  package let processID: Int32
  private let record: Record
  private let input: AsyncStream<[UInt8]>.Continuation

  private init(processID: Int32, record: Record, input: AsyncStream<[UInt8]>.Continuation) {
    self.processID = processID
    self.record = record
    self.input = input
  }

  deinit {
    signal(SIGKILL)
    input.finish()
  }

  /// Starts a program.
  ///
  /// - Parameters:
  ///   - program: its path.
  ///   - environment: of the process; `nil`: that of this one.
  ///   - directory: where it works; `nil`: where this one does.
  ///   - keepsInputOpen: whether its standard input stays open, for `write` and `closeInput`; it is empty otherwise.
  package static func start(
    _ program: String, _ arguments: [String] = [], environment: [String: String]? = nil, directory: String? = nil,
    keepsInputOpen: Bool = false
  ) async throws -> ChildProcess {
    let configuration = Configuration(
      executable: .path(FilePath(program)), arguments: Arguments(arguments),
      environment: environment.map { variables in
        .custom(Dictionary(uniqueKeysWithValues: variables.map { (.init(stringLiteral: $0.key), $0.value) }))
      } ?? .inherit,
      workingDirectory: directory.map { FilePath($0) })
    let record = Record()
    let (inputs, input) = AsyncStream<[UInt8]>.makeStream()
    if !keepsInputOpen { input.finish() }
    let processID = try await withCheckedThrowingContinuation { started in
      Task.detached {
        do {
          let result = try await Subprocess.run(
            configuration, input: .inputWriter, output: .sequence, error: .sequence
          ) { execution in
            record.begin()
            started.resume(returning: execution.processIdentifier.value)
            await withTaskGroup { group in
              group.addTask { await record.read(execution.standardOutput, as: \.output) }
              group.addTask { await record.read(execution.standardError, as: \.error) }
              let writing = Task {
                for await bytes in inputs { _ = try await execution.standardInputWriter.write(bytes) }
                try await execution.standardInputWriter.finish()
              }
              await group.waitForAll()
              writing.cancel()
              _ = await writing.result
            }
          }
          record.end(result.terminationStatus)
        } catch {
          // A failure before the start is the caller's to hear; afterwards nothing but the end can fail.
          if record.hasBegun { record.end(.exited(-1)) } else { started.resume(throwing: error) }
        }
      }
    }
    return ChildProcess(processID: processID, record: record, input: input)
  }

  /// Runs a program to its end. The parameters are those of `start`.
  package static func run(
    _ program: String, _ arguments: [String] = [], environment: [String: String]? = nil, directory: String? = nil
  ) async throws -> Ending {
    let process = try await start(program, arguments, environment: environment, directory: directory)
    return await process.ending()
  }

  /// Runs a program to its end and blocks the thread meanwhile, for what cannot wait, such as a `deinit`. What it writes is
  /// thrown away.
  /// - Returns: the exit code; -1 where there is none.
  package static func runBlocking(_ program: String, _ arguments: [String]) -> Int32 {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for stream in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
      posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0)
    }
    let words = ([program] + arguments).map { strdup($0) }
    defer { for word in words { free(word) } }
    var process: pid_t = 0
    guard posix_spawn(&process, program, &actions, nil, words + [nil], environ) == 0 else { return -1 }
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 { guard errno == EINTR else { return -1 } }
    return status & 0x7f == 0 ? (status >> 8) & 0xff : -1
  }

  /// Sends a signal, unless the process is known to have ended.
  package func signal(_ number: Int32) { record.whileRunning { _ = kill(processID, number) } }

  /// Writes to its standard input.
  package func write(_ text: String) { input.yield(Array(text.utf8)) }

  package func closeInput() { input.finish() }

  /// Waits until standard output is enough; `nil` where it never was.
  package func output(_ isEnough: (String) -> Bool) async -> String? { await record.text(\.output, isEnough) }

  /// Waits until standard error is enough; `nil` where it never was.
  package func error(_ isEnough: (String) -> Bool) async -> String? { await record.text(\.error, isEnough) }

  /// Waits until it has ended and all that it wrote is read.
  @discardableResult package func ending() async -> Ending { await record.ending() }
}

/// The state of a process. The task that reads from it keeps this alive, and not the `ChildProcess`.
private final class Record: Sendable {
  struct Written {
    var output: [UInt8] = []
    var error: [UInt8] = []
  }

  private struct State {
    var written = Written()
    var hasBegun = false
    var end: TerminationStatus?
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  var hasBegun: Bool { state.withLock { $0.hasBegun } }

  func begin() { state.withLock { $0.hasBegun = true } }

  /// Under the lock, as the number of a process that has ended may become another's.
  func whileRunning(_ work: () -> Void) {
    state.withLock { if $0.end == nil { work() } }
  }

  func read(_ sequence: SubprocessOutputSequence, as stream: any WritableKeyPath<Written, [UInt8]> & Sendable) async {
    do {
      for try await part in sequence {
        change { state in part.withUnsafeBytes { state.written[keyPath: stream].append(contentsOf: $0) } }
      }
    } catch {
      change { $0.written.error.append(contentsOf: Array("\nIt cannot be read: \(error)\n".utf8)) }
    }
  }

  func end(_ status: TerminationStatus) { change { $0.end = status } }

  func text(_ stream: any KeyPath<Written, [UInt8]> & Sendable, _ isEnough: (String) -> Bool) async -> String? {
    while true {
      let (bytes, isOver) = state.withLock { ($0.written[keyPath: stream], $0.end != nil) }
      let text = String(decoding: bytes, as: UTF8.self)
      if isEnough(text) { return text }
      if isOver { return nil }
      await changed(until: { $0.written[keyPath: stream].count != bytes.count || $0.end != nil })
    }
  }

  func ending() async -> ChildProcess.Ending {
    await changed(until: { $0.end != nil })
    return state.withLock { state in
      let (code, wasKilled): (Int32, Bool) =
        switch state.end {
        case .exited(let code): (code, false)
        case .signaled(let signal): (signal, true)
        case nil: (-1, false)
        }
      return ChildProcess.Ending(
        code: code, wasKilled: wasKilled, output: String(decoding: state.written.output, as: UTF8.self),
        error: String(decoding: state.written.error, as: UTF8.self))
    }
  }

  private func change(_ body: (inout State) -> Void) {
    let waiters = state.withLock { state in
      body(&state)
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Waits for a change after which something holds.
  private func changed(until holds: (State) -> Bool) async {
    while !state.withLock({ holds($0) }) {
      await withCheckedContinuation { waiter in
        let isOver = state.withLock { state in
          if holds(state) { return true }
          state.waiters.append(waiter)
          return false
        }
        if isOver { waiter.resume() }
      }
    }
  }
}
