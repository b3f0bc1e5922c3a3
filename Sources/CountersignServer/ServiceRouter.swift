import Access
import Entitlements
import Figures
import HTTPTypes
package import Hummingbird
import Ledger
package import Logging
package import Prometheus
import Resilience
package import Validation
package import Webhooks

/// A path as it is registered, `/v1/profiles/{user_id}`, and a method that it answers to, if only with 405.
package struct ServiceRoute: Hashable, Sendable {
  package var path: String
  package var method: String

  package init(path: String, method: String) {
    self.path = path
    self.method = method
  }
}

/// Every route of the service, with who may use it.
///
///     request ─▶ request ID ─▶ access log, metrics ─▶ problems ─▶ one Host, exact path, [ address limit ]
///       ─▶ [ authentication, rate limit ─▶ ] controller
///
/// Reads that are in memory are answered before all that, by the same checks (`CachedReads`).
package struct ServiceRouter {
  /// The routes that ask for no credential, and those that do.
  private let open: [any Controller]
  private let authenticated: [any Controller]
  let profiles: ProfilesController
  let privacy: PrivacyController
  let access: AccessController
  /// `nil`: no key signs tokens, and there are no such routes.
  let accessTokens: AccessTokenController?
  let health: HealthController
  let metrics: MetricsController
  let credentials: Credentials
  let limits: RequestLimits
  /// The checks that a request to the public address has to pass.
  let checks: [any RequestCheck]
  let dialects: [any DialectController]
  /// Whether the public address speaks TLS by itself.
  let speaksTLS: Bool
  /// Origins of the pages that may call from a browser.
  let pageOrigins: Set<String>
  let httpMetrics: HTTPMetrics

  /// - Parameters:
  ///   - webhooks: the receivers of events.
  ///   - dialects: the interfaces of other services that are spoken.
  ///   - line: the queue for validations.
  ///   - readinessLifetime: how long a check of the ledger stands.
  package init(
    _ settings: ServerSettings, _ useCases: UseCases, credentials: Credentials, webhooks: [WebhookEndpoint],
    status: OperationalStatus, dialects: Set<Dialect>, line: AdmissionQueue, registry: PrometheusRegistry,
    readinessLifetime: Duration
  ) {
    let (ledger, rules, plans, now) = (useCases.ledger, useCases.rules, useCases.plans, useCases.now)
    let budgets = BodyBudgets(settings)
    self.credentials = credentials
    limits = RequestLimits(settings, status.reserve, registry)
    profiles = ProfilesController(reader: useCases.reader, now: now)
    privacy = PrivacyController(erasure: useCases.erasure, ledger: ledger, reader: useCases.reader, now: now)
    access = AccessController(usage: useCases.usage, now: now)
    accessTokens = credentials.accessTokens.map {
      AccessTokenController(settings: $0, usage: useCases.usage, rules: rules, now: now)
    }
    let trials = TrialsController(
      trials: useCases.trials, budgets: budgets, limits: limits, starts: LabelledCounter(.trials, in: registry),
      now: now)
    authenticated = [
      privacy, access, trials,
      ValidationsController(
        validator: useCases.validator, body: JSONRequestBody(limit: settings.maxBody), budgets: budgets, line: line),
      UsageController(
        usage: useCases.usage, budgets: budgets, consumptions: LabelledCounter(.usage, in: registry), now: now),
      EventsController(
        ledger: ledger, experiments: plans.experiments, budgets: budgets,
        takesTelemetry: dialects.contains(.revenuecat), reserve: status.reserve,
        // The answer needs a moment, too.
        longestWait: max(.zero, settings.requestDeadline - .seconds(1)), now: now),
      FiguresController(ledger: ledger, now: now),
      ExperimentsController(ledger: ledger, experiments: plans.experiments),
      WebhooksController(endpoints: webhooks, ledger: ledger, budget: budgets.runs),
      RevalidationsController(ledger: ledger, progress: useCases.progress, budget: budgets.runs, now: now),
      SupportController(
        ledger: ledger, revalidation: useCases.revalidation, transfer: useCases.transfer, lookUp: useCases.lookUp,
        rules: rules, budget: budgets.support, now: now),
      GrantsController(grants: useCases.grants, catalog: rules.catalog, budget: budgets.support, now: now),
      BrakeController(brake: useCases.brake, review: useCases.review),
    ]
    let unauthenticated: [(any Controller)?] = [
      OpenAPIController(), WelcomePage(), SupportPage(), PlansController(plans, rules.catalog),
      NotificationsController(receiver: useCases.notifications, budgets: budgets),
      useCases.revenueCat.map { RevenueCatWebhookController(receiver: $0, budgets: budgets) },
    ]
    open = unauthenticated.compactMap(\.self)
    let check = LedgerCheck(ledger: ledger, lifetime: readinessLifetime, now: now)
    health = HealthController(ledger: check, operations: status, now: now)
    metrics = MetricsController(
      ledger: ledger, check: check,
      // Figures change daily: they are cached for 60 times as long as a check of the ledger.
      figures: RecentValue(lifetime: readinessLifetime * 60) {
        try? await ledger.watchedFigures(today: now().utcDay)
      }, status: status, registry: registry, webhooks: webhooks, deviceCheck: useCases.trials.settings.deviceCheck,
      bodyBytes: { budgets.validationBytes }, waitingValidations: { line.waiting }, now: now)
    // The limit also counts requests for paths that do not exist.
    checks = Self.everywhere + [AddressLimitCheck(limits: limits)]
    self.dialects = Dialect.controllers(
      of: dialects,
      DialectParts(
        useCases: useCases, budgets: budgets, line: line, limits: limits, keyring: credentials.keyring, access: access,
        trials: trials, ledgerCheck: check, maxBody: settings.maxBody))
    speaksTLS = settings.tls != nil
    pageOrigins = settings.pageOrigins
    httpMetrics = HTTPMetrics(registry)
  }

  /// The routes of the public address.
  ///
  /// - Parameter servesOperators: whether readiness and metrics are here too, as operators have no address of their own.
  package func build(servesOperators: Bool) -> Router<ServiceRequestContext> {
    let router = base(speaksTLS: speaksTLS, checks: checks)
    health.addRoutes(to: router)
    if servesOperators { addOperatorRoutes(to: router) }
    for controller in open { controller.addRoutes(to: router) }
    let group = router.group().add(middleware: authentication)
    accessTokens?.addRoutes(to: router, authenticated: group)
    group.serve("/v1/profiles/{user_id}", [.get: profiles.profile, .delete: privacy.erase])
    for controller in authenticated { controller.addRoutes(to: group) }
    health.addStatus(to: group)
    for dialect in dialects { dialect.addRoutes(to: router, authenticated: group) }
    return router
  }

  /// The routes of the operators' address. None needs a key, so that no secret is sent to it.
  ///
  /// - Parameter host: the name or address that it listens on.
  package func buildAdmin(host: String) -> Router<ServiceRequestContext> {
    let router = base(speaksTLS: false, isForPages: false, checks: Self.everywhere + [OwnHostCheck(name: host)])
    health.addRoutes(to: router)
    addOperatorRoutes(to: router)
    return router
  }

  private func base(
    speaksTLS: Bool, isForPages: Bool = true, checks: [any RequestCheck]
  ) -> Router<ServiceRequestContext> {
    let router = Router(context: ServiceRequestContext.self)
    let crossOrigin = isForPages ? crossOrigin : nil
    router.add(middleware: RequestIDMiddleware(headers: CommonHeaders(speaksTLS: speaksTLS)))
    router.add(middleware: AccessLogMiddleware(metrics: httpMetrics))
    if let crossOrigin { router.add(middleware: crossOrigin) }
    router.add(middleware: ProblemMiddleware(dialects: dialects.map(\.errors)))
    router.add(middleware: RequestCheckMiddleware(checks: checks, crossOrigin: crossOrigin))
    return router
  }

  private static let everywhere: [any RequestCheck] = [HostCheck(), ExactPathCheck()]

  private var crossOrigin: CrossOriginMiddleware? {
    guard dialects.contains(where: \.hasPages) || !pageOrigins.isEmpty else { return nil }
    return CrossOriginMiddleware(
      isForAll: { [dialects] path in dialects.contains { $0.isForPages(path) } }, origins: pageOrigins)
  }

  private var authentication: AuthenticationMiddleware {
    AuthenticationMiddleware(keyring: credentials.keyring, tokens: credentials.tokens, limits: limits)
  }

  /// The reads of the public address that are answered without the router.
  package func cachedReads(logger: Logger) -> CachedReads {
    CachedReads(
      profiles: profiles, access: access, authentication: authentication, checks: checks,
      accessLog: AccessLogMiddleware(metrics: httpMetrics), crossOrigin: crossOrigin, speaksTLS: speaksTLS,
      logger: logger)
  }

  private func addOperatorRoutes(to router: Router<ServiceRequestContext>) {
    health.addReadiness(to: router)
    metrics.addRoutes(to: router)
  }
}
