package import Access
package import AppStore
package import Entitlements
import Figures
import HTTPTypes
package import Hummingbird
package import Ledger
package import Logging
package import Prometheus
import Resilience
package import Tokens
package import Validation
package import Webhooks

package import struct FoundationEssentials.Date

/// The trials that a service offers, and Apple's memory of devices.
package struct TrialSettings: Sendable {
  package var terms: [TrialTerms]
  /// `nil` where it is not configured.
  package var deviceCheck: DeviceCheck?
  package var requiresDeviceCheck: Bool
  /// How long Apple is waited for.
  package var deadline: Duration
  /// The app that the service is for, where it is one alone.
  package var soleApp: BundleID?

  package init(
    terms: [TrialTerms], deviceCheck: DeviceCheck?, requiresDeviceCheck: Bool, deadline: Duration, soleApp: BundleID?
  ) {
    self.terms = terms
    self.soleApp = soleApp
    self.deviceCheck = deviceCheck
    self.requiresDeviceCheck = requiresDeviceCheck
    self.deadline = deadline
  }
}

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
  let validations: ValidationsController
  let profiles: ProfilesController
  let revalidations: RevalidationsController
  let support: SupportController
  let notifications: NotificationsController
  /// `nil`: nothing proves who sends its events, and there is no such route.
  let revenueCat: RevenueCatWebhookController?
  let grants: GrantsController
  let privacy: PrivacyController
  let plans: PlansController
  let access: AccessController
  let usage: UsageController
  let trials: TrialsController
  let events: EventsController
  let figures: FiguresController
  let experiments: ExperimentsController
  let webhooks: WebhooksController
  /// `nil`: no key signs tokens, and there are no such routes.
  let accessTokens: AccessTokenController?
  let brake: BrakeController
  let health: HealthController
  let metrics: MetricsController
  let contract = OpenAPIController()
  let keyring: APIKeyring
  let tokens: UserTokenVerifier?
  let limits: RequestLimits
  /// What a request to the public address has to pass.
  let checks: [any RequestCheck]
  let dialects: DialectRoutes
  /// Whether the public address speaks TLS by itself.
  let speaksTLS: Bool
  /// Origins of the pages that may call from a browser.
  let pageOrigins: Set<String>
  let httpMetrics: HTTPMetrics

  /// - Parameters:
  ///   - dialects: the interfaces of other services that are spoken.
  ///   - line: the queue for validations.
  ///   - tokens: `nil` where users cannot call.
  ///   - readinessLifetime: how long a check of the ledger stands.
  ///   - waitingWrites: writes that wait for the ledger.
  ///   - certificateEnd: when the server's certificate ends; `nil` without one.
  package init(
    _ settings: ServerSettings, validator: ReceiptValidator, receiver: NotificationReceiver,
    revenueCat: RevenueCatReceiver?, lookUp: SupportLookUp,
    ledger: Ledger, rules: EntitlementRules, plans: Plans, trials: TrialSettings,
    webhooks: [WebhookEndpoint], hasProfileStore: Bool,
    status: OperationalStatus, dialects: Set<Dialect>, accessTokens: AccessTokenSettings?,
    progress: RunProgress, line: AdmissionQueue, keyring: APIKeyring, tokens: UserTokenVerifier?,
    registry: PrometheusRegistry, readinessLifetime: Duration, waitingWrites: @escaping @Sendable () -> Int,
    certificateEnd: @escaping @Sendable () -> Date?, now: @escaping @Sendable () -> Date
  ) {
    let budgets = BodyBudgets(settings)
    limits = RequestLimits(settings, status.reserve, registry)
    validations = ValidationsController(
      validator: validator, body: JSONRequestBody(limit: settings.maxBody), budgets: budgets, line: line)
    let reader = StandingReader(ledger: ledger, rules: rules, hasProfileStore: hasProfileStore)
    profiles = ProfilesController(reader: reader, now: now)
    self.plans = PlansController(plans, rules.catalog)
    let featureUsage = FeatureUsage(plans: plans, reader: reader)
    access = AccessController(usage: featureUsage, now: now)
    self.accessTokens = accessTokens.map {
      AccessTokenController(settings: $0, usage: featureUsage, rules: rules, now: now)
    }
    usage = UsageController(
      usage: featureUsage, budgets: budgets, metrics: UsageMetrics(registry), now: now)
    revalidations = RevalidationsController(ledger: ledger, progress: progress, budget: budgets.runs, now: now)
    support = SupportController(
      ledger: ledger, revalidation: UserRevalidation(validator: validator, ledger: ledger),
      transfer: PurchaseTransfer(validator: validator, ledger: ledger), lookUp: lookUp, rules: rules,
      budget: budgets.support, now: now)
    notifications = NotificationsController(receiver: receiver, budgets: budgets)
    self.revenueCat = revenueCat.map { RevenueCatWebhookController(receiver: $0, budgets: budgets) }
    grants = GrantsController(
      grants: AccessGrants(validator: validator, ledger: ledger), catalog: rules.catalog, budget: budgets.support,
      now: now)
    privacy = PrivacyController(
      erasure: UserErasure(validator: validator, ledger: ledger), ledger: ledger, reader: reader, now: now)
    self.trials = TrialsController(
      trials: Trials(
        terms: trials.terms, validator: validator, ledger: ledger, deviceCheck: trials.deviceCheck,
        requiresDeviceCheck: trials.requiresDeviceCheck, deadline: trials.deadline),
      budgets: budgets, limits: limits, soleApp: trials.soleApp, metrics: TrialMetrics(registry), now: now)
    events = EventsController(
      ledger: ledger, experiments: plans.experiments, budgets: budgets, takesTelemetry: dialects.contains(.revenuecat),
      reserve: status.reserve,
      // The answer needs a moment, too.
      longestWait: max(.zero, settings.requestDeadline - .seconds(1)), now: now)
    figures = FiguresController(ledger: ledger, now: now)
    experiments = ExperimentsController(ledger: ledger, experiments: plans.experiments)
    self.webhooks = WebhooksController(endpoints: webhooks, ledger: ledger, budget: budgets.runs)
    brake = BrakeController(brake: status.brake, review: status.review)
    let check = LedgerCheck(ledger: ledger, lifetime: readinessLifetime, now: now)
    health = HealthController(ledger: check, operations: status, now: now)
    metrics = MetricsController(
      ledger: ledger, check: check,
      // Figures change daily: they are cached for 60 times as long as a check of the ledger.
      figures: RecentValue(lifetime: readinessLifetime * 60) {
        try? await ledger.watchedFigures(today: now().utcDay)
      }, status: status, registry: registry, waitingWrites: waitingWrites,
      webhooks: webhooks, isDeviceCheckKeyRejected: { trials.deviceCheck?.state == .keyRefused },
      bodyBytes: { budgets.validationBytes },
      waitingValidations: { line.waiting }, certificateEnd: certificateEnd,
      now: now)
    self.keyring = keyring
    self.tokens = tokens
    // The limit also counts requests for paths that do not exist.
    checks = Self.everywhere + [AddressLimitCheck(limits: limits)]
    self.dialects = DialectRoutes(
      enabled: dialects,
      common: DialectRoutes.Common(
        validator: validator,
        inspector: PurchaseInspector(
          validator: validator, ledger: ledger, accountTokenIsUserID: receiver.accountTokenIsUserID),
        ledger: ledger, reader: reader, plans: plans, budgets: budgets, line: line,
        limits: limits, keyring: keyring, access: access, trials: self.trials, ledgerCheck: health.ledger,
        takesRevenueCat: revenueCat != nil, maxBody: settings.maxBody, now: now))
    speaksTLS = settings.tls != nil
    pageOrigins = settings.pageOrigins
    httpMetrics = HTTPMetrics(registry)
  }

  /// The routes of the public address.
  ///
  /// - Parameter servesOperators: whether readiness and metrics are here too, as operators have no address of their own.
  package func build(servesOperators: Bool) -> Router<ServiceRequestContext> {
    let router = base(speaksTLS: speaksTLS, checks: checks)
    route(router, "/livez", [.get: health.live])
    if servesOperators { routeOperators(router) }
    route(router, "/openapi.yaml", [.get: contract.document])
    let welcome = WelcomePage()
    route(router, "/", [.get: welcome.welcome])
    route(router, "/problems/{code}", [.get: welcome.problem])
    let page = SupportPage()
    route(router, "/support", [.get: page.page])
    route(router, "/support/{file}", [.get: page.file])
    route(router, "/v1/plans", [.get: plans.plans])
    route(router, "/v1/notifications/app-store", [.post: notifications.receive])
    if let revenueCat { route(router, "/v1/notifications/revenuecat", [.post: revenueCat.receive]) }

    let authenticated = router.group()
      .add(middleware: authentication)
    if let accessTokens {
      route(router, "/.well-known/jwks.json", [.get: accessTokens.keys])
      route(authenticated, "/v1/profiles/{user_id}/token", [.get: accessTokens.token])
    }
    route(authenticated, "/v1/validations", [.post: validations.validate])
    route(authenticated, "/v1/profiles/{user_id}", [.get: profiles.profile, .delete: privacy.erase])
    route(authenticated, "/v1/profiles/{user_id}/export", [.get: privacy.export])
    route(authenticated, "/v1/profiles/{user_id}/trials", [.get: trials.list])
    route(authenticated, "/v1/profiles/{user_id}/access", [.get: access.overview])
    route(authenticated, "/v1/profiles/{user_id}/features/{feature}", [.get: access.feature])
    route(authenticated, "/v1/profiles/{user_id}/usage/{feature}", [.post: usage.consume, .put: usage.setCount])
    route(authenticated, "/v1/profiles/{user_id}/usage/{feature}/{key}", [.delete: usage.giveBack])
    route(authenticated, "/v1/trials", [.get: trials.page, .post: trials.start])
    route(authenticated, "/v1/trials/import", [.post: trials.importTrials])
    route(authenticated, "/v1/trials/{device_id}", [.get: trials.trial, .patch: trials.amend])
    route(authenticated, "/v1/trials/{device_id}/sessions", [.post: trials.useSession])
    route(authenticated, "/v1/devices/{device_id}", [.put: trials.register])
    route(authenticated, "/v1/events", [.get: events.list, .post: events.report])
    route(authenticated, "/v1/figures", [.get: figures.figures])
    route(authenticated, "/v1/experiments", [.get: experiments.list])
    route(authenticated, "/v1/webhooks", [.get: webhooks.list])
    route(authenticated, "/v1/webhooks/dead", [.get: webhooks.deadLetters])
    route(authenticated, "/v1/webhooks/redeliver", [.post: webhooks.redeliver])
    route(authenticated, "/v1/revalidations", [.get: revalidations.list, .post: revalidations.start])
    route(authenticated, "/v1/revalidations/{run_id}", [.get: revalidations.run])
    route(authenticated, "/v1/lookup/{id}", [.get: support.find])
    route(authenticated, "/v1/profiles/{user_id}/history", [.get: support.history])
    route(authenticated, "/v1/profiles/{user_id}/revalidation", [.post: support.revalidate])
    route(authenticated, "/v1/profiles/{user_id}/grants", [.get: grants.list, .post: grants.give])
    route(authenticated, "/v1/profiles/{user_id}/grants/{grant_id}", [.delete: grants.end])
    route(authenticated, "/v1/transactions/{original_transaction_id}", [.get: support.transaction])
    route(authenticated, "/v1/transactions/{original_transaction_id}/transfer", [.post: support.transfer])
    route(authenticated, "/v1/notifications/refused", [.get: support.refusedNotifications])
    route(authenticated, "/v1/brake", [.get: brake.state, .delete: brake.release])
    route(authenticated, "/v1/status", [.get: health.status])
    dialects.add { isOpen, path, handlers in
      if isOpen { route(router, path, handlers) } else { route(authenticated, path, handlers) }
    }
    return router
  }

  /// The routes of the operators' address. None needs a key, so that no secret is sent to it.
  ///
  /// - Parameter host: the name or address that it listens on.
  package func buildAdmin(host: String) -> Router<ServiceRequestContext> {
    let router = base(speaksTLS: false, isForPages: false, checks: Self.everywhere + [OwnHostCheck(name: host)])
    route(router, "/livez", [.get: health.live])
    routeOperators(router)
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
    router.add(middleware: ProblemMiddleware(dialects: dialects.errors))
    router.add(middleware: RequestCheckMiddleware(checks: checks, crossOrigin: crossOrigin))
    return router
  }

  private static let everywhere: [any RequestCheck] = [HostCheck(), ExactPathCheck()]

  private var crossOrigin: CrossOriginMiddleware? {
    dialects.hasPages || !pageOrigins.isEmpty
      ? CrossOriginMiddleware(isForAll: dialects.isForPages, origins: pageOrigins) : nil
  }

  private var authentication: AuthenticationMiddleware {
    AuthenticationMiddleware(keyring: keyring, tokens: tokens, limits: limits)
  }

  /// The reads of the public address that are answered without the router.
  package func cachedReads(logger: Logger) -> CachedReads {
    CachedReads(
      profiles: profiles, access: access, authentication: authentication, checks: checks,
      accessLog: AccessLogMiddleware(metrics: httpMetrics), crossOrigin: crossOrigin, speaksTLS: speaksTLS,
      logger: logger)
  }

  private func routeOperators(_ router: Router<ServiceRequestContext>) {
    route(router, "/readyz", [.get: health.ready])
    route(router, "/metrics", [.get: metrics.metrics])
  }

  typealias Handler = @Sendable (Request, ServiceRequestContext) async throws -> Response

  /// Registers a path for its methods, and 405 for the others (RFC 9110, section 15.5.6).
  private func route(
    _ router: some RouterMethods<ServiceRequestContext>, _ path: RouterPath, _ handlers: [HTTPRequest.Method: Handler]
  ) {
    let allowed = (handlers.keys + (handlers[.get] == nil ? [] : [.head])).sorted { $0.rawValue < $1.rawValue }
    for method in KnownMethods.all {
      router.on(path, method: method) { request, context in
        // HEAD is GET without the body (RFC 9110, section 9.3.2).
        if method == .head, let handler = handlers[.get] {
          return try await handler(request, context)
        }
        guard let handler = handlers[method] else {
          throw Problem(
            .methodNotAllowed, "This path takes \(allowed.map(\.rawValue).joined(separator: ", ")) only.",
            allow: allowed)
        }
        return try await handler(request, context)
      }
    }
  }
}
