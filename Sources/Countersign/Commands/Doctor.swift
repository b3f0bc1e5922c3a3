import AppStore
import ArgumentParser
import CountersignServer
import FoundationEssentials
import Ledger
import NIOCore

/// `countersign doctor`
struct Doctor: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Check everything the service depends on, and say what to do.",
    discussion: """
      It changes nothing, may run beside the service, and takes half a minute at most. Run it as the service's user: it \
      checks what that user may do. Each line is right ('ok'), worth a look ('warning') or wrong ('fail').

      The shared secret is sent to Apple with the receipt of --receipt, else with the newest one in the ledger, else with a \
      few bytes that are no receipt, which does not prove the secret. A key of the Server API is tried at both stores, by \
      asking about a transaction that does not exist. A service that runs here is asked for /readyz, at the address of \
      server.admin, or of server without TLS, and what it says is among the lines.

      Exit codes: 0 nothing to fix, 1 something to fix, 78 the configuration is wrong.

      EXAMPLES
        countersign doctor --config countersign.yaml
        countersign doctor --json
        countersign doctor --receipt receipt.b64
        countersign doctor --test-notification
      """)

  @OptionGroup var options: ConfigurationOptions

  @Option(
    name: .long, help: "A file with the receipt of a subscription, to prove the shared secret; '-' is standard input.")
  var receipt: String?

  @Flag(name: .long, help: "Have Apple post a test notification for each app and store, and say how it fared.")
  var testNotification = false

  @Flag(name: .long, help: "Print JSON.")
  var json = false

  func run() async throws {
    let configuration: ServiceConfiguration
    do throws(ConfigurationError) {
      configuration = try ServiceConfiguration.load(
        file: options.config, environment: ProcessInfo.processInfo.environment)
    } catch { return try CheckupReport(error).finish(json: json) }
    var submitted: String?
    if let receipt {
      do {
        let decoded = try SubmittedReceipt.decode(contents: ReceiptFile.read(receipt))
        switch decoded.content {
        case .signedTransaction, .appTransaction:
          throw ReceiptFile.Unreadable(description: "verifyReceipt takes no signed transaction; give an app receipt.")
        case .app, .transaction: break
        }
        submitted = decoded.base64
      } catch let error as UndecodableReceipt {
        throw CommandOutput.failure("--receipt: \(error.detail)")
      } catch {
        throw CommandOutput.failure("--receipt: \(error)")
      }
    }
    let checkup = Checkup(
      configuration: configuration, receipt: submitted, testsNotifications: testNotification,
      openFileLimit: ProcessStatistics.current().maxFiles)
    try CheckupReport(await checkup.run()).finish(json: json)
  }
}
