import ArgumentParser
import CountersignAPI
import Entitlements
import FoundationEssentials
import HTTPTransport

/// `countersign brake`
struct BrakeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "brake",
    abstract: "Show the downgrade brake of the running service, or release it.",
    discussion: """
      When too many subscribers would be downgraded, the service downgrades nobody \
      until a person has looked into it. Releasing the brake lets everything through \
      for an hour.

      The command needs an API key of the role 'service' or 'support', in \
      COUNTERSIGN_API_KEY or in the file that --key-file names.

      EXIT CODES
          0  it is released: nobody is held back
          2  it is engaged
         64  wrong usage
         69  the service cannot be reached
         77  the service refuses the key

      EXAMPLES
        countersign brake --key-file support.key
        countersign brake --json
        countersign brake release --url https://countersign.example.com
      """,
    subcommands: [Show.self, Release.self], defaultSubcommand: Show.self)

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Show whether it is engaged, and why. This is the default.")
    @OptionGroup var request: BrakeRequest
    func run() async throws { throw try await request.perform(.get) }
  }

  struct Release: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Release it, engaged or not: for an hour nothing is held back.")
    @OptionGroup var request: BrakeRequest
    func run() async throws { throw try await request.perform(.delete) }
  }
}

/// One request about the brake, and what is shown of the answer.
struct BrakeRequest: ParsableArguments {
  @OptionGroup var service: ServiceOptions

  @Flag(name: .long, help: "Print the service's answer, one JSON object.")
  var json = false

  func perform(_ method: TransportRequest.Method) async throws -> ExitCode {
    let (client, transport) = try service.client(environment: ProcessInfo.processInfo.environment)
    defer { transport.shutdown() }
    do throws(ServiceClient.Failure) {
      let body = try await client.send(method, "/v1/brake").body
      let report = try BrakeState(body: body)
      CommandOutput.show(report.text, or: json ? body : nil)
      return report.isEngaged ? .stoppedByBrake : .success
    } catch {
      CommandOutput.error("\(client.url): \(error.sentence)")
      return error.exitCode
    }
  }
}

extension BrakeState {
  init(body: [UInt8]) throws(ServiceClient.Failure) {
    self = try ServiceClient.decode(body, or: "the answer is not a brake's; is it Countersign that listens there?")
  }

  /// The brake in words.
  var text: String {
    var lines = [
      isEngaged
        ? "The brake is engaged: nobody is lowered unexpectedly until it is released. Look into it, then 'brake release'."
        : withheldByRules == 0 ? "The brake is released: nobody is held back." : "The brake is not engaged."
    ]
    if withheldByRules > 0 {
      lines.append(
        "A changed catalog or policy would lower \(withheldByRules) of the users: they keep what they have. "
          + "Look into it, then fix the configuration, or 'brake release'.")
    }
    if let lookedAt { lines.append("  looked_at  \(lookedAt)") }
    if let lowered { lines.append("  lowered    \(lowered)") }
    if let since { lines.append("  since      \(since.rfc3339)") }
    if let withheld { lines.append("  withheld   \(withheld)") }
    return lines.joined(separator: "\n")
  }
}
