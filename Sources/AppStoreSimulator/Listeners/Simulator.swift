import FoundationEssentials
import Hummingbird
import Logging
import NIOCore
import NIOSSL

/// Simulates Apple for development and tests: `verifyReceipt`, the Server API and DeviceCheck for production and
/// sandbox over TLS, receipts, transactions and device tokens to send to them, and notifications of events.
///
///     let simulator = try await Simulator.start()
///     let receipt = try simulator.issueReceipt(.grace)
///     … POST receipt.receiptData to simulator.productionURL, trusting simulator.rootPEMPath …
///     let transaction = try simulator.issueTransaction(.eventfulYear, subscriber: 2)
///     … ask simulator.serverAPIURL about transaction.originalTransactionID …
///     simulator.deliverNotifications(to: url)
///     simulator.advanceClock(by: .seconds(8 * 86_400))
///     await simulator.stop()
enum Simulator {
  /// The settings of a simulator. The default listens on free ports of the loopback interface, by the real clock.
  struct Configuration: Sendable {
    static let defaultSharedSecret = "simulator"

    /// The address to listen on; a name is added to the TLS certificate besides `localhost`, `127.0.0.1` and `::1`.
    var host = "127.0.0.1"
    /// 0 selects a free port.
    var port = 0
    /// The port of the plain-HTTP control API; nil for none, 0 for a free port.
    var controlPort: Int?
    /// The address of the control API, apart from `host`: anybody who reaches it can do everything.
    var controlHost = "127.0.0.1"
    /// The required `password` for receipts with subscriptions.
    var sharedSecret = Configuration.defaultSharedSecret
    /// The clock at the start; nil follows the real one.
    var clock: Date?
    /// The begin of the TLS certificate's validity; nil for a week ago.
    var certifiedSince: Date?
    /// The file for the root certificate; nil for a temporary file that `stop()` removes.
    var rootPEMPath: String?
    var logger = Logger(label: "app-store-simulator") { StreamLogHandler.standardError(label: $0) }

    init() { logger.logLevel = .warning }
  }

  /// Starts a simulator, and returns once it listens.
  ///
  /// - Throws: `StartError` when a port is taken or the root certificate cannot be written.
  static func start(_ configuration: Configuration = Configuration()) async throws -> RunningSimulator {
    let pki = try DevelopmentPKI()
    let core = try SimulatorCore(configuration: configuration, pki: pki)
    let connections = ConnectionRegistry()
    let identity = try pki.makeServerIdentity(host: configuration.host, since: configuration.certifiedSince)
    var tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: try NIOSSLCertificate.fromPEMBytes(Array(identity.certificatePEM.utf8)).map {
        .certificate($0)
      },
      privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(identity.keyPEM.utf8), format: .pem)))
    tls.minimumTLSVersion = .tlsv12

    let store = StoreListener(core: core, connections: connections)
    let tlsListener = try await Listener.open(
      host: configuration.host, port: configuration.port, tls: tls, clock: core.clock, logger: configuration.logger
    ) { request, context in try await store.respond(to: request, context: context) }

    var controlListener: Listener?
    if let controlPort = configuration.controlPort {
      let control = ControlListener(core: core, connections: connections)
      do {
        controlListener = try await Listener.open(
          host: configuration.controlHost, port: controlPort, tls: nil, clock: core.clock, logger: configuration.logger
        ) { request, context in try await control.respond(to: request, context: context) }
      } catch {
        await tlsListener.close(connections)
        throw error
      }
    }
    let path = configuration.rootPEMPath ?? temporaryPath()
    let simulator = RunningSimulator(
      origin: "https://\(inURL(configuration.host)):\(tlsListener.port)",
      controlURL: controlListener.map { "http://\(inURL(configuration.controlHost)):\($0.port)" }, rootPEMPath: path,
      core: core, tlsListener: tlsListener, controlListener: controlListener, connections: connections,
      removesRoot: configuration.rootPEMPath == nil)
    do {
      try Data(DevelopmentPKI.rootPEM.utf8).write(to: URL(filePath: path), options: .atomic)
    } catch {
      await simulator.stop()
      throw StartError.rootNotWritten(path: path, reason: "\(error)")
    }
    return simulator
  }

  /// An IPv6 address is in brackets.
  private static func inURL(_ host: String) -> String { host.contains(":") ? "[\(host)]" : host }

  private static func temporaryPath() -> String {
    FileManager.default.temporaryDirectory.appending(path: "app-store-simulator-root-\(UUID().uuidString).pem").path()
  }
}

/// Why a simulator did not start; the text is for the command line.
enum StartError: Error, CustomStringConvertible {
  case cannotListen(host: String, port: Int, reason: String)
  case rootNotWritten(path: String, reason: String)

  var description: String {
    switch self {
    case .cannotListen(let host, let port, let reason): "cannot listen on \(host), port \(port): \(reason)"
    case .rootNotWritten(let path, let reason): "cannot write the root certificate to \(path): \(reason)"
    }
  }
}

/// A running simulator. It has a method for everything that the control API can do.
struct RunningSimulator: Sendable {
  fileprivate let origin: String
  /// Nil without a control port.
  let controlURL: String?
  /// A PEM file with two roots: the one of TLS and receipts, and the one of signed data.
  let rootPEMPath: String

  let core: SimulatorCore
  fileprivate let tlsListener: Listener
  fileprivate let controlListener: Listener?
  fileprivate let connections: ConnectionRegistry
  fileprivate let removesRoot: Bool

  var productionURL: String { origin + StoreListener.productionPath }
  var sandboxURL: String { origin + StoreListener.sandboxPath }
  /// The Server API's base URLs, to be followed by `/inApps/v1/…`.
  var serverAPIURL: String { origin + StoreListener.serverAPIPath }
  var serverAPISandboxURL: String { origin + StoreListener.serverAPISandboxPath }
  /// DeviceCheck's base URLs, to be followed by `/v1/…`.
  var deviceCheckURL: String { origin }
  var deviceCheckDevelopmentURL: String { origin + StoreListener.deviceCheckDevelopmentPath }

  /// The store's clock.
  var now: Date { core.clock.now.date }

  /// Sets the store's clock to a moment, where it stands still.
  func setClock(_ date: Date) { core.moveClock { $0.set(Timestamp(date)) } }

  /// Moves the store's clock forwards or backwards.
  func advanceClock(by duration: Duration) { core.moveClock { $0.advance(milliseconds: duration.milliseconds) } }

  /// The signing key for callers of the Server API, in the form of App Store Connect (.p8).
  var serverAPIKeyPEM: String { DevelopmentKeys.serverAPIKey + "\n" }
  var serverAPIKeyID: String { DeveloperTokens.keyID }
  var serverAPIIssuerID: String { DeveloperTokens.issuerID }

  /// The signing key for callers of DeviceCheck, as the developer account hands it out (.p8).
  var deviceCheckKeyPEM: String { DevelopmentKeys.deviceCheckKey + "\n" }
  var deviceCheckKeyID: String { TeamTokens.keyID }
  var deviceCheckTeamID: String { TeamTokens.teamID }

  /// A token as the app on a device gets it, good for 30 seconds of the store's clock. The sandbox stands for builds
  /// that are run from Xcode.
  func deviceToken(of device: String, environment: StoreEnvironment = .production) -> String {
    core.deviceToken(of: device, environment)
  }

  /// The two bits of a device; nil before they were set.
  func deviceBits(of device: String, environment: StoreEnvironment = .production) -> (bit0: Bool, bit1: Bool)? {
    core.deviceCheck.devices[DeviceBitsRegistry.Key(environment: environment, device: device)].map {
      ($0.bit0, $0.bit1)
    }
  }

  /// Signs a receipt at the time of the store's clock. `bundleID` has no effect on `wrong_app`.
  ///
  /// A subscriber has one story in each store: issuing again replaces it by a new one.
  ///
  /// - Parameters:
  ///   - renewalsLateBy: how late the store shows renewals; nil for the scenario's own.
  ///   - age: how long before now it was signed.
  func issueReceipt(
    _ scenario: Scenario = .renewing, trouble: Trouble? = nil, environment: StoreEnvironment = .production,
    subscriber: Int64 = 1, bundleID: String = Product.defaultBundleID, format: ReceiptFormat = .der,
    appAccountToken: UUID? = nil, renewalsLateBy: Duration? = nil, age: Duration = .zero
  ) throws(IssueError) -> IssuedReceipt {
    try core.issue(
      ReceiptOrder(
        scenario: scenario, trouble: trouble, environment: environment, subscriber: subscriber, bundleID: bundleID,
        format: format, appAccountToken: appAccountToken?.uuidString,
        renewalsLateBy: renewalsLateBy?.milliseconds, age: age.milliseconds))
  }

  /// Begins a story as `issueReceipt` does, and signs its newest transaction at the time of the store's clock.
  ///
  /// - Parameters:
  ///   - appAccountToken: the account UUID that the app gives its purchases.
  ///   - renewalsLateBy: how late the store shows renewals; nil for the scenario's own.
  ///   - age: how long before now it was signed.
  ///   - offer: the offer by which the newest transaction is bought.
  ///   - eligibility: a JWS of the app's server on the introductory offer.
  func issueTransaction(
    _ scenario: Scenario = .renewing, trouble: Trouble? = nil, environment: StoreEnvironment = .production,
    subscriber: Int64 = 1, bundleID: String = Product.defaultBundleID, appAccountToken: UUID? = nil,
    renewalsLateBy: Duration? = nil, age: Duration = .zero, offer: SignedOffer? = nil, eligibility: String? = nil
  ) throws(IssueError) -> IssuedTransaction {
    try core.issueTransaction(
      ReceiptOrder(
        scenario: scenario, trouble: trouble, environment: environment, subscriber: subscriber, bundleID: bundleID,
        appAccountToken: appAccountToken?.uuidString, renewalsLateBy: renewalsLateBy?.milliseconds,
        age: age.milliseconds), with: offer, eligibility: eligibility)
  }

  /// Signs the AppTransaction of a customer at the time of the store's clock.
  func issueAppTransaction(
    environment: StoreEnvironment = .production, subscriber: Int64 = 1, bundleID: String = Product.defaultBundleID
  ) throws(IssueError) -> String {
    try core.issuer.issueAppTransaction(
      ReceiptOrder(environment: environment, subscriber: subscriber, bundleID: bundleID), at: core.clock.now)
  }

  /// Signs the newest transaction of a story: the result of `Transaction.latest(for:)` on the device.
  func newestTransaction(ofOriginal originalTransactionID: String) throws(IssueError) -> IssuedTransaction {
    try core.issuer.newestTransaction(ofOriginal: originalTransactionID, at: core.clock.now)
  }

  /// Signs the present receipt of a story, as on the device.
  func newestReceipt(
    ofOriginal originalTransactionID: String, format: ReceiptFormat = .der
  ) throws(IssueError) -> IssuedReceipt {
    try core.issuer.newestReceipt(ofOriginal: originalTransactionID, format: format, at: core.clock.now)
  }

  /// Posts a notification of every future event of the customers with a story here, in order and once each, to an
  /// `http://` URL.
  ///
  /// Events happen as the clock moves: by `setClock`, `advanceClock`, the control API or the real time. `deliveries`
  /// waits for due posts.
  ///
  /// - Throws: `NotAnAddress` when the URL is not a plain HTTP one.
  func deliverNotifications(to url: String) throws(NotAnAddress) {
    deliverNotifications(to: try PlainHTTPURL(checking: url))
  }

  func deliverNotifications(to url: PlainHTTPURL?) { core.delivery.deliver(to: url) }

  /// All posts so far with their responses, once no post is due.
  func deliveries() async -> [NotificationDelivery.Attempt] { await core.delivery.attempts() }

  /// Signs the notifications of the events after `from`, up to and including `to` (the clock's now when nil), of a
  /// transaction's customer; posts nothing.
  func notifications(
    of transactionID: String, from: Date = .distantPast, to: Date? = nil
  ) throws(IssueError) -> [SimulatedNotification] {
    try core.notifications(
      of: transactionID, after: Timestamp(from), through: to.map { Timestamp($0) } ?? core.clock.now)
  }

  /// Has a customer ask for a refund of a transaction; the store's request for consumption information is posted where
  /// `deliverNotifications` says.
  @discardableResult
  func requestRefund(
    of transactionID: String, reason: String = "UNINTENDED_PURCHASE"
  ) throws(IssueError) -> SimulatedNotification {
    try core.requestRefund(of: transactionID, reason: reason)
  }

  /// The moments after `from`, up to and including `to`, at which something changes for a transaction's customer.
  func events(of transactionID: String, from: Date = .distantPast, to: Date) throws(IssueError) -> [Date] {
    guard let (customer, _, _) = core.issuer.customers.transaction(transactionID) else {
      throw .unknownTransaction(transactionID)
    }
    return customer.seed.timeline.moments(after: Timestamp(from), through: Timestamp(to)).map(\.date)
  }

  /// Applies a trouble to the next `count` calls (all, when nil), of every service that it can affect or of one, with
  /// any receipt or with one subscriber's; nil ends it.
  func setTrouble(
    _ trouble: Trouble?, count: Int? = nil, service: Trouble.Service? = nil, environment: StoreEnvironment? = nil,
    subscriber: Int64? = nil
  ) {
    core.troubles.set(trouble, count: count, service: service, environment: environment, subscriber: subscriber)
  }

  /// Delays each response.
  func setDelay(_ delay: Duration) { core.delay.set(delay) }

  /// The calls so far.
  var calls: CallBook.Summary { core.calls.current }

  /// Resets the counters.
  func resetCalls() { core.calls.reset() }

  /// Closes every connection, and returns when no socket listens any more.
  func stop() async {
    if removesRoot { try? FileManager.default.removeItem(atPath: rootPEMPath) }
    core.delivery.stop()
    await tlsListener.close(connections)
    await controlListener?.close(connections)
  }
}

extension Duration {
  var milliseconds: Int64 { components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000 }
}
