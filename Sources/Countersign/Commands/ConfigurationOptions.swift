import ArgumentParser
import FoundationEssentials

/// The source of the configuration, for every command that needs it.
struct ConfigurationOptions: ParsableArguments {
  @Option(name: .long, help: "The configuration file, in YAML; COUNTERSIGN_CONFIG names it otherwise.")
  var config: String?

  /// Reads the configuration, or writes every problem to standard error and ends with exit code 78.
  func load(requiresCredential: Bool) throws -> ServiceConfiguration {
    let environment = ProcessInfo.processInfo.environment
    do {
      return try ServiceConfiguration.load(
        file: config, environment: environment, requiresCredential: requiresCredential)
    } catch {
      for problem in error.problems { CommandOutput.error(problem.description) }
      if config == nil, environment[ConfigurationKey.fileVariable] == nil {
        CommandOutput.error("no configuration file is named; --config FILE names it. 'countersign init' writes one.")
      }
      throw ExitCode.configuration
    }
  }
}

/// The output of commands for people.
enum CommandOutput {
  static func error(_ line: String) { LogOutput.standardError.write("countersign: \(line)\n") }

  /// Reports an error.
  /// - Returns: the exit code for it, to be thrown.
  static func failure(_ line: String, _ code: ExitCode = .failure) -> ExitCode {
    error(line)
    return code
  }

  /// Beside the output: questions, progress, and the welcome of a start.
  static func status(_ text: String) { LogOutput.standardError.write(text) }

  /// The result of a step. Its error is reported, and ends the command with exit code 1.
  static func reporting<Value>(_ step: @autoclosure () async throws -> Value) async throws -> Value {
    do { return try await step() } catch { throw failure("\(error)") }
  }

  /// Prints a text for people, or the service's answer as it came.
  static func show(_ text: String, or answer: [UInt8]?) {
    let shown = answer.map { String(decoding: $0, as: UTF8.self) } ?? text
    print(shown, terminator: shown.hasSuffix("\n") ? "" : "\n")
  }
}
