import AppStore
import Entitlements
import HTTPTransport
import Hummingbird
import HummingbirdCore
import Ledger
import Logging
import NIOCore
import ServiceLifecycle

import struct FoundationEssentials.Date

/// The service, put together and not yet running.
struct CountersignApplication {
  var application: Application<RouterResponder<ServiceRequestContext>>
  var ledger: SQLiteLedger
  var transport: CurlTransport
}

/// What the world gives the service; tests give it something else.
struct ServiceEnvironment: Sendable {
  var logger: Logger
  /// Our own clock.
  var now: @Sendable () -> Date = { Date() }
  /// The ledger's disk failed: the process has to stop, and to recover at its next start.
  var ledgerFailed: @Sendable (String) -> Void
  /// How long the settling of pending receipts rests between two looks.
  var settlementPause: Duration = .seconds(1)
  /// The address the service listens on.
  var onListening: @Sendable (SocketAddress) async -> Void = { _ in }
}

/// Why the service cannot be put together: one sentence for an operator.
struct StartError: Error, CustomStringConvertible {
  var description: String
}

/// Builds the whole service from its configuration. `main` and the tests both come here.
///
/// What others need is started first; it is shut down last, when no request needs it any more.
func buildApplication(
  _ configuration: ServiceConfiguration, environment: ServiceEnvironment
) async throws(StartError) -> CountersignApplication {
  let logger = environment.logger
  for warning in configuration.warnings {
    logger.warning("configuration", metadata: ["key": "\(warning.origin)", "finding": "\(warning.sentence)"])
  }
  let appStore = try configuration.appStore.services(environment: environment)
  let ledger: SQLiteLedger
  do {
    ledger = try await SQLiteLedger.open(path: configuration.ledger.path, onFatal: environment.ledgerFailed)
  } catch {
    appStore.transport.shutdown()
    throw StartError(description: error.description)
  }
  let rules = EntitlementRules(configuration)
  let validator = ReceiptValidator(
    examiner: ReceiptExaminer(configuration, appStore, now: environment.now),
    ledger: ledger,
    ownership: configuration.policy.ownership)
  let router = ServiceRouter(
    validations: ValidationsController(
      validator: validator,
      body: JSONRequestBody(
        limit: configuration.server.maxBody, budget: ByteBudget(limit: configuration.server.maxBytesInFlight))),
    profiles: ProfilesController(ledger: ledger, rules: rules, now: environment.now),
    health: HealthController(ledger: ledger, appStore: appStore.health),
    keyring: APIKeyring(configuration.auth.apiKeys),
    limiter: RateLimiter(rate: configuration.server.rateLimit)
  ).build()
  let application = Application(
    router: router,
    server: .http1(configuration: configuration.server.http1),
    configuration: ApplicationConfiguration(
      address: .hostname(configuration.server.host, port: configuration.server.port),
      serverName: nil,
      availableConnectionsDelegate: MaximumAvailableConnections(configuration.server.maxConnections)),
    services: [
      Closing { appStore.transport.shutdown() },
      Closing { await ledger.close() },
      PendingSettler(
        validator: validator, ledger: ledger, logger: logger, now: environment.now,
        pause: environment.settlementPause),
    ],
    onServerRunning: { channel in
      if let address = channel.localAddress { await environment.onListening(address) }
    },
    logger: logger.withoutTrace)
  return CountersignApplication(application: application, ledger: ledger, transport: appStore.transport)
}

extension Logger {
  /// For the server, whose trace tells the bytes of requests that it could not read: a key may be among them.
  fileprivate var withoutTrace: Logger {
    var logger = self
    logger.logLevel = max(logger.logLevel, .debug)
    return logger
  }
}

/// Closes something when the service shuts down.
private struct Closing: Service {
  var close: @Sendable () async -> Void

  func run() async throws {
    try? await gracefulShutdown()
    await close()
  }
}

/// What talks to Apple.
struct AppStoreServices: Sendable {
  var verifier: ReceiptVerifier
  var client: VerifyReceiptClient
  var health: AppStoreHealth
  var transport: CurlTransport
}

extension ServiceConfiguration.AppStore {
  func services(environment: ServiceEnvironment) throws(StartError) -> AppStoreServices {
    let logger = environment.logger
    let trustedRoots: TrustedRoots
    do { trustedRoots = roots.isEmpty ? .apple : try TrustedRoots(files: roots) } catch {
      throw StartError(description: "app_store.roots: \(error)")
    }
    let transport: CurlTransport
    var configuration = CurlTransport.Configuration(caFile: caFile)
    configuration.maxInFlight = concurrency
    do { transport = try CurlTransport(configuration: configuration) } catch {
      throw StartError(description: "The HTTP client cannot start: \(error)")
    }
    var timing = VerifyReceiptClient.Timing.live
    timing.date = environment.now
    let client = VerifyReceiptClient(
      transport: transport,
      configuration: VerifyReceiptClient.Configuration(
        productionURL: productionURL, sandboxURL: sandboxURL, sharedSecret: sharedSecret),
      timing: timing,
      observe: { attempt in
        logger.debug(
          "asked Apple",
          metadata: [
            "environment": "\(attempt.environment.rawValue)", "outcome": "\(attempt.outcome)",
            "milliseconds": "\(attempt.duration / .milliseconds(1))",
          ])
      })
    return AppStoreServices(
      verifier: ReceiptVerifier(roots: trustedRoots), client: client, health: AppStoreHealth(), transport: transport)
  }
}

extension ReceiptExaminer {
  init(_ configuration: ServiceConfiguration, _ services: AppStoreServices, now: @escaping @Sendable () -> Date) {
    self.init(
      verifier: services.verifier,
      localVerification: configuration.policy.localVerification,
      appStore: services.client,
      appStoreHealth: services.health,
      bundleIDs: configuration.appStore.bundleIDs,
      rules: EntitlementRules(configuration),
      deadline: configuration.appStore.deadline,
      now: now)
  }
}

extension EntitlementRules {
  init(_ configuration: ServiceConfiguration) {
    let policy = configuration.policy
    self.init(
      catalog: configuration.catalog,
      policy: EntitlementPolicy(billingRetryAccess: policy.billingRetryAccess, outageHold: policy.outageHold),
      sandbox: SandboxPolicy(policy))
  }
}

extension SandboxPolicy {
  init(_ policy: ServiceConfiguration.Policy) {
    self =
      switch policy.sandbox {
      case .accept: .accept
      case .testers: .testers(policy.testers)
      case .reject: .reject
      }
  }
}

extension ServiceConfiguration.Server {
  /// Connections are bounded in every direction by `ConnectionGuard`; headers by the decoder.
  var http1: HTTP1Channel.Configuration {
    let limits = ConnectionGuard.Limits(idle: TimeAmount(idleTimeout), request: TimeAmount(requestDeadline))
    return HTTP1Channel.Configuration(
      additionalChannelHandlers: [ConnectionGuard(limits: limits)],
      httpDecoderConfiguration: .init(
        maxHeaderFieldSize: 16 * 1024, maxHeaderListSize: 16 * 1024, maxHeaderFieldCount: 64))
  }
}
