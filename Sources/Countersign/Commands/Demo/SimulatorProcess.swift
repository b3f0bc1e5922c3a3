import Foundation

/// A running `app-store-simulator`. It ends with this process, whatever happens to it.
final class SimulatorProcess: @unchecked Sendable {
  // `Process` is not Sendable; it is only touched by `start`, before anybody else has it, and by `stop`.
  private let process: Process
  private let standardInput: Pipe

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
    let process = Process()
    let output = Pipe()
    let input = Pipe()
    let rootFile = directory.appending(path: "root.pem").path(percentEncoded: false)
    process.executableURL = URL(filePath: program)
    process.arguments = [
      "serve", "--port", "0", "--control-port", "0", "--shared-secret", sharedSecret, "--root-out", rootFile,
      "--exit-with-parent",
    ]
    process.standardInput = input
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    // One line, written in one piece when it listens; an end of file when it could not start.
    let handle = output.fileHandleForReading
    let line = await Task.detached { handle.availableData }.value
    guard let ready = try? JSONDecoder().decode(Ready.self, from: line) else {
      process.terminate()
      throw DemoFailure("\(program) did not start; run it by hand to see why.")
    }
    return SimulatorProcess(process, input, ready, rootFile: rootFile)
  }

  /// The program of that name in the directory of this one.
  private static var sibling: String {
    let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
    return URL(filePath: own).deletingLastPathComponent().appending(path: "app-store-simulator")
      .path(percentEncoded: false)
  }

  private init(_ process: Process, _ input: Pipe, _ ready: Ready, rootFile: String) {
    self.process = process
    self.standardInput = input
    self.productionURL = ready.production_url
    self.sandboxURL = ready.sandbox_url
    self.controlURL = ready.control_url
    self.rootFile = rootFile
  }

  func stop() {
    process.terminate()
    process.waitUntilExit()
  }
}
