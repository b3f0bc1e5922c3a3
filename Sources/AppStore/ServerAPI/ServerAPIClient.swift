package import Entitlements
package import HTTPTransport
import JSON
package import Resilience

/// Asks the App Store Server API about a customer's purchases, by any transaction ID of the customer.
///
/// Production first, as nothing tells of which store an ID is; the sandbox where production says that it has no such
/// transaction. Temporary failures are retried inside the deadline, see `RetryPolicy` and `ServerAPIRoute`. Whatever is
/// not an answer is an error; no error says anything about what a user has.
///
/// Copies share tokens, the turns under Apple's rate limits, and which store has asked to be left alone.
///
/// https://developer.apple.com/documentation/appstoreserverapi
package struct ServerAPIClient: Sendable {
  package struct Configuration: Sendable {
    package var productionURL: String
    package var sandboxURL: String
    package var key: ServerAPIKey
    /// The most bytes of an answer that are taken. A sandbox tester with a hundred subscriptions makes a megabyte.
    package var answerLimit: Int
    package var retry: RetryPolicy
    /// The most pages of what was bought once that are read; Apple's have 20 transactions.
    package var pageLimit: Int
    /// Of each kind, for each app; Apple's limits.
    package var callsPerSecond: [StoreEnvironment: Int]
    /// How long a store is left alone after a 429 that does not say.
    package var rateLimitPause: Duration

    package init(
      productionURL: String = "https://api.storekit.itunes.apple.com",
      sandboxURL: String = "https://api.storekit-sandbox.itunes.apple.com",
      key: ServerAPIKey, answerLimit: Int = 8 * 1024 * 1024, retry: RetryPolicy = RetryPolicy(), pageLimit: Int = 50,
      callsPerSecond: [StoreEnvironment: Int] = [.production: 50, .sandbox: 5],
      rateLimitPause: Duration = .seconds(30)
    ) {
      self.productionURL = productionURL
      self.sandboxURL = sandboxURL
      self.key = key
      self.answerLimit = answerLimit
      self.retry = retry
      self.pageLimit = pageLimit
      self.callsPerSecond = callsPerSecond
      self.rateLimitPause = rateLimitPause
    }

    func url(of environment: StoreEnvironment) -> String {
      switch environment {
      case .production: productionURL
      case .sandbox: sandboxURL
      }
    }
  }

  private let configuration: Configuration
  private let verifier: SignedDataVerifier
  private let timing: CallTiming
  private let driver: CallDriver<ServerAPIAttempt>
  private let tokens: ServerAPITokens
  private let rateLimit: ServerAPIRateLimit

  /// - Parameters:
  ///   - verifier: of everything that is signed in an answer.
  ///   - breakers: one for each store, shared by all look-ups; not those of verifyReceipt, which is another service.
  ///   - retryBudget: shared by all look-ups; `nil`: no bound but `RetryPolicy`.
  ///   - observe: told of every attempt when it ends, for log and metrics, also when the look-up fails.
  package init(
    transport: any Transport,
    configuration: Configuration,
    verifier: SignedDataVerifier,
    timing: CallTiming = .live,
    breakers: [StoreEnvironment: CircuitBreaker] = [:],
    retryBudget: RetryBudget? = nil,
    observe: @escaping @Sendable (ServerAPIAttempt) -> Void = { _ in }
  ) {
    self.configuration = configuration
    self.verifier = verifier
    self.timing = timing
    driver = CallDriver(
      transport: transport, timing: timing, breakers: breakers, retryBudget: retryBudget, observe: observe)
    tokens = ServerAPITokens(key: configuration.key)
    rateLimit = ServerAPIRateLimit(callsPerSecond: configuration.callsPerSecond)
  }

  /// Everything that Apple knows about the customer who made a transaction: every subscription as it stands, and where
  /// that is asked for, what was bought once.
  ///
  /// - Parameters:
  ///   - id: any transaction ID of the customer.
  ///   - bundleIDs: our apps. Each has a token of its own, so each is asked about until one has the transaction.
  ///   - stores: where to ask, in this order. A purchase whose store is known is asked about there alone; then
  ///     `notFound` is the word of that store alone.
  ///   - includesOneTimePurchases: what was bought once is in another list, which costs a call more for each 20 of them.
  ///   - retriesTrouble: whether Apple's trouble is worth a retry out of the budget. Not so where nobody waits, and Apple
  ///     is asked again later anyway.
  ///   - deadline: for everything together.
  package func history(
    of id: OriginalTransactionID, bundleIDs: [BundleID], stores: [StoreEnvironment] = [.production, .sandbox],
    includesOneTimePurchases: Bool, retriesTrouble: Bool = true, deadline: ContinuousClock.Instant
  ) async throws(ServerAPIError) -> ServerAPIAnswer {
    let (found, attempts) = try await lookUp(
      ServerAPIRequest(id: id.rawValue), includesOneTimePurchases ? [.statuses, .history] : [.statuses],
      bundleIDs: bundleIDs, stores: stores,
      retriesTrouble: retriesTrouble, deadline: deadline)
    return found.findings.answer(
      environment: found.place.environment, bundleID: found.place.bundleID, attempts: attempts, now: timing.date())
  }

  /// One transaction, as Apple knows it now.
  package func transaction(
    _ id: TransactionID, bundleIDs: [BundleID], stores: [StoreEnvironment] = [.production, .sandbox],
    deadline: ContinuousClock.Instant
  ) async throws(ServerAPIError) -> VerifiedTransaction {
    let (found, _) = try await lookUp(
      ServerAPIRequest(id: id.rawValue), [.transaction], bundleIDs: bundleIDs, stores: stores, deadline: deadline)
    guard let transaction = found.findings.transaction else { throw .invalidAnswer("there is no transaction in it") }
    return transaction
  }

  /// The transactions of one order, by the ID that Apple writes to the customer. It is not signed: what is signed tells what
  /// was bought in our app, and Apple's answer alone that it was bought in this order.
  ///
  /// Production alone is asked: the sandbox does not have this endpoint.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/look-up-order-id
  package func order(
    _ id: String, bundleIDs: [BundleID], deadline: ContinuousClock.Instant
  ) async throws(ServerAPIError) -> [VerifiedTransaction] {
    try await lookUp(
      ServerAPIRequest(order: id), [.order], bundleIDs: bundleIDs, stores: [.production], deadline: deadline
    ).answer.findings.order
  }

  /// Whether Apple has asked to be left alone (429), and the time is not over.
  package func isClosed(_ environment: StoreEnvironment) -> Bool {
    rateLimit.closed(environment, at: timing.now()) != nil
  }

  private func lookUp(
    _ request: ServerAPIRequest?, _ endpoints: [ServerAPIEndpoint], bundleIDs: [BundleID], stores: [StoreEnvironment],
    retriesTrouble: Bool = true, deadline: ContinuousClock.Instant
  ) async throws(ServerAPIError) -> (answer: LookUp.Found, attempts: [ServerAPIAttempt]) {
    guard let request else { throw .notFound }
    guard
      let route = ServerAPIRoute(
        stores: stores, bundleIDs: bundleIDs, endpoints: endpoints, retry: configuration.retry)
    else { throw .unavailable(.misrouted) }
    return try await driver.answer(
      to: LookUp(
        request: request, bundleIDs: bundleIDs, configuration: configuration, verifier: verifier, timing: timing,
        tokens: tokens, rateLimit: rateLimit, route: route),
      retriesTrouble: retriesTrouble, deadline: deadline)
  }
}

/// One ID or order, on its way through stores, apps, endpoints and pages.
private struct LookUp: AppleQuestion {
  /// What the answers came to.
  struct Found {
    /// The place that knows the transaction.
    var place: ServerAPIRoute.Place
    var findings: ServerAPIFindings
  }

  let request: ServerAPIRequest
  let bundleIDs: [BundleID]
  let configuration: ServerAPIClient.Configuration
  let verifier: SignedDataVerifier
  let timing: CallTiming
  let tokens: ServerAPITokens
  let rateLimit: ServerAPIRateLimit
  var route: ServerAPIRoute
  var findings = ServerAPIFindings()
  /// The token of the last call.
  var token: ServerAPIToken?

  var environment: StoreEnvironment { route.place.environment }

  /// Waits until Apple's rate limit leaves room for the call.
  func waitForTurn(
    repeating failure: ServerAPIError?, deadline: ContinuousClock.Instant
  ) async throws(ServerAPIError) {
    let subject = ServerAPIRateLimit.Subject(
      environment: environment, bundleID: route.place.bundleID, endpoint: route.endpoint)
    switch rateLimit.turn(for: subject, at: timing.now(), before: deadline) {
    case .after(.zero): return
    case .after(let wait):
      do { try await timing.sleep(wait) } catch { throw .cancelled }
      guard timing.now() < deadline else { throw failure ?? .overloaded }
      // Another call may have been told to stop in the meantime.
      guard let remaining = rateLimit.closed(environment, at: timing.now()) else { return }
      throw failure ?? .unavailable(.rateLimited(retryAfter: remaining))
    case .tooLate: throw failure ?? .overloaded
    case .closed(let remaining): throw failure ?? .unavailable(.rateLimited(retryAfter: remaining))
    }
  }

  mutating func nextRequest() throws(ServerAPIError) -> TransportRequest {
    let token: ServerAPIToken
    // A key that does not sign is as good as one that Apple does not take.
    do { token = try tokens.token(for: route.place.bundleID, now: timing.date()) } catch { throw .keyRejected }
    self.token = token
    return request.transportRequest(
      to: configuration.url(of: environment), route.endpoint, revision: findings.revision, token: token,
      answerLimit: configuration.answerLimit)
  }

  func outcome(of answer: CallResponse) async throws(ServerAPIError) -> ServerAPIOutcome {
    guard answer.response.status == 200 else { return try await failure(answer) }
    let body: ServerAPIResponse
    do throws(JSONReader.Failure) {
      body = try await JSONReader.shared.read(answer.response.body) {
        [endpoint = route.endpoint] root throws(JSONError) in
        try ServerAPIResponse(root, of: endpoint)
      }
    } catch {
      switch error {
      case .cancelled: throw .cancelled
      case .json(let error): return .malformed(error)
      }
    }
    let examiner = ServerAPIExaminer(
      verifier: verifier, bundleIDs: bundleIDs, environment: environment,
      // Apple's clock where it runs ahead of ours: a signature that was made for this answer is not from the future.
      now: max(answer.askedAt, answer.answeredAt ?? answer.askedAt))
    do throws(ServerAPIError) {
      return .answer(try examiner.contents(of: body, asked: request.id), answeredAt: answer.answeredAt)
    } catch {
      return .refused(error)
    }
  }

  /// What an answer with another HTTP status than 200 is.
  private func failure(_ answer: CallResponse) async throws(ServerAPIError) -> ServerAPIOutcome {
    let status = answer.response.status
    let retryAfter = answer.retryAfter
    let code = try await errorCode(answer.response.body).flatMap { $0.httpStatus == status ? $0 : nil }
    switch status {
    case 401:
      return .http(status, errorCode: code?.rawValue, retryAfter: nil)
    case 429:
      // A moment that is over by Apple's clock still means: not at once.
      let pause = max(retryAfter ?? configuration.rateLimitPause, .seconds(1))
      rateLimit.close(environment, for: pause, at: timing.now())
      return .rateLimited(errorCode: code?.rawValue, retryAfter: pause)
    case 400...499:
      return code.map { .error(httpStatus: status, $0) } ?? .http(status, errorCode: nil, retryAfter: retryAfter)
    default:
      return .http(status, errorCode: code?.rawValue, retryAfter: retryAfter)
    }
  }

  /// - Returns: `nil` for a body that is no error of Apple's: HTML of the edge, nothing at all.
  private func errorCode(_ body: [UInt8]) async throws(ServerAPIError) -> ServerAPIErrorCode? {
    do throws(JSONReader.Failure) {
      return try await JSONReader.shared.read(body) { root throws(JSONError) in try ServerAPIErrorCode(root) }
    } catch {
      switch error {
      case .cancelled: throw .cancelled
      case .json: return nil
      }
    }
  }

  func health(of outcome: ServerAPIOutcome, given: Duration) -> CircuitBreaker.Outcome { outcome.health(given: given) }

  func attempt(_ outcome: ServerAPIOutcome, duration: Duration) -> ServerAPIAttempt {
    ServerAPIAttempt(
      environment: environment, endpoint: route.endpoint, outcome: outcome.summary, duration: duration,
      answeredAt: outcome.answeredAt)
  }

  mutating func next(after outcome: ServerAPIOutcome) throws(ServerAPIError) -> CallStep<Found, ServerAPIError> {
    if case .answer(let contents, let answeredAt) = outcome {
      try findings.take(contents, answeredAt: answeredAt, pageLimit: configuration.pageLimit)
    }
    switch route.next(after: outcome) {
    case .conclude: return .conclude(Found(place: route.place, findings: findings))
    case .ask: return .ask
    case .renewToken:
      if let token { tokens.drop(token, for: route.place.bundleID) }
      return .ask
    case .retry(let ceiling, let least, let failure): return .retry(ceiling: ceiling, least: least, failure: failure)
    case .fail(let error): return .fail(error)
    }
  }
}
