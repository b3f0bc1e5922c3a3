import ArgumentParser
import CountersignAPI
import FoundationEssentials
import HTTPTransport

/// `countersign export`
struct ExportCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export",
    abstract: "Read everything that the running service keeps of a user.",
    discussion: """
      The answer is one JSON document, with the user's receipts. It is for the user, and \
      for nobody else.

      The command needs an API key of the role 'service' or 'support', in \
      COUNTERSIGN_API_KEY or in the file that --key-file names.

      EXIT CODES
          0  done
          1  the file could not be written; an existing one is never overwritten
         64  wrong usage
         69  the service cannot be reached
         77  the service refuses the key

      EXAMPLES
        countersign export user-1 --out user-1.json --key-file support.key
        countersign export user-1 | jq .devices
      """)

  @Argument(help: "The user ID.")
  var user: String

  @Option(name: .long, help: "The file to write, readable by its owner only; standard output if not given.")
  var out: String?

  @OptionGroup var service: ServiceOptions

  /// The most bytes of an export: it is read into memory.
  private static let limit = 512 * 1024 * 1024

  /// A member of the document, whatever it is.
  private struct Member: Decodable {}

  func run() async throws {
    let path = "\(ServiceClient.path(of: user))/export"
    let body = try await service.ask(.get, path, answerLimit: Self.limit)
    // One that broke off is not complete.
    guard (try? JSONDecoder().decode([String: Member].self, from: Data(body))) != nil else {
      throw CommandOutput.failure("the answer is not whole; try again.", .unavailable)
    }
    if let out { return try NewFile.write(body, to: out) }
    do throws(OpenFile.Failure) { try OpenFile.standardOutput.write(body) } catch {
      throw CommandOutput.failure("standard output cannot be written: \(error).")
    }
  }
}

/// `countersign erase`
struct EraseCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "erase",
    abstract: "Erase a user from the running service, for ever.",
    discussion: """
      Receipts, notes, devices, usage, attributes and every ID of the user go. What stays \
      has a pseudonym: the purchases, for whoever presents the receipt, the history's facts, \
      and the devices of trials. The profile row is reset. Delete the account in the app \
      first: a user who posts again is a new one.

      The command needs an API key of the role 'service' or 'support', in \
      COUNTERSIGN_API_KEY or in the file that --key-file names.

      EXIT CODES
          0  erased, now or before
          2  erased; the profile store is away, and the ID is kept until the row is reset
         64  wrong usage, or --confirm is not the user ID
         69  the service cannot be reached, or could not finish: repeat it
         77  the service refuses the key

      EXAMPLES
        countersign erase user-1 --confirm user-1 --key-file support.key
        countersign erase user-1 --confirm user-1 --json
      """)

  @Argument(help: "The user ID.")
  var user: String

  @Option(name: .long, help: "The user ID once more.")
  var confirm: String

  @OptionGroup var service: ServiceOptions

  @Flag(name: .long, help: "Print the service's answer, one JSON object.")
  var json = false

  func run() async throws {
    guard confirm == user else {
      throw CommandOutput.failure("--confirm has to be the user ID once more; nothing was erased.", .usage)
    }
    let (erasure, body): (ErasureResponse, [UInt8]) = try await service.ask(
      .delete, ServiceClient.path(of: user),
      or: "the answer is not an erasure's; is it Countersign that listens there?")
    CommandOutput.show(erasure.text, or: json ? body : nil)
    if erasure.profileWrite == .queued { throw ExitCode(2) }
  }
}

extension ServiceClient {
  /// The path of a user.
  static func path(of user: String) -> String {
    // A dot may be a segment of its own, which clients resolve.
    "/v1/profiles/\(user.percentEncoded.replacing(".", with: "%2E"))"
  }
}

extension ErasureResponse {
  /// The result as sentences for a terminal.
  var text: String {
    let row =
      switch profileWrite {
      case .committed: "The profile row is reset."
      case .queued: "The profile store is away: the ID is kept until the row is reset."
      case .missing: "There is no profile row."
      default: "There was no profile row to reset."
      }
    return """
      Erased. \(row)
        gone  receipts \(erased.receipts + erased.waitingReceipts), notes \(erased.notes), devices \(erased.devices), \
      usage \(erased.usage), SDK customers \(erased.customers), texts of notifications \(erased.notifications), \
      events \(erased.events)
        kept  purchases \(kept.purchases), lines of the history \(kept.history), grants \(kept.grants), \
      trials \(kept.trials), without the name
      """
  }
}
