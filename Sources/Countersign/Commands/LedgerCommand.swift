import ArgumentParser
import Entitlements
import Files
import Glibc
import Ledger

import struct FoundationEssentials.Date

/// `countersign ledger`
struct LedgerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ledger", abstract: "Look into the ledger, or move it.",
    subcommands: [Verify.self, Retention.self, Copy.self])

  struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Check that every row of the ledger agrees with the others.",
      discussion: """
        Each user's history has to be one chain without gaps, each purchase to have one \
        owner and a proof that is intact, and the outbox to agree with the verdicts. The \
        service may run meanwhile. It takes about 10 seconds per 100,000 users.

        --against compares each line of the history with an older backup: after an upgrade, \
        or after retention, to prove what it has removed. It is for a ledger in a file, and \
        not for one in PostgreSQL.

        EXIT CODES
            0  everything agrees
            1  something does not, or the ledger cannot be read
           64  wrong usage
           78  the configuration is wrong

        EXAMPLES
          countersign ledger verify --config countersign.yaml
          countersign ledger verify --against backup.sqlite --config countersign.yaml
        """)

    @Option(help: ArgumentHelp("A backup of the ledger, older than it.", valueName: "file"))
    var against: String?

    @OptionGroup var options: ConfigurationOptions

    func run() async throws {
      let configuration = try options.load(requiresCredential: false)
      let verification = try await CommandOutput.reporting(
        await LedgerVerification.verify(at: configuration.ledger.place, against: against))
      for finding in verification.findings { print(finding) }
      let more = verification.findingCount - verification.findings.count
      if more > 0 { print("\(RunText.grouped(more)) more findings of this kind are not shown.") }
      let read =
        "\(RunText.grouped(verification.users)) users, \(RunText.grouped(verification.purchases)) purchases, "
        + "\(RunText.grouped(verification.events)) events"
      var compared = against == nil ? "" : "; \(RunText.grouped(verification.compared)) former lines compared"
      if verification.removed > 0 {
        compared += "; \(RunText.grouped(verification.removed)) lines removed by retention"
      }
      guard verification.isSound else {
        print("\(read)\(compared): \(RunText.grouped(verification.findingCount)) findings.")
        throw ExitCode.failure
      }
      print("\(read)\(compared): everything agrees.")
    }
  }

  struct Retention: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Say what retention has removed from the history, and what it would.",
      discussion: """
        Nothing is changed: it is the service that removes lines, once retention.history is \
        configured. --history tries a span before. The service may run meanwhile.

        EXIT CODES
            0  done
            1  the ledger cannot be read
           64  wrong usage
           78  the configuration is wrong

        EXAMPLES
          countersign ledger retention --config countersign.yaml
          countersign ledger retention --history 3y --config countersign.yaml
        """)

    @Option(help: ArgumentHelp("The span to try, in place of retention.history.", valueName: "duration"))
    var history: String?

    @OptionGroup var options: ConfigurationOptions

    func validate() throws { _ = try history.map(Self.span) }

    func run() async throws {
      let configuration = try options.load(requiresCredential: false)
      let span = try history.map(Self.span) ?? configuration.retention.history
      let report = try await CommandOutput.reporting(
        await RetentionReport.read(
          at: configuration.ledger.place, before: span.map { Date.now.advanced(by: .zero - $0) }))
      print(Self.text(of: report, span))
    }

    /// - Parameter span: how long the history is kept whole; `nil`: for ever.
    static func text(of report: RetentionReport, _ span: Duration?) -> String {
      let removed = report.removed == 0 ? "None was removed" : "\(RunText.grouped(report.removed)) were removed"
      let first = "Lines of the history: \(RunText.grouped(report.events)). \(removed) so far.\n"
      guard let span else { return first + "retention.history is not set, so that none will be." }
      let old = first + "Older than \(span.configurationText): \(RunText.grouped(report.old))."
      guard report.old > 0 else { return old }
      guard report.needless > 0 else { return old + " All of them stay." }
      return old + " \(RunText.grouped(report.needless)) of them would be removed, "
        + "and \(RunText.grouped(report.old - report.needless)) stay. "
        + "Users with lines to remove: \(RunText.grouped(report.users))."
    }

    private static func span(_ text: String) throws -> Duration {
      let range = ServiceConfiguration.Retention.range
      do throws(Duration.TextError) { return try Duration(configurationText: text, in: range) } catch {
        throw ValidationError("--history \(error.sentence(in: range)), not '\(text)'.")
      }
    }
  }

  struct Copy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Copy the ledger from its file to PostgreSQL, or back.",
      discussion: """
        The configured ledger is copied to the place that --to names, which has to be \
        empty: a connection URL of PostgreSQL's, or the path of a new file. Each table is \
        compared after it was copied. A copy that was broken off goes on where it was. \
        Stop the service first; then start it with the new place in its configuration.

        A password in a URL is seen by others in the list of processes: use --to-file, or \
        leave it to PGPASSFILE.

        EXIT CODES
            0  everything was copied, and is the same
            1  it was not
           64  wrong usage
           78  the configuration is wrong

        EXAMPLES
          countersign ledger copy --to postgresql://countersign@db.example.com/ledger \\
            --verify --config countersign.yaml
          countersign ledger copy --to-file url.txt --config countersign.yaml
        """)

    @Option(help: ArgumentHelp("Where to copy it.", valueName: "place"))
    var to: String?

    @Option(help: ArgumentHelp("A file that holds the place.", valueName: "file"))
    var toFile: String?

    @Flag(help: "Check the copy as `ledger verify` does.")
    var verify = false

    @OptionGroup var options: ConfigurationOptions

    func validate() throws {
      guard (to == nil) != (toFile == nil) else { throw ValidationError("Name one of --to and --to-file.") }
    }

    private func place() throws -> LedgerPlace {
      var text = to ?? ""
      if let toFile {
        do throws(BoundedFile.Unusable) {
          text =
            String(decoding: try BoundedFile(path: toFile, limit: 4_096).bytes, as: UTF8.self)
            .split(whereSeparator: \.isNewline).first.map(String.init) ?? ""
        } catch {
          throw CommandOutput.failure("The file \(toFile) \(error.reason).")
        }
      }
      guard text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") else { return .file(text) }
      guard LedgerPlace.isURL(text) else {
        throw CommandOutput.failure(
          "The place is not a URL that PostgreSQL understands: postgresql://user@host/database")
      }
      return .database(url: text, connections: 1)
    }

    func run() async throws {
      let configuration = try options.load(requiresCredential: false)
      let target = try place()
      let isTerminal = isatty(STDERR_FILENO) == 1
      let counts: [String: Int]
      do throws(LedgerCopy.Failure) {
        counts = try await LedgerCopy.copy(from: configuration.ledger.place, to: target) { progress in
          guard isTerminal else { return }
          let share = progress.total == 0 ? 100 : progress.rows * 100 / progress.total
          let bar = String(repeating: "#", count: share / 4) + String(repeating: ".", count: 25 - share / 4)
          CommandOutput.status("\r[\(bar)] \(share) %  \(RunText.grouped(progress.rows)) rows  \(progress.table)")
        }
        if isTerminal { CommandOutput.status("\n") }
      } catch {
        if isTerminal { CommandOutput.status("\n") }
        throw CommandOutput.failure(error.description)
      }
      let rows = counts.values.reduce(0, +)
      print("\(RunText.grouped(rows)) rows of \(counts.count) tables were copied, and are the same.")
      guard verify else { return }
      let verification = try await CommandOutput.reporting(await LedgerVerification.verify(at: target))
      for finding in verification.findings { print(finding) }
      guard verification.isSound else { throw ExitCode.failure }
      print("The copy is sound: \(RunText.grouped(verification.users)) users.")
    }
  }
}
