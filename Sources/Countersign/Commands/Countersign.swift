import ArgumentParser

/// The command line.
@main
struct Countersign: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "countersign",
    abstract: "Validates App Store receipts and keeps each user's subscription tier true.",
    discussion: """
      EXAMPLES
        countersign serve --config countersign.yaml
        countersign inspect receipt.b64
        countersign validate receipt.b64 --config countersign.yaml
        countersign doctor --config countersign.yaml
        countersign demo
      """,
    subcommands: [Serve.self, Validate.self, Inspect.self, Doctor.self, Demo.self])
}

/// Exit codes beside 0, 1 and 2, after sysexits.h.
extension ExitCode {
  /// The disk failed.
  static let ioError = ExitCode(74)
  /// Ended by a signal, as shells tell it for Ctrl-C.
  static let interrupted = ExitCode(130)
  /// The configuration is wrong.
  static let configuration = ExitCode(78)
}
