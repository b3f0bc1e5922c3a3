import ArgumentParser
import CountersignAPI
import CountersignServer
import Entitlements
import FoundationEssentials
import HTTPTransport
import Logging
import NIOCore
import Validation

/// `countersign validate`
struct Validate: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Ask Apple about one receipt or signed transaction and print the verdict. Nothing is recorded.",
    discussion: """
      It asks what the service would ask: verifyReceipt, or the Server API if there is a key for it. Without a key, nobody \
      is asked about a signed transaction (JWS), and 'source' is 'signature'.

      Exit codes: 0 a verdict, whatever it says; 1 no verdict; 78 the configuration is wrong.

      EXAMPLES
        countersign validate receipt.b64 --config countersign.yaml
        countersign validate --json < transaction.jws
      """)

  @Argument(help: "A file with a receipt, in base64 or as bytes, or a JWS; without it, or with '-', standard input.")
  var file: String?

  @OptionGroup var options: ConfigurationOptions

  @Option(name: .long, help: "The user to evaluate for; only policy.testers depends on it.")
  var user = "command-line"

  @Flag(name: .long, help: "Print JSON.")
  var json = false

  func run() async throws {
    let configuration = try options.load(requiresCredential: false)
    configuration.log.bootstrap()
    let verdict = try await CommandOutput.reporting(
      await Self.verdict(on: ReceiptFile.read(file), of: UserID(user), configuration, clock: .system()))
    if json {
      let body = EntitlementResponse(user: UserID(user), entitlement: verdict, isFromLedger: false, write: .none)
      print(String(buffer: JSONBody.encode(body)), terminator: "")
    } else {
      print(verdict.summary)
    }
  }

  /// The answer of a service that knows nothing else of the user.
  static func verdict(
    on contents: [UInt8], of user: UserID, _ configuration: ServiceConfiguration, clock: ServiceClock
  ) async throws -> Entitlement {
    let logger = Logger(label: "countersign")
    let services = try configuration.appStoreServices(
      environment: ServiceEnvironment(logger: logger, clock: clock, ledgerFailed: { _ in }))
    defer { services.transport.shutdown() }
    await services.storeClock?.begin()
    let gateway = AppStoreGateway(configuration, services, now: { clock.now })
    do throws(Validation.ValidationError) {
      let receipt = try gateway.decode(contents: contents)
      let reference = PurchaseReference(receipt: receipt, proof: try gateway.proof(of: receipt))
      let accepted = try await gateway.ask(about: reference, for: user, mayReuse: false, logger: logger)
      var evidence = accepted.history.evidence()
      if let original = accepted.history.originalPurchase {
        let key = SubscriptionKey(
          environment: accepted.history.environment, originalTransactionID: OriginalTransactionID(ofApp: "unrecorded"))
        evidence.append(original.evidence(key, of: receipt.claimedBundleID, source: accepted.history.source))
      }
      return gateway.rules.evaluate(user, evidence, at: accepted.evaluatedAt)
    } catch { throw ReceiptFile.Unreadable(description: Problem(error).detail) }
  }
}

extension Entitlement {
  /// The verdict in words for a person.
  var summary: String {
    [
      "tier          \(tier)", "status        \(status.rawValue)", "reason        \(reason.rawValue)",
      "product       \(productID?.rawValue ?? "none")",
      "expires at    \(expiresAt?.rfc3339 ?? "-")", "access until  \(accessUntil?.rfc3339 ?? "-")",
      "environment   \(environment?.rawValue ?? "-")", "evidence at   \(evidenceTime?.rfc3339 ?? "-")",
      "source        \(source?.rawValue ?? "-")\(isStale ? ", stale" : "")",
    ].joined(separator: "\n")
  }
}
