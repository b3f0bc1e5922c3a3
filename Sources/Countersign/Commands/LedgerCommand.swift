import ArgumentParser
import Ledger

/// `countersign ledger`
struct LedgerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ledger", abstract: "Look into the ledger.", subcommands: [Verify.self])

  struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Check that every row of the ledger agrees with the others.",
      discussion: """
        Each user's history has to be one chain without gaps, each purchase to have one \
        owner and a proof that is intact, and the outbox to agree with the verdicts. The \
        service may run meanwhile. It takes about 10 seconds per 100,000 users.

        After an upgrade, --against compares each line of the history with a backup that \
        was made before.

        EXIT CODES
            0  everything agrees
            1  something does not, or the ledger cannot be read
           64  wrong usage
           78  the configuration is wrong

        EXAMPLES
          countersign ledger verify --config countersign.yaml
          countersign ledger verify --against backup.sqlite --config countersign.yaml
        """)

    @Option(help: ArgumentHelp("A backup of the ledger, made before an upgrade.", valueName: "file"))
    var against: String?

    @OptionGroup var options: ConfigurationOptions

    func run() async throws {
      let configuration = try options.load(requiresCredential: false)
      let verification: LedgerVerification
      do throws(LedgerOpenError) {
        verification = try await LedgerVerification.verify(path: configuration.ledger.path, against: against)
      } catch {
        CommandOutput.error(error.description)
        throw ExitCode.failure
      }
      for finding in verification.findings { print(finding) }
      let more = verification.findingCount - verification.findings.count
      if more > 0 { print("\(RunText.grouped(more)) more findings of this kind are not shown.") }
      let read =
        "\(RunText.grouped(verification.users)) users, \(RunText.grouped(verification.purchases)) purchases, "
        + "\(RunText.grouped(verification.events)) events"
      let compared = against == nil ? "" : "; \(RunText.grouped(verification.compared)) former lines compared"
      guard verification.isSound else {
        print("\(read)\(compared): \(RunText.grouped(verification.findingCount)) findings.")
        throw ExitCode.failure
      }
      print("\(read)\(compared): everything agrees.")
    }
  }
}
