import Access
import AppStore
import CountersignServer
import Entitlements
import Figures
import HTTPTransport
import Ledger
import Logging
import NIOCore
import Profiles
import Resilience
import ServiceLifecycle
import Tokens
import Validation
import Webhooks

import struct FoundationEssentials.Date
import class FoundationEssentials.ProcessInfo
import struct FoundationEssentials.UUID

/// The service, put together and not yet running.
struct CountersignApplication: Service, CustomStringConvertible {
  /// The public address comes last: the others start before it.
  var services: [any Service]
  /// The closers of what the services use. They run when all services have ended, however they did.
  var closers: Closers
  var ledger: Ledger
  /// Every path with every method that it answers to.
  var routes: [ServiceRoute]
  var logger: Logger

  /// The name for the log, which would otherwise print the whole value.
  var description: String { "Countersign" }

  func run() async throws {
    let services = services.map { service in
      // A service that fails, for instance because its port is taken, ends the others in order: none loses what it uses.
      ServiceGroupConfiguration.ServiceConfiguration(
        service: NamedService(base: service), failureTerminationBehavior: .gracefullyShutdownGroup)
    }
    do {
      try await ServiceGroup(configuration: ServiceGroupConfiguration(services: services, logger: logger)).run()
    } catch {
      await closers.close()
      throw error
    }
    await closers.close()
  }
}

/// A service with the name of its type for the log, which would otherwise print the whole value and its secrets.
private struct NamedService: Service, CustomStringConvertible {
  var base: any Service

  var description: String { "\(type(of: base))" }

  func run() async throws { try await base.run() }
}

/// Builds the whole service from its configuration. `main` and the tests both come here.
///
/// Services that others need start first and stop last, when no request needs them any more.
func buildApplication(
  _ configuration: ServiceConfiguration, environment: ServiceEnvironment
) async throws(StartError) -> CountersignApplication {
  var closers = Closers()
  do throws(StartError) {
    return try await build(configuration, environment, &closers)
  } catch {
    await closers.close()
    throw error
  }
}

private func build(
  _ configuration: ServiceConfiguration, _ environment: ServiceEnvironment, _ closers: inout Closers
) async throws(StartError) -> CountersignApplication {
  let logger = environment.logger
  for warning in configuration.warnings { warning.log(logger) }
  let identities = try configuration.server.identities()
  let appStore = try configuration.appStoreServices(environment: environment)
  closers.add(appStore.transport.shutdown)
  await appStore.storeClock?.begin()
  let ledgerMetrics = LedgerMetrics(environment.metrics)
  let ledger = try await openLedger(at: configuration.ledger.place, environment, ledgerMetrics)
  closers.add(ledger.close)
  let now: @Sendable () -> Date = { environment.clock.now }
  let rules = EntitlementRules(configuration)
  let brake: DowngradeBrakeService
  let review: RulesReview
  do throws(LedgerError) {
    brake = try await DowngradeBrakeService.restored(
      from: ledger, share: Double(configuration.revalidation.maxDowngrades) / 100, now: now)
    review = try await RulesReview.restored(from: ledger, rules: rules)
  } catch { throw StartError(description: "The ledger cannot be read: \(error)") }
  if review.isChanged { try await configuration.compareCatalog(with: ledger, logger) }
  let profileStore = try configuration.profileStore?.services(environment: environment)
  if let profileStore { closers.add(profileStore.transport.shutdown) }
  let writeBack = profileStore.map { $0.writeBack(of: ledger, environment) }
  let userTokens = try configuration.auth.jwt?.services(environment: environment)
  if let transport = userTokens?.transport { closers.add(transport.shutdown) }
  let trials = try configuration.trialSettings(environment: environment, &closers)
  let webhooks = try await configuration.webhookServices(ledger: ledger, environment: environment, &closers)
  let verdicts = LabelledCounter(.verdicts, in: environment.metrics)
  let validator = ReceiptValidator(
    gateway: AppStoreGateway(configuration, appStore, now: now), ledger: ledger,
    verdicts: VerdictContext(
      rules: rules, now: now, accountTokenIsUserID: configuration.policy.appAccountToken == .userID,
      // Where a purchase goes to whoever proves it last, Apple's word would keep it with the first.
      tellsAccountTokens: configuration.policy.appAccountToken == .userID && configuration.policy.ownership != .transfer
        && configuration.appStore.serverAPI != nil,
      writeBack: writeBack),
    ownership: configuration.policy.ownership,
    provisional: configuration.policy.provisional,
    onVerdict: { verdicts.increment($0.tier.rawValue, $0.status.rawValue, $0.reason.rawValue) })
  let revenueCatKeyring = configuration.revenueCat.map { RevenueCatKeyring($0.secrets) }
  let notifications = LabelledCounter(
    .notifications,
    zeros: ["1", "2"].flatMap { version in NotificationReceiver.Outcome.allCases.map { [version, $0.rawValue] } },
    in: environment.metrics)
  let refundsFound = LabelledCounter(
    .refundsFound, zeros: RefundHistory.Finder.allCases.map { [$0.rawValue] }, in: environment.metrics)
  let consumptions = LabelledCounter(
    .consumptionRequests, zeros: ConsumptionRequest.State.allCases.filter { $0 != .due }.map { [$0.rawValue] },
    in: environment.metrics)
  let useCases = UseCases(
    validator: validator, plans: configuration.plans, trials: trials,
    offerSigner: try configuration.appStore.offerSigner(), brake: brake, review: review, clock: environment.clock,
    isOurPassword: { [secret = configuration.appStore.sharedSecret] notification in
      secret.map(notification.hasPassword) ?? false
    },
    forwardsNotifications: configuration.webhooks.contains { $0.format == .appStore },
    onNotification: { version, outcome in notifications.increment("\(version)", outcome.rawValue) },
    onRefund: { [refundsFound] finder in refundsFound.increment(finder.rawValue) },
    onExtension: { [counter = LabelledCounter(.renewalExtensions, in: environment.metrics)] record in
      counter.increment(record.subject.product == nil ? "purchase" : "product", record.state.rawValue)
    },
    revenueCat: revenueCatKeyring.map { keyring in
      let events = LabelledCounter(
        .revenueCatEvents, zeros: RevenueCatReceiver.Outcome.allCases.map { [$0.rawValue] }, in: environment.metrics)
      return (keyring, { events.increment($0.rawValue) })
    })
  let status = OperationalStatus(
    appStore: appStore.health, profileStore: writeBack?.health,
    breakers: appStore.allBreakers
      + (profileStore.map { [(upstream: "profile_store", breaker: $0.breaker)] } ?? []),
    userKeys: userTokens?.verifier.keySet,
    reserve: DiskReserve(share: Double(configuration.ledger.reserve) / 100) { [place = configuration.ledger.place] in
      place.freeShareOfDisk
    },
    certificateEnd: { identities?.current.end })
  let accessTokenKeyring = configuration.auth.signing.map { AccessTokenKeyring($0.keys) }
  let keyring = APIKeyring(configuration.auth.apiKeys, publicKeys: configuration.auth.publicKeys)
  let rates = configuration.figures.rates.map {
    RatesFile($0, logger: logger, pause: environment.certificatePause)
  }
  let router = ServiceRouter(
    configuration.server, useCases, rates: { rates?.rates },
    credentials: Credentials(
      keyring: keyring, tokens: userTokens?.verifier,
      accessTokens: accessTokenKeyring.map {
        AccessTokenSettings(
          keyring: $0, issuer: configuration.auth.signing?.issuer, audience: configuration.auth.signing?.audience)
      }),
    webhooks: configuration.webhooks, status: status, dialects: configuration.dialects,
    line: AdmissionQueue(configuration), registry: environment.metrics,
    readinessLifetime: environment.readinessLifetime)
  var services: [any Service] = useCases.backgroundJobs(
    replica: (id: UUID().uuidString, name: ProcessInfo.processInfo.hostName), rate: configuration.revalidation.rate,
    // Callers come first: half of the calls are theirs however slow Apple gets.
    width: max(1, configuration.appStore.concurrency / 2), eventAge: configuration.events.age,
    historyAge: configuration.retention.history, consumption: configuration.appStore.consumption,
    onConsumption: { [consumptions] state in consumptions.increment(state.rawValue) },
    onAccountToken: { [counter = LabelledCounter(.accountTokens, in: environment.metrics)] outcome in
      counter.increment(outcome.rawValue)
    },
    onRemoved: ledgerMetrics.noteRemoved,
    isAppleAway: {
      appStore.recheckBreaker?.state == .open || appStore.serverAPI?.isClosed(.production) == true
    }, isAppleDoubtful: { appStore.isDoubtful },
    asksForMissed: environment.asksForMissed,
    refundSweep: environment.asksForMissed ? configuration.appStore.refundSweep : .zero, pause: environment.jobPause,
    logger: logger)
  services.append(
    FigureCounter(plans: configuration.plans, ledger: ledger, logger: logger, pause: environment.jobPause))
  if let rates { services.append(rates) }
  if let webhooks { services.append(webhooks.deliverer) }
  if let identities {
    services.append(CertificateWatch(identities: identities, logger: logger, pause: environment.certificatePause))
  }
  if let reload = environment.reload {
    services.append(
      ConfigurationReload(
        source: reload, started: configuration, keyring: keyring, accessTokens: accessTokenKeyring,
        revenueCat: revenueCatKeyring, webhooks: webhooks?.keyring, logger: logger))
  }
  let connectionLogger = logger.withoutTrace
  if let keySet = userTokens?.verifier.keySet { services.append(keySet) }
  let front = router.front(servesOperators: configuration.server.admin == nil)
  do {
    if let admin = configuration.server.admin {
      services.append(
        try ServiceListener(
          router.adminFront(host: admin.host), configuration.server, admin: admin,
          onListening: environment.onAdminListening, logger: connectionLogger))
    }
    services.append(
      try ServiceListener(
        front, configuration.server, identities: identities, patience: environment.bodyPatience,
        onListening: environment.onListening, logger: connectionLogger))
  } catch { throw StartError(description: "server.tls: TLS cannot be set up: \(error).") }
  return CountersignApplication(
    services: services, closers: closers, ledger: ledger, routes: front.routes, logger: connectionLogger)
}

/// Opens the ledger, says if it is a new one, and warns about files of it that others may read.
private func openLedger(
  at place: LedgerPlace, _ environment: ServiceEnvironment, _ metrics: LedgerMetrics
) async throws(StartError) -> Ledger {
  let ledger: Ledger
  do {
    ledger = try await Ledger.open(at: place, onFatal: environment.ledgerFailed, onCommit: metrics.note)
  } catch { throw StartError(description: error.description) }
  if ledger.isNew {
    environment.logger.notice(
      "a new, empty ledger was made",
      metadata: [
        "ledger": "\(place.name)",
        "finding": "expected at the first start alone; later the path, the volume or the database is wrong",
      ])
  }
  if !ledger.exposures.isEmpty {
    environment.logger.warning(
      "other users of this machine could read the ledger",
      metadata: [
        "files": "\(ledger.exposures.map { "\($0.path) (mode \($0.modeText))" }.joined(separator: ", "))",
        "finding": ledger.exposures.allSatisfy(\.isRepaired)
          ? "their mode is 600 now" : "chmod 600 keeps them to their owner",
      ])
  }
  return ledger
}

extension Logger {
  /// A logger without `trace`, at which the server logs the bytes of unreadable requests: a key may be among them.
  fileprivate var withoutTrace: Logger {
    var logger = self
    logger.logLevel = max(logger.logLevel, .debug)
    return logger
  }
}

extension AppStoreGateway {
  convenience init(
    _ configuration: ServiceConfiguration, _ services: AppStoreServices, now: @escaping @Sendable () -> Date
  ) {
    self.init(
      verifier: services.verifier,
      signedData: services.signedData,
      localVerification: configuration.policy.localVerification,
      verifyReceipt: services.verifyReceipt,
      serverAPI: services.serverAPI,
      appStoreHealth: services.health,
      recent: RecentAnswers(lifetime: configuration.policy.reuse),
      apps: ServedApps(
        bundleIDs: configuration.appStore.orderedBundleIDs, appAppleIDs: configuration.appStore.appAppleIDs),
      rules: EntitlementRules(configuration),
      keepsOriginalPurchases: configuration.dialects.contains(.revenuecat),
      deadline: configuration.appStore.deadline,
      now: now,
      catchUp: { await services.storeClock?.catchUp() ?? false })
  }
}

extension AdmissionQueue {
  convenience init(_ configuration: ServiceConfiguration) {
    self.init(
      appStoreCalls: configuration.appStore.concurrency,
      deadlines: [configuration.appStore.deadline, configuration.profileStore?.deadline ?? .zero],
      requestDeadline: configuration.server.requestDeadline)
  }
}

extension EntitlementRules {
  init(_ configuration: ServiceConfiguration) {
    let policy = configuration.policy
    let sandbox: SandboxPolicy =
      switch policy.sandbox {
      case .accept: .accept
      case .testers: .testers(policy.testers)
      case .reject: .reject
      }
    self.init(
      catalog: configuration.catalog,
      policy: EntitlementPolicy(
        billingRetryAccess: policy.billingRetryAccess, outageHold: policy.outageHold, lateRenewal: policy.lateRenewal,
        provisional: policy.provisional),
      sandbox: sandbox)
  }
}

extension ServiceConfiguration {
  /// Refuses a catalog that lacks what too many have, and names what it lacks in any case.
  fileprivate func compareCatalog(with ledger: Ledger, _ logger: Logger) async throws(StartError) {
    let counts: [AccessCount]
    do throws(LedgerError) {
      counts = try await ledger.accessGiven()
    } catch { throw StartError(description: "The ledger cannot be read: \(error)") }
    let comparison = CatalogComparison(counts, catalog: catalog)
    if let refusal = comparison.refusal(accepting: acceptedLoss, percent: revalidation.maxDowngrades) {
      throw StartError(description: refusal, isConfiguration: true)
    }
    for loss in comparison.losses.prefix(20) {
      logger.warning("the catalog lacks products that subscribers have", metadata: ["finding": "\(loss.sentence)"])
    }
  }
}

/// Closes what a start has opened, the last first: when a later step of it fails, and when the service stops.
struct Closers {
  private var closers: [@Sendable () async -> Void] = []

  mutating func add(_ close: @escaping @Sendable () async -> Void) { closers.append(close) }

  func close() async {
    for close in closers.reversed() { await close() }
  }
}
