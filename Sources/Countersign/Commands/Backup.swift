import ArgumentParser
import CountersignAPI
import CountersignServer
import Entitlements
import FoundationEssentials
import Ledger
import NIOCore

/// `countersign backup`
struct Backup: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Copy the ledger, while the service runs or not, and check the copy.",
    discussion: """
      The copy shows the ledger at one moment; the service keeps running. Only the \
      copy's owner can read it. It is called FILE.partial until it is complete, checked \
      and on disk; an existing file is never overwritten. Run it as the service's user.

      EXIT CODES
          0  done
          1  not done; no FILE is left
         64  wrong usage
         78  the configuration is wrong

      EXAMPLES
        countersign backup --config countersign.yaml \\
          /var/backups/countersign-$(date +%F).sqlite
        countersign backup --json backup.sqlite
      """)

  @Argument(help: "The file to write; it must not exist.")
  var file: String

  @OptionGroup var options: ConfigurationOptions

  @Flag(name: .long, help: "Print JSON.")
  var json = false

  func run() async throws {
    let configuration = try options.load(requiresCredential: false)
    guard case .file = configuration.ledger.place else {
      throw CommandOutput.failure("The ledger is in PostgreSQL: back it up with pg_dump, or as the database is.")
    }
    let backup = try await CommandOutput.reporting(await LedgerBackup.make(of: configuration.ledger.path, to: file))
    let report = Report(
      file: backup.file, bytes: backup.bytes, users: backup.users, newestEntryAt: backup.newestEntry)
    print(json ? String(buffer: JSONBody.encode(report)) : Self.text(backup), terminator: "")
  }

  private static func text(_ backup: LedgerBackup) -> String {
    let size = Wording.roughSize(UInt64(clamping: backup.bytes))
    let users = "\(RunText.grouped(backup.users)) \(backup.users == 1 ? "user" : "users")"
    let newest = backup.newestEntry.map { "the newest entry of \($0.rfc3339)" } ?? "no entry"
    return "\(backup.file): \(size), \(users), \(newest); its structure is sound.\n"
  }

  private struct Report: Encodable {
    var file: String
    var bytes: Int64
    var users: Int
    @Nullable var newestEntryAt: Date?

    enum CodingKeys: String, CodingKey {
      case file, bytes, users
      case newestEntryAt = "newest_entry_at"
    }
  }
}
