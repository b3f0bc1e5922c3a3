import AppStore
import ArgumentParser
import Entitlements
import Foundation
import HTTPTransport
import Logging
import NIOCore

/// `countersign validate`
struct Validate: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Ask Apple about one receipt and print the verdict. Nothing is recorded.",
    discussion: """
      Exit codes: 0 a verdict, whatever it says; 1 no verdict; 78 the configuration is wrong.

      EXAMPLES
        countersign validate receipt.b64 --config countersign.yaml
        countersign validate --json < receipt.b64
      """)

  @Argument(help: "A file with the receipt, in base64 or as bytes; standard input without it, or with '-'.")
  var file: String?

  @OptionGroup var options: ConfigurationOptions

  @Option(name: .long, help: "The user to judge for; it matters to policy.testers only.")
  var user = "command-line"

  @Flag(name: .long, help: "Print JSON.")
  var json = false

  func run() async throws {
    let configuration = try options.load(requiresCredential: false)
    configuration.log.bootstrap()
    let verdict: EntitlementBody
    do {
      verdict = try await self.verdict(configuration)
    } catch {
      CommandOutput.error("\(error)")
      throw ExitCode.failure
    }
    if json {
      print(String(buffer: JSONBody.encode(verdict)))
    } else {
      print(verdict.entitlement.summary)
    }
  }

  private func verdict(_ configuration: ServiceConfiguration) async throws -> EntitlementBody {
    let logger = Logger(label: "countersign")
    let services = try configuration.appStoreServices(
      environment: ServiceEnvironment(logger: logger, ledgerFailed: { _ in }))
    defer { services.transport.shutdown() }
    let clock = ServiceClock.system()
    let examiner = ReceiptExaminer(configuration, services, now: { clock.now })
    let contents = try ReceiptFile.read(file)
    do throws(ValidationError) {
      let receipt = try examiner.decode(contents: contents)
      let subject = Subject(receipt: receipt, proof: try examiner.proof(of: receipt))
      let user = UserID(user)
      let history: PurchaseHistory
      do throws(AppStoreTrouble) {
        history = try await examiner.ask(about: subject, for: user, mayReuse: false, logger: logger).history
      } catch {
        throw ValidationError(error)
      }
      let entitlement = examiner.rules.judge(user, history.evidence(), at: history.judgedAt)
      return EntitlementBody(user: user, entitlement: entitlement, isFromLedger: false, write: .none)
    } catch {
      throw ReceiptFile.Unreadable(description: Problem(error).detail)
    }
  }
}

extension Entitlement {
  /// The verdict in words for a person.
  var summary: String {
    var lines = [
      "tier          \(tier)", "status        \(status.rawValue)", "reason        \(reason.rawValue)",
      "product       \(productID?.rawValue ?? "none")",
      "expires at    \(expiresAt?.rfc3339 ?? "-")", "access until  \(accessUntil?.rfc3339 ?? "-")",
      "environment   \(environment?.rawValue ?? "-")", "evidence at   \(evidenceTime?.rfc3339 ?? "-")",
    ]
    if let line = explanation.line { lines.append("rule          line \(line) of the decision table") }
    return lines.joined(separator: "\n")
  }
}
