import AppStore
import ArgumentParser
import FoundationEssentials

/// `countersign inspect`
struct Inspect: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Say what a receipt is, who signed it and what it proves, without asking Apple.",
    discussion: """
      Takes a receipt, a StoreKit 2 transaction or renewal info (JWS), a server notification, an answer of the App \
      Store Server API as JSON, or the body of a request with a receipt. Signed parts inside are verified too; the \
      shared secret in a notification is not shown.
      An event of RevenueCat's is explained; nothing in it proves who sent it.

      Exit codes: 0 authentic, 1 not authentic, 2 cannot be decoded.

      EXAMPLES
        countersign inspect receipt.b64
        countersign inspect --json < receipt.b64
        countersign inspect transaction.jws
        countersign inspect --json notification.json
        countersign inspect revenuecat-event.json
        countersign inspect --roots simulator-root.pem samples/receipts/renewing.b64
      """)

  @Argument(help: "A file with base64, bytes, a JWS or JSON; without it, or with '-', standard input.")
  var file: String?

  @Option(name: .long, help: "A file of root certificates to trust in place of Apple's; may be repeated.")
  var roots: [String] = []

  @Flag(name: .long, help: "Print JSON.")
  var json = false

  func run() async throws {
    let bytes: [UInt8]
    let trusted: TrustedRoots
    do {
      bytes = try ReceiptFile.read(file)
      trusted = roots.isEmpty ? .apple : try TrustedRoots(files: roots)
    } catch { throw CommandOutput.failure("\(error)", ExitCode(2)) }
    if let event = RevenueCatInspection(of: bytes, now: Date()) {
      print(json ? event.json() : event.text())
      throw ExitCode(event.isReadable ? 1 : 2)
    }
    let inspection = ReceiptInspection(of: bytes, roots: trusted, now: Date())
    print(json ? inspection.json() : inspection.text())
    throw ExitCode(inspection.outcome.rawValue)
  }
}
