import Foundation
import TestSupport
import Testing

@testable import Countersign

@Suite struct SimulatorProcessTests {
  /// A program that says where it listens, and ends with its standard input or by a signal.
  private static let ready = """
    #!/bin/sh
    echo '{"production_url":"http://p","sandbox_url":"http://s","control_url":"http://c"}'
    exec cat >/dev/null
    """

  /// The program is a copy that another process wrote: a program that another test starts at the same time inherits for a moment
  /// the files that this process writes, and the kernel starts no program that is open for writing (execve(2), `ETXTBSY`).
  private func start(_ text: String) async throws -> SimulatorProcess {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    let script = try directory.write("script", text, mode: 0o700)
    let program = directory.path + "/simulator"
    let copy = try await ChildProcess.run("/bin/cp", ["-p", script, program])
    try #require(copy.code == 0)
    return try await SimulatorProcess.start(program: program, directory: URL(filePath: "/tmp"))
  }

  /// It is started by a thread that blocks signals, which a program inherits.
  @Test(.timeLimit(.minutes(10))) func `a simulator is started, and ends when it has to`() async throws {
    let simulator = try await start(Self.ready)
    #expect(simulator.productionURL == "http://p" && simulator.sandboxURL == "http://s")
    #expect(simulator.controlURL == "http://c" && simulator.rootFile == "/tmp/root.pem")
    simulator.stop()
  }

  @Test(
    .timeLimit(.minutes(10)), arguments: ["#!/bin/sh\nexit 1", "#!/bin/sh\necho nonsense\nexec cat", "#!/no/shell"])
  func `a program that does not say where it listens is no simulator`(script: String) async {
    await #expect(throws: DemoFailure.self) { try await start(script) }
  }

  @Test func `a program that is not there is named`() async {
    let failure = await #expect(throws: DemoFailure.self) {
      try await SimulatorProcess.start(program: "/no/simulator", directory: URL(filePath: "/tmp"))
    }
    #expect(failure?.description == "/no/simulator is not there; build it, or name it with --simulator.")
  }
}
