import Access
import Entitlements
package import Figures
import HTTPTypes
import Hummingbird
import Ledger
package import Prometheus
import Resilience
package import Validation
package import Webhooks

/// Every route of the service, with who may use it. `RequestFront` has the way of a request.
package struct ServiceRouter {
  /// The routes that ask for no credential, and those that do.
  private let open: [any Controller]
  private let authenticated: [any Controller]
  let profiles: ProfilesController
  let privacy: PrivacyController
  /// `nil`: no key signs tokens, and there are no such routes.
  let accessTokens: AccessTokenController?
  let health: HealthController
  let metrics: MetricsController
  let credentials: Credentials
  let limits: RequestLimits
  let dialects: [any DialectController]
  /// Whether the public address speaks TLS by itself.
  let speaksTLS: Bool
  /// Origins of the pages that may call from a browser.
  let pageOrigins: Set<String>
  let httpMetrics: HTTPMetrics

  /// - Parameters:
  ///   - rates: the exchange rates of figures, if any.
  ///   - webhooks: the receivers of events.
  ///   - dialects: the interfaces of other services that are spoken.
  ///   - line: the queue for validations.
  ///   - readinessLifetime: how long a check of the ledger stands.
  package init(
    _ settings: ServerSettings, _ useCases: UseCases, rates: @escaping @Sendable () -> ExchangeRates?,
    credentials: Credentials, webhooks: [WebhookEndpoint], status: OperationalStatus, dialects: Set<Dialect>,
    line: AdmissionQueue, registry: PrometheusRegistry, readinessLifetime: Duration
  ) {
    let (ledger, rules, plans, now) = (useCases.ledger, useCases.rules, useCases.plans, useCases.now)
    let budgets = BodyBudgets(settings)
    self.credentials = credentials
    limits = RequestLimits(settings, status.reserve, registry)
    profiles = ProfilesController(reader: useCases.reader, now: now)
    privacy = PrivacyController(erasure: useCases.erasure, ledger: ledger, reader: useCases.reader, now: now)
    let access = AccessController(usage: useCases.usage, now: now)
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
        usage: useCases.usage, budgets: budgets, consumptions: LabelledCounter(.usage, in: registry),
        reserve: status.reserve, now: now),
      EventsController(
        ledger: ledger, experiments: plans.experiments, budgets: budgets,
        takesTelemetry: dialects.contains(.revenuecat), reserve: status.reserve,
        longestWait: settings.longestWait, now: now),
      FiguresController(ledger: ledger, rates: rates, now: now),
      ExperimentsController(ledger: ledger, experiments: plans.experiments),
      WebhooksController(endpoints: webhooks, ledger: ledger, budget: budgets.runs),
      RevalidationsController(ledger: ledger, progress: useCases.progress, budget: budgets.runs, now: now),
      SupportController(
        ledger: ledger, revalidation: useCases.revalidation, transfer: useCases.transfer, lookUp: useCases.lookUp,
        rules: rules, budget: budgets.support, now: now),
      OffersController(offers: useCases.offers, budgets: budgets, now: now),
      GrantsController(grants: useCases.grants, catalog: rules.catalog, budget: budgets.support, now: now),
      NotificationHistoryController(history: useCases.history, budget: budgets.runs, now: now),
      NotificationTestController(
        test: useCases.notificationTest,
        patience: min(NotificationTestController.longestPatience, settings.longestWait)),
      ConsumptionController(ledger: ledger, budget: budgets.runs, now: now),
      RefundsController(refunds: useCases.refunds),
      ExtensionsController(
        extensions: useCases.extensions, ledger: ledger, catalog: rules.catalog, budget: budgets.support, now: now),
      BrakeController(brake: useCases.brake, review: useCases.review),
    ]
    let unauthenticated: [(any Controller)?] = [
      OpenAPIController(), WelcomePage(), SupportPage(), PlansController(plans, rules.catalog),
      NotificationsController(receiver: useCases.notifications, budgets: budgets),
      useCases.revenueCat.map { RevenueCatWebhookController(receiver: $0, budgets: budgets) },
    ]
    open = unauthenticated.compactMap(\.self)
    let check = LedgerCheck(ledger: ledger, lifetime: readinessLifetime, now: now)
    health = HealthController(ledger: check, operations: status, useCases: useCases)
    metrics = MetricsController(
      useCases: useCases, check: check,
      // Figures change daily: they are cached for 60 times as long as a check of the ledger.
      figures: RecentValue(lifetime: readinessLifetime * 60) {
        try? await ledger.watchedFigures(today: now().utcDay)
      },
      status: status, registry: registry, webhooks: webhooks, bodyBytes: { budgets.validationBytes },
      waitingValidations: { line.waiting })
    self.dialects = Dialect.controllers(
      of: dialects,
      DialectParts(
        useCases: useCases, budgets: budgets, line: line, limits: limits, keyring: credentials.keyring, access: access,
        trials: trials, ledgerCheck: check, maxBody: settings.maxBody))
    speaksTLS = settings.tls != nil
    pageOrigins = settings.pageOrigins
    httpMetrics = HTTPMetrics(registry)
  }

  /// The front of the public address.
  ///
  /// - Parameter servesOperators: whether readiness and metrics are here too, as operators have no address of their own.
  package func front(servesOperators: Bool) -> RequestFront {
    let (routes, authenticated) = (Routes(), Routes(isAuthenticated: true))
    health.addRoutes(to: routes)
    if servesOperators { addOperatorRoutes(to: routes) }
    for controller in open { controller.addRoutes(to: routes) }
    accessTokens?.addRoutes(to: routes, authenticated: authenticated)
    authenticated.serve("/v1/profiles/{user_id}", prompt: [.get: profiles.profile], [.delete: privacy.erase])
    for controller in self.authenticated { controller.addRoutes(to: authenticated) }
    health.addStatus(to: authenticated)
    for dialect in dialects { dialect.addRoutes(to: routes, authenticated: authenticated) }
    var front = base(routes.list + authenticated.list, speaksTLS: speaksTLS)
    front.authentication = Authentication(keyring: credentials.keyring, tokens: credentials.tokens, limits: limits)
    front.crossOrigin = CrossOrigin(
      isForAll: { [dialects] path in dialects.contains { $0.isForPages(path) } }, origins: pageOrigins)
    return front
  }

  /// The front of the operators' address. None of it needs a key, so that no secret is sent to it.
  ///
  /// - Parameter host: the name or address that it listens on.
  package func adminFront(host: String) -> RequestFront {
    let routes = Routes()
    health.addRoutes(to: routes)
    addOperatorRoutes(to: routes)
    var front = base(routes.list, speaksTLS: false)
    front.operatorsHost = host
    return front
  }

  private func base(_ routes: [Route], speaksTLS: Bool) -> RequestFront {
    RequestFront(
      table: RouteTable(routes), dialects: dialects.map(\.errors), headers: CommonHeaders(speaksTLS: speaksTLS),
      metrics: httpMetrics)
  }

  private func addOperatorRoutes(to routes: Routes) {
    health.addReadiness(to: routes)
    metrics.addRoutes(to: routes)
  }
}
