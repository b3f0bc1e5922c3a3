import ArgumentParser
import CountersignServer
import Glibc

/// The command line.
@main
struct Countersign: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "countersign",
    abstract: "Validates App Store receipts and keeps each user's subscription tier up to date.",
    discussion: """
      EXAMPLES
        countersign init
        countersign serve --config countersign.yaml
        countersign inspect receipt.b64
        countersign validate receipt.b64 --config countersign.yaml
        countersign revalidate --expiring-within 24h --key-file cron.key
        countersign brake release --key-file support.key
        countersign notifications catch-up --since 2026-01-15T00:00:00Z --key-file support.key
        countersign figures --interval month --from 2025-01-01 --key-file support.key
        countersign export user-1 --out user-1.json --key-file support.key
        countersign erase user-1 --confirm user-1 --key-file support.key
        countersign backup backup.sqlite --config countersign.yaml
        countersign ledger verify --config countersign.yaml
        countersign catalog check --config countersign.yaml
        countersign import customers.jsonl --key-file backend.key
        countersign keys new --out signing.pem
        countersign doctor --config countersign.yaml
        countersign demo
      """,
    version: BuildInformation.version,
    subcommands: [
      Serve.self, Validate.self, Inspect.self, Revalidate.self, BrakeCommand.self, NotificationsCommand.self,
      FiguresCommand.self, Backup.self, LedgerCommand.self, CatalogCommand.self, ImportCommand.self, ExportCommand.self,
      EraseCommand.self,
      KeysCommand.self, InitCommand.self, Doctor.self, Health.self, Demo.self,
    ])

  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if let correction = correction(of: arguments) {
      CommandOutput.error(correction)
      Glibc.exit(ExitCode.usage.rawValue)
    }
    await main(arguments)
  }

  /// The sentence about a misspelt command: the parser itself suggests only options.
  ///
  /// - Returns: `nil` where no command is meant, and for a word that resembles none.
  static func correction(of arguments: [String]) -> String? {
    var command: any ParsableCommand.Type = Self.self
    for word in arguments {
      let known = command.configuration.subcommands
      if let next = known.first(where: { $0._commandName == word }) {
        command = next
        continue
      }
      guard !word.hasPrefix("-"), word != "help",
        let meant = Suggestion.nearest(to: word, among: known.map { $0._commandName })
      else { return nil }
      return "there is no command \(Quotation.of(word)); did you mean '\(meant)'?"
    }
    return nil
  }
}

/// Exit codes beside 0, 1 and 2, after sysexits.h.
extension ExitCode {
  /// The downgrade brake holds.
  static let stoppedByBrake = ExitCode(2)
  static let usage = ExitCode(64)
  /// The service cannot be reached.
  static let unavailable = ExitCode(69)
  /// The disk failed.
  static let ioError = ExitCode(74)
  /// Ended by a signal, as shells report it for Ctrl-C.
  static let interrupted = ExitCode(130)
  /// The same for SIGTERM.
  static let terminated = ExitCode(143)
  static let refusedCredential = ExitCode(77)
  /// The configuration is wrong.
  static let configuration = ExitCode(78)
}
