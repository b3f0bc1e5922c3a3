import ArgumentParser
import FoundationEssentials
import Glibc

/// `app-store-simulator`: simulates the App Store for development and tests.
@main
struct AppStoreSimulatorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "app-store-simulator",
    abstract: "Simulates Apple's verifyReceipt, Server API, notifications and DeviceCheck for development and tests.",
    discussion: """
      Development CAs with public keys sign the receipts and transactions. Trust in their roots is trust in everybody: \
      name them in the configuration of a test, never in production's.

      EXAMPLES
        Start with a clock that stands still:
          app-store-simulator serve --port 8443 --control-port 8444 \\
            --clock 2026-01-15T12:00:00Z --root-out root.pem

        Make a receipt for a subscription in its grace period:
          app-store-simulator receipt --scenario grace > receipt.b64

        Validate a receipt:
          curl --cacert root.pem https://127.0.0.1:8443/verifyReceipt -d \\
            '{"receipt-data":"'$(cat receipt.b64)'","password":"simulator"}'

        Send notifications to a service, and begin a scenario:
          curl http://127.0.0.1:8444/notifications -d \\
            '{"url":"http://127.0.0.1:8080/v1/notifications/app-store"}'
          curl http://127.0.0.1:8444/transactions -d \\
            '{"scenario":"eventful_year","subscriber":7}'

        Make a device token for DeviceCheck, and read the device's two bits:
          curl http://127.0.0.1:8444/device-tokens -d '{"device":"phone-1"}'
          curl http://127.0.0.1:8444/devices/phone-1

        Show a subscriber's renewals 90 seconds late; make an old receipt:
          curl http://127.0.0.1:8444/receipts -d \\
            '{"scenario":"subscriber","late":"90s"}'
          curl http://127.0.0.1:8444/receipts -d \\
            '{"scenario":"lifetime_refunded","age":"50d"}'

        Move the clock; cause a trouble in all services, or in one:
          curl http://127.0.0.1:8444/clock -d '{"advance":"30d"}'
          curl http://127.0.0.1:8444/trouble -d '{"trouble":"html","count":3}'
          curl http://127.0.0.1:8444/trouble -d \\
            '{"trouble":"http_503","service":"device_check"}'
      """,
    subcommands: [
      ServeCommand.self, ReceiptCommand.self, TransactionCommand.self, ScenariosCommand.self, RootCommand.self,
      ServerAPIKeyCommand.self, DeviceCheckKeyCommand.self,
    ])
}

/// The options of `receipt` and `transaction`.
struct IssueOptions: ParsableArguments {
  @Option(help: "A scenario; `app-store-simulator scenarios` lists them. `receipt` also takes a trouble.")
  var scenario = Scenario.renewing.rawValue

  @Option(help: "production or sandbox.")
  var environment = StoreEnvironment.production

  @Option(help: "The customer's number, which determines the transaction IDs.")
  var subscriber: Int64 = 1

  @Option(help: "The app's bundle ID.")
  var bundleID = Product.defaultBundleID

  @Option(help: "The time of issue, RFC 3339; by default now.", transform: Timestamp.parse)
  var clock: Timestamp?

  @Option(help: "The delay of renewals, such as 90s; by default the scenario's own.", transform: DurationText.parse)
  var late: Int64?

  @Option(help: "The age of the signature, such as 50d: later events are not in it.", transform: DurationText.parse)
  var age: Int64 = 0

  /// Issues what the options order.
  func issue(_ issue: (ReceiptIssuer, inout ReceiptOrder, Timestamp) throws -> Void) throws {
    var order = ReceiptOrder(
      environment: environment, subscriber: subscriber, bundleID: bundleID, renewalsLateBy: late, age: age)
    do {
      try order.setScenario(named: scenario)
      try issue(ReceiptIssuer(pki: try DevelopmentPKI()), &order, clock ?? Timestamp(Date()))
    } catch let error as IssueError { throw ValidationError(error.description) }
  }
}

/// `app-store-simulator receipt`: prints receipts in base64.
struct ReceiptCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "receipt", abstract: "Print a receipt in base64.",
    discussion: """
      --count prints the receipts of as many customers, one in each line: of --subscriber and the numbers that follow.

      EXAMPLES
        app-store-simulator receipt --scenario renewing
        app-store-simulator receipt --scenario upgraded --subscriber 7
        app-store-simulator receipt --environment sandbox --format ber
        app-store-simulator receipt --count 1000 > receipts.txt
      """)

  @OptionGroup var options: IssueOptions

  @Option(help: "der, ber, ios6, xcode, forged or padded.")
  var format = ReceiptFormat.der

  @Option(help: "The number of receipts, each of another customer.")
  var count = 1

  func validate() throws {
    guard (1...1_000_000).contains(count) else { throw ValidationError("--count has to be between 1 and 1000000.") }
  }

  func run() async throws {
    try options.issue { issuer, order, now in
      order.format = format
      for number in 0..<Int64(count) {
        let (next, isTooLarge) = options.subscriber.addingReportingOverflow(number)
        order.subscriber = isTooLarge ? .max : next
        print(try issuer.issue(order, at: now).receiptData)
      }
    }
  }
}

/// `app-store-simulator transaction`: prints one signed transaction.
struct TransactionCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "transaction", abstract: "Print a signed transaction (JWS), as StoreKit 2 gives it to an app.",
    discussion: """
      A running simulator answers the Server API only for transactions that it issued itself, by POST /transactions of \
      its control API, and for customers whose receipts it has received.

      EXAMPLES
        app-store-simulator transaction --scenario renewing
        app-store-simulator transaction --scenario grace \\
          --app-account-token 7e3fb204-2d0a-4d0b-9e1b-0d8d5f6f4c3a
      """)

  @OptionGroup var options: IssueOptions

  @Option(help: "The UUID that the app gave the purchase; by default none.")
  var appAccountToken: String?

  func run() async throws {
    try options.issue { issuer, order, now in
      order.appAccountToken = appAccountToken
      print(try issuer.issueTransaction(order, at: now).signedTransaction)
    }
  }
}

/// `app-store-simulator scenarios`: prints one line per scenario.
struct ScenariosCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "scenarios", abstract: "List the scenarios and the troubles.")

  func run() async throws {
    let entries = Scenario.allCases.map { ($0.rawValue, $0.summary) }
    let troubles = Trouble.allCases.map { ($0.rawValue, $0.summary) }
    let width = (entries + troubles).map(\.0.count).max() ?? 0
    for (name, summary) in entries + troubles {
      print(name + String(repeating: " ", count: width - name.count + 2) + summary)
    }
  }
}

/// `app-store-simulator root`: prints the root certificate.
struct RootCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "root", abstract: "Print the root certificates in PEM: of receipts and TLS, and of signed data.")

  func run() async throws { print(DevelopmentPKI.rootPEM, terminator: "") }
}

/// `app-store-simulator server-api-key`: prints the key with which callers of the Server API sign.
struct ServerAPIKeyCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "server-api-key", abstract: "Print the Server API's development key in PEM (.p8).",
    discussion: "Key ID \(DeveloperTokens.keyID), issuer ID \(DeveloperTokens.issuerID).")

  func run() async throws { print(DevelopmentKeys.serverAPIKey) }
}

/// `app-store-simulator device-check-key`: prints the key with which callers of DeviceCheck sign.
struct DeviceCheckKeyCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "device-check-key", abstract: "Print DeviceCheck's development key in PEM (.p8).",
    discussion: "Key ID \(TeamTokens.keyID), team ID \(TeamTokens.teamID).")

  func run() async throws { print(DevelopmentKeys.deviceCheckKey) }
}

extension StoreEnvironment: ExpressibleByArgument {}
extension ReceiptFormat: ExpressibleByArgument {}

extension DurationText {
  static func parse(_ text: String) throws -> Int64 {
    guard let milliseconds = milliseconds(text) else {
      throw ValidationError("'\(text)' is no duration such as 300ms, 10s, 5m, 24h or 30d.")
    }
    return milliseconds
  }
}

extension Timestamp {
  static func parse(_ text: String) throws -> Timestamp {
    guard let timestamp = Timestamp(text: text) else {
      throw ValidationError("'\(text)' is no RFC 3339 time such as 2026-01-15T12:00:00Z.")
    }
    return timestamp
  }
}
