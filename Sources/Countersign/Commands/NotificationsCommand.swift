import ArgumentParser
import CountersignAPI
import Entitlements
import FoundationEssentials
import HTTPTransport

/// `countersign notifications`
struct NotificationsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "notifications",
    abstract: "Show what was asked of Apple's history of notifications, or ask for what was missed.",
    discussion: """
      The service asks by itself after every start and every day for what could not be \
      delivered. 'catch-up' also asks for what Apple believes to be delivered: after a \
      wrong URL, or after a ledger was restored. Apple keeps 180 days, and 30 in the sandbox.

      The command needs an API key of the role 'service' or 'support', in \
      COUNTERSIGN_API_KEY or in the file that --key-file names.

      EXIT CODES
          0  done
         64  wrong usage
         69  the service cannot be reached, or Apple cannot be asked
         77  the service refuses the key

      EXAMPLES
        countersign notifications --key-file support.key
        countersign notifications catch-up --since 2026-01-15T00:00:00Z --key-file support.key
      """,
    subcommands: [Show.self, CatchUp.self], defaultSubcommand: Show.self)

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show until when it was asked. This is the default.")
    @OptionGroup var service: ServiceOptions
    @Flag(name: .long, help: "Print the service's answer, one JSON object.")
    var json = false

    func run() async throws {
      let (answer, body): (NotificationHistoryResponse, [UInt8]) = try await service.ask(
        .get, NotificationHistoryResponse.path, or: NotificationHistoryResponse.complaint)
      CommandOutput.show(answer.text, or: json ? body : nil)
    }
  }

  struct CatchUp: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Ask Apple for every notification since a moment, and wait until all are taken.")
    @Option(name: .long, help: "The moment, as 2026-01-15T00:00:00Z.")
    var since: String
    @OptionGroup var service: ServiceOptions
    @Flag(name: .long, help: "Print the service's last answer, one JSON object.")
    var json = false

    func run() async throws {
      let (client, transport) = try service.client(environment: ProcessInfo.processInfo.environment)
      defer { transport.shutdown() }
      do throws(ServiceClient.Failure) {
        var body = try await client.post(NotificationHistoryResponse.path, CatchUpRequest(since: since)).body
        var answer: NotificationHistoryResponse = try ServiceClient.decode(
          body, or: NotificationHistoryResponse.complaint)
        while answer.sources.contains(where: { $0.isAsking && $0.problem == nil }) {
          do { try await Task.sleep(for: .seconds(1)) } catch { throw .cancelled }
          body = try await client.send(.get, NotificationHistoryResponse.path).body
          answer = try ServiceClient.decode(body, or: NotificationHistoryResponse.complaint)
        }
        CommandOutput.show(answer.text, or: json ? body : nil)
        let isAsked = !answer.sources.isEmpty && answer.sources.contains { $0.problem == nil }
        guard isAsked else { throw ServiceClient.Failure.unreachable("Apple could not be asked") }
      } catch { throw CommandOutput.failure("\(client.url): \(error.sentence)", error.exitCode) }
    }
  }
}

extension NotificationHistoryResponse {
  static let path = "/v1/notifications/history"

  static let complaint = "the answer is not one of notifications; is it Countersign, of this version?"

  /// The state in words.
  var text: String {
    guard !sources.isEmpty else { return "Apple cannot be asked: app_store.server_api is not set." }
    return sources.flatMap { source in
      var lines = ["\(source.bundleID), \(source.environment)"]
      lines.append("  asked until  \(source.through?.rfc3339 ?? "never")\(source.isAsking ? ", and being asked" : "")")
      lines.append("  taken        \(source.taken) of \(source.seen)")
      if !source.passedOver.isEmpty {
        let passedOver = source.passedOver.map(ServiceClient.printable).joined(separator: ", ")
        lines.append("  passed over  \(passedOver): the log says why")
      }
      if let problem = source.problem { lines.append("  problem      \(ServiceClient.printable(problem))") }
      if let gap = source.gap {
        lines.append("  gap          \(gap.from.rfc3339) to \(gap.to.rfc3339): Apple does not keep them")
      }
      return lines
    }.joined(separator: "\n")
  }
}
