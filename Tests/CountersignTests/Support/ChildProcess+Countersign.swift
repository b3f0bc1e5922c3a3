import Foundation
import TestSupport

extension ChildProcess {
  static let script = "/usr/bin/script"
  static var hasTerminal: Bool { FileManager.default.isExecutableFile(atPath: script) }

  /// Starts a command of `countersign`.
  ///
  /// - Parameters:
  ///   - key: what it calls a service with; `nil`: none.
  ///   - onTerminal: under a pseudo-terminal of 100 columns; what it shows is the output then.
  static func countersign(
    _ arguments: [String], key: String? = RunningService.serviceKey, onTerminal: Bool = false
  ) async throws -> ChildProcess {
    let program = try ServiceProcess.program("countersign")
    var environment = ServiceProcess.environment
    environment["COUNTERSIGN_API_KEY"] = key
    environment["TERM"] = "xterm"
    guard onTerminal else { return try await start(program, arguments, environment: environment) }
    let line = ([program] + arguments).map { "'\($0)'" }.joined(separator: " ")
    return try await start(script, ["-qefc", "stty cols 100; exec \(line)", "/dev/null"], environment: environment)
  }
}
