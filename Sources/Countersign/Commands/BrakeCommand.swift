import ArgumentParser
import Foundation
import HTTPTransport

/// `countersign brake`
struct BrakeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "brake",
    abstract: "Show the downgrade brake of the running service, or release it.",
    discussion: """
      Where too many subscribers would be lowered, the service lowers nobody until a \
      person has looked into it. Released, everything passes for an hour.

      The key is of the role 'service' or 'support', in COUNTERSIGN_API_KEY or in the \
      file of --key-file.

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
      abstract: "Say whether it is engaged, and why. This is what 'brake' alone does.")
    @OptionGroup var request: BrakeRequest
    func run() async throws { throw try await request.perform(.get) }
  }

  struct Release: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Release it, engaged or not: for an hour, what would be held back comes to pass.")
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
      let body = try await client.send(method, "/v1/brake", role: "'service' or 'support'").body
      let report = try BrakeReport(body: body)
      if json {
        print(String(decoding: body, as: UTF8.self), terminator: body.last == UInt8(ascii: "\n") ? "" : "\n")
      } else {
        print(report.text)
      }
      return report.isEngaged ? .stoppedByBrake : .success
    } catch {
      CommandOutput.error("\(client.url): \(error.sentence)")
      return error.exitCode
    }
  }
}

/// The brake as the service reports it. Members that are not known here are shown as they come, so that what a newer service
/// says more is not hidden.
struct BrakeReport {
  var isEngaged: Bool
  /// Users whom a changed catalog or policy would lower.
  var withheldByRules = 0
  /// In the order of their names, without those that are `null`.
  var members: [(name: String, value: String)]

  init(body: [UInt8]) throws(ServiceClient.Failure) {
    guard case .members(let members)? = try? JSONDecoder().decode(Value.self, from: Data(body)),
      case .flag(let isEngaged)? = members["engaged"]
    else { throw .unreachable("the answer is not a brake's; is it Countersign that listens there?") }
    self.isEngaged = isEngaged
    if case .integer(let count)? = members["withheld_by_rules"] { withheldByRules = count }
    self.members = members.sorted { $0.key < $1.key }.compactMap { name, value in
      guard name != "engaged", name != "withheld_by_rules", let text = value.text else { return nil }
      return (ServiceClient.printable(name), text)
    }
  }

  var text: String {
    let sentence =
      isEngaged
      ? "The brake is engaged: nobody is lowered unannounced until it is released. Look into it, then 'brake release'."
      : withheldByRules == 0 ? "The brake is released: nobody is held back." : "The brake is not engaged."
    let rules =
      withheldByRules == 0
      ? []
      : [
        "A changed catalog or policy would lower \(withheldByRules) of the users: they keep what they have. "
          + "Look into it, then fix the configuration, or 'brake release'."
      ]
    let width = members.map(\.name.count).max() ?? 0
    return
      ([sentence] + rules
      + members.map { "  \($0.name)\(String(repeating: " ", count: width - $0.name.count))  \($0.value)" })
      .joined(separator: "\n")
  }

  /// Any value of JSON.
  private enum Value: Decodable {
    case null
    case flag(Bool)
    case integer(Int)
    case number(Double)
    case string(String)
    case list([Value])
    case members([String: Value])

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if container.decodeNil() {
        self = .null
      } else if let flag = try? container.decode(Bool.self) {
        self = .flag(flag)
      } else if let integer = try? container.decode(Int.self) {
        self = .integer(integer)
      } else if let number = try? container.decode(Double.self) {
        self = .number(number)
      } else if let string = try? container.decode(String.self) {
        self = .string(string)
      } else if let list = try? container.decode([Value].self) {
        self = .list(list)
      } else {
        self = .members(try container.decode([String: Value].self))
      }
    }

    /// For a person; `nil` where there is nothing to show.
    var text: String? {
      switch self {
      case .null: nil
      case .flag(let flag): flag ? "yes" : "no"
      case .integer(let integer): "\(integer)"
      case .number(let number): RunText.decimal(number)
      case .string(let string): ServiceClient.printable(string)
      case .list(let values): values.isEmpty ? nil : values.compactMap(\.text).joined(separator: "; ")
      case .members(let members):
        members.sorted { $0.key < $1.key }
          .compactMap { name, value in value.text.map { "\(ServiceClient.printable(name)) \($0)" } }
          .joined(separator: ", ")
      }
    }
  }
}
