import FoundationEssentials
import Glibc

/// A running `app-store-simulator`. It ends with this process, whatever happens to it.
struct SimulatorProcess: Sendable {
  private let id: pid_t
  /// Held open: the program ends when nobody can write to it any more.
  private let standardInput: OpenFile

  static let sharedSecret = "demo"

  let productionURL: String
  let sandboxURL: String
  let controlURL: String
  let rootFile: String

  private struct Ready: Decodable {
    var production_url: String
    var sandbox_url: String
    var control_url: String
  }

  /// Starts it and waits until it listens.
  static func start(program: String?, directory: URL) async throws -> SimulatorProcess {
    let program = program ?? Self.sibling
    guard FileManager.default.isExecutableFile(atPath: program) else {
      throw DemoFailure("\(program) is not there; build it, or name it with --simulator.")
    }
    let rootFile = directory.appending(path: "root.pem").path(percentEncoded: false)
    let (id, input, output) = try spawn(
      program,
      [
        "serve", "--port", "0", "--control-port", "0", "--shared-secret", sharedSecret, "--root-out", rootFile,
        "--exit-with-parent",
      ])
    // One line, written in one piece when it listens; an end of file when it could not start.
    let line = await Task.detached { try? output.read(upTo: 65_536) }.value
    guard let line, let ready = try? JSONDecoder().decode(Ready.self, from: Data(line)) else {
      end(id)
      throw DemoFailure("\(program) did not start; run it by hand to see why.")
    }
    return SimulatorProcess(
      id: id, standardInput: input, productionURL: ready.production_url, sandboxURL: ready.sandbox_url,
      controlURL: ready.control_url, rootFile: rootFile)
  }

  /// The program of that name in the directory of this one.
  private static var sibling: String {
    let link = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let own = link ?? CommandLine.arguments.first ?? ""
    return URL(filePath: own).deletingLastPathComponent().appending(path: "app-store-simulator")
      .path(percentEncoded: false)
  }

  /// Starts a program with pipes for its standard input and output, and without standard error.
  private static func spawn(
    _ program: String, _ arguments: [String]
  ) throws(DemoFailure) -> (id: pid_t, input: OpenFile, output: OpenFile) {
    let (input, output) = (try pipe(), try pipe())
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, input.reader.descriptor, STDIN_FILENO)
    posix_spawn_file_actions_adddup2(&actions, output.writer.descriptor, STDOUT_FILENO)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
    // A group of its own: Ctrl-C is for this process, which tidies up. Signals that are trapped here, and those that a thread
    // of Dispatch's blocks, are neither there: SIGTERM has to end it.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)
    let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
    posix_spawnattr_setflags(&attributes, Int16(flags))
    var words = ([program] + arguments).map { strdup($0) } + [nil]
    var variables = ProcessInfo.processInfo.environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { for text in words + variables { free(text) } }
    var id = pid_t()
    let code = posix_spawn(&id, program, &actions, &attributes, &words, &variables)
    guard code == 0 else { throw DemoFailure("\(program) cannot be started: \(OpenFile.Failure(code: code)).") }
    return (id, input.writer, output.reader)
  }

  private static func pipe() throws(DemoFailure) -> (reader: OpenFile, writer: OpenFile) {
    var ends: [Int32] = [-1, -1]
    guard Glibc.pipe(&ends) == 0 else { throw DemoFailure("There are too many open files.") }
    // The program gets copies of two of them: with the others it would never see an end of file.
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return (OpenFile(owning: ends[0]), OpenFile(owning: ends[1]))
  }

  private static func end(_ id: pid_t) {
    kill(id, SIGTERM)
    while waitpid(id, nil, 0) < 0, errno == EINTR {}
  }

  func stop() { withExtendedLifetime(standardInput) { Self.end(id) } }
}
