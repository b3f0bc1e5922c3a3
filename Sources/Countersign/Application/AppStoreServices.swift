import AppStore
import CountersignServer
import Entitlements
import HTTPTransport
import Ledger
import Logging
import Resilience
import Validation

import struct FoundationEssentials.Date

/// The clients and verifiers for Apple.
struct AppStoreServices: Sendable {
  var verifier: ReceiptVerifier
  var signedData: SignedDataVerifier
  /// `nil` without a shared secret.
  var verifyReceipt: VerifyReceiptClient?
  /// `nil` without a key.
  var serverAPI: ServerAPIClient?
  var health: AppStoreHealth
  /// One for each store: what the sandbox does says nothing about production.
  var verifyReceiptBreakers: [StoreEnvironment: CircuitBreaker]
  var serverAPIBreakers: [StoreEnvironment: CircuitBreaker]
  var transport: CurlTransport
  /// `nil` where the service does not go by the store's clock.
  var storeClock: StoreClock?

  /// The breaker for the service's own checks, nearly all of which go to production.
  var recheckBreaker: CircuitBreaker? {
    serverAPI == nil ? verifyReceiptBreakers[.production] : serverAPIBreakers[.production]
  }

  /// Whether production was away when it last was called. A breaker whose upstream nobody calls any more stays half open, and
  /// shows nothing once another upstream has answered.
  var isDoubtful: Bool {
    let breakers = [
      verifyReceipt == nil ? nil : verifyReceiptBreakers[.production],
      serverAPI == nil ? nil : serverAPIBreakers[.production],
    ]
    let states = breakers.compactMap { $0?.state }
    return states.contains(.open) || states.contains(.halfOpen) && health.state != .answering
  }

  /// The breakers of the configured upstreams, by upstream.
  var allBreakers: [(upstream: String, breaker: CircuitBreaker)] {
    func named(_ name: String, _ breakers: [StoreEnvironment: CircuitBreaker]) -> [(
      upstream: String, breaker: CircuitBreaker
    )] {
      breakers.sorted { $0.key.rawValue < $1.key.rawValue }
        .map { (upstream: "\(name)_\($0.key.rawValue)", breaker: $0.value) }
    }
    return (verifyReceipt == nil ? [] : named("app_store", verifyReceiptBreakers))
      + (serverAPI == nil ? [] : named("server_api", serverAPIBreakers))
  }
}

extension ServiceConfiguration {
  func appStoreServices(environment: ServiceEnvironment) throws(StartError) -> AppStoreServices {
    try appStore.services(acceptsXcode: policy.xcode == .accept, environment: environment)
  }
}

extension ServiceConfiguration.AppStore {
  /// `nil` where no key signs offers.
  func offerSigner() throws(StartError) -> OfferSigner? {
    do { return try offerKey().map { OfferSigner(key: $0) } } catch {
      throw StartError(description: "app_store.offers: \(error)")
    }
  }

  var transportConfiguration: CurlTransport.Configuration {
    var configuration = CurlTransport.Configuration(caFile: caFile)
    configuration.maxInFlight = concurrency
    configuration.http2 = concurrency > CurlTransport.Configuration.connectionsForHTTP1
    configuration.refusesHopeless = true
    return configuration
  }

  /// - Parameter acceptsXcode: `policy.xcode`.
  fileprivate func services(
    acceptsXcode: Bool, environment: ServiceEnvironment
  ) throws(StartError) -> AppStoreServices {
    let logger = environment.logger
    let trustedRoots: TrustedRoots
    do { trustedRoots = roots.isEmpty ? .apple : try TrustedRoots(files: roots) } catch {
      throw StartError(description: "app_store.roots: \(error)")
    }
    let serverAPIKey: ServerAPIKey?
    do { serverAPIKey = try serverAPI?.checkedKey() } catch {
      throw StartError(description: "app_store.server_api: \(error)")
    }
    let transport = try environment.transport(transportConfiguration)
    var timing = CallTiming.live
    timing.date = { environment.clock.now }
    let signedData = SignedDataVerifier(roots: trustedRoots, acceptsXcode: acceptsXcode)
    let observer = AppStoreObserver(
      clock: environment.clock, isApple: productionURL == AppleEndpoint.production, follows: clock == .store,
      metrics: AppStoreMetrics(environment.metrics), logger: logger)
    var services = AppStoreServices(
      verifier: ReceiptVerifier(roots: trustedRoots), signedData: signedData, health: AppStoreHealth(),
      verifyReceiptBreakers: breakers("app_store", logger), serverAPIBreakers: breakers("server_api", logger),
      transport: transport)
    if clock == .store {
      services.storeClock = StoreClock(
        transport: transport, url: productionURL, clock: environment.clock, logger: logger)
    }
    if let sharedSecret {
      services.verifyReceipt = VerifyReceiptClient(
        transport: transport,
        configuration: VerifyReceiptClient.Configuration(
          productionURL: productionURL, sandboxURL: sandboxURL, sharedSecret: sharedSecret),
        timing: timing,
        breakers: Self.isGuarded ? services.verifyReceiptBreakers : [:],
        retryBudget: Self.isGuarded ? RetryBudget() : nil, observe: observer.note)
    }
    if let serverAPI, let key = serverAPIKey {
      services.serverAPI = ServerAPIClient(
        transport: transport,
        configuration: ServerAPIClient.Configuration(
          productionURL: serverAPI.productionURL, sandboxURL: serverAPI.sandboxURL, key: key),
        verifier: signedData,
        timing: timing,
        breakers: services.serverAPIBreakers,
        retryBudget: RetryBudget(),
        observe: observer.note)
    }
    return services
  }

  private static var isGuarded: Bool {
    #if PLANTED_DEFECTS
      return !PlantedDefect.noBreaker.isActive
    #else
      return true
    #endif
  }

  private func breakers(_ name: String, _ logger: Logger) -> [StoreEnvironment: CircuitBreaker] {
    Dictionary(
      uniqueKeysWithValues: [StoreEnvironment.production, .sandbox].map { store in
        (store, CircuitBreaker.logging("\(name)_\(store.rawValue)", logger, deadline: deadline))
      })
  }
}

/// The observer of every call to Apple, for clock, metrics and log.
private struct AppStoreObserver: Sendable {
  let clock: ServiceClock
  /// Whether it is Apple's own store that is asked.
  let isApple: Bool
  /// Whether the clock goes by every answer (`app_store.clock: store`).
  let follows: Bool
  let metrics: AppStoreMetrics
  let logger: Logger

  func note(_ attempt: VerifyReceiptAttempt) {
    compare(attempt.answeredAt)
    metrics.note(attempt)
    log("verifyReceipt", attempt.environment, "\(attempt.outcome)", attempt.duration)
  }

  func note(_ attempt: ServerAPIAttempt) {
    compare(attempt.answeredAt)
    metrics.note(attempt)
    log("\(attempt.endpoint)", attempt.environment, "\(attempt.outcome)", attempt.duration)
  }

  private func compare(_ answeredAt: Date?) {
    if let ahead = answeredAt.flatMap(follows ? clock.follow : clock.observe) {
      ClockCorrection(ahead: ahead, byApple: isApple).log(logger)
    }
  }

  /// The texts are made only where somebody wants to read them.
  private func log(
    _ endpoint: @autoclosure () -> String, _ environment: StoreEnvironment, _ outcome: @autoclosure () -> String,
    _ duration: Duration
  ) {
    logger.debug(
      "Apple was asked",
      metadata: [
        "endpoint": "\(endpoint())", "environment": "\(environment.rawValue)", "outcome": "\(outcome())",
        "milliseconds": .stringConvertible(duration / .milliseconds(1)),
      ])
  }
}

extension CircuitBreaker {
  /// A breaker whose changes are logged.
  /// - Parameter deadline: the longest time that a call may take.
  static func logging(_ upstream: String, _ logger: Logger, deadline: Duration) -> CircuitBreaker {
    CircuitBreaker(
      configuration: Configuration(deadline: deadline),
      onChange: { change in
        var metadata: Logger.Metadata = ["upstream": "\(upstream)", "state": "\(change.to.rawValue)"]
        if let pause = change.pause { metadata["pause_milliseconds"] = .stringConvertible(pause / .milliseconds(1)) }
        logger.log(level: change.to == .open ? .warning : .notice, "a circuit breaker changed", metadata: metadata)
      })
  }
}

extension CircuitBreaker.Configuration {
  /// - Parameter deadline: the longest time that a call may take. A probe is heard after it.
  init(deadline: Duration) {
    self.init()
    // Short enough that what waits is settled soon after the outage; still only some calls a minute during it.
    pause.cap = .seconds(15)
    probeTimeout = max(probeTimeout, deadline + .seconds(5))
  }
}
