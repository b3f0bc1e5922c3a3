package import Entitlements
package import HTTPTransport
import JSON
package import Resilience

/// The client of the App Store Server API, which answers about a customer by any transaction ID of the customer.
///
/// It asks production first, as an ID does not show its store, and the sandbox if production has no such transaction.
/// Temporary failures are retried within the deadline, see `RetryPolicy` and `ServerAPIRoute`. Everything but an answer
/// is an error, and no error says anything about a user's purchases.
///
/// https://developer.apple.com/documentation/appstoreserverapi
package final class ServerAPIClient: Sendable {
  package struct Configuration: Sendable {
    var productionURL: String
    var sandboxURL: String
    var key: ServerAPIKey
    /// The largest answer in bytes. A sandbox tester with a hundred subscriptions makes a megabyte.
    var answerLimit = 8 * 1024 * 1024
    var retry: RetryPolicy
    /// The most pages of one-time purchases; Apple's have 20 transactions.
    var pageLimit = 50
    /// Apple's limits, for each app and kind of call.
    var callsPerSecond: [StoreEnvironment: Int] = [.production: 50, .sandbox: 5]
    /// How long a store is not called after a 429 without `Retry-After`.
    var rateLimitPause: Duration = .seconds(30)

    package init(productionURL: String, sandboxURL: String, key: ServerAPIKey, retry: RetryPolicy = RetryPolicy()) {
      self.productionURL = productionURL
      self.sandboxURL = sandboxURL
      self.key = key
      self.retry = retry
    }
  }

  private let configuration: Configuration
  private let verifier: SignedDataVerifier
  private let timing: CallTiming
  private let driver: CallDriver<ServerAPIAttempt>
  private let tokens: DeveloperTokens<BundleID>
  private let rateLimit: ServerAPIRateLimit

  /// - Parameters:
  ///   - verifier: checks everything that is signed in an answer.
  ///   - breakers: one for each store, shared by all look-ups; not those of verifyReceipt, which is another service.
  ///   - retryBudget: shared by all look-ups; `nil`: only `RetryPolicy` limits retries.
  ///   - observe: called after every attempt, for log and metrics, also if the look-up fails.
  package init(
    transport: any Transport, configuration: Configuration, verifier: SignedDataVerifier, timing: CallTiming = .live,
    breakers: [StoreEnvironment: CircuitBreaker] = [:], retryBudget: RetryBudget? = nil,
    observe: @escaping @Sendable (ServerAPIAttempt) -> Void = { _ in }
  ) {
    self.configuration = configuration
    self.verifier = verifier
    self.timing = timing
    driver = CallDriver(
      transport: transport, timing: timing, breakers: breakers, retryBudget: retryBudget, observe: observe)
    tokens = DeveloperTokens(sign: configuration.key.token)
    rateLimit = ServerAPIRateLimit(callsPerSecond: configuration.callsPerSecond)
  }

  /// All subscriptions of the customer who made a transaction, and the one-time purchases if wanted.
  ///
  /// - Parameters:
  ///   - id: any transaction ID of the customer.
  ///   - bundleIDs: our apps. Each has its own token and is asked about in turn until one has the transaction.
  ///   - stores: the stores to ask, in this order. For a purchase of a known store that store alone; `notFound` is then
  ///     its answer alone.
  ///   - includesOneTimePurchases: whether to read the other list too, at the cost of one call for each 20 purchases.
  ///   - retriesTrouble: whether Apple's trouble may be retried out of the shared budget. Not if nobody waits and Apple
  ///     is asked again later anyway.
  ///   - deadline: the end of all attempts together.
  package func history(
    of id: OriginalTransactionID, bundleIDs: [BundleID], stores: [StoreEnvironment] = [.production, .sandbox],
    includesOneTimePurchases: Bool, retriesTrouble: Bool = true, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> AppStoreAnswer {
    let found = try await lookUp(
      ServerAPIRequest(id: id.rawValue), includesOneTimePurchases ? [.statuses, .history] : [.statuses],
      bundleIDs: bundleIDs, stores: stores,
      retriesTrouble: retriesTrouble, deadline: deadline)
    return found.findings.answer(
      environment: found.place.environment, bundleID: found.place.bundleID, now: timing.date())
  }

  /// The payments of the subscriptions of the customer who made a transaction: the statuses have the last one of each.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/get-transaction-history
  package func payments(
    of id: OriginalTransactionID, bundleIDs: [BundleID], in store: StoreEnvironment, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> PurchaseHistory {
    let found = try await lookUp(
      ServerAPIRequest(id: id.rawValue), [.payments], bundleIDs: bundleIDs, stores: [store], retriesTrouble: false,
      deadline: deadline)
    return found.findings.answer(
      environment: found.place.environment, bundleID: found.place.bundleID, now: timing.date()
    ).history
  }

  /// One transaction, as Apple knows it now.
  package func transaction(
    _ id: TransactionID, bundleIDs: [BundleID], stores: [StoreEnvironment] = [.production, .sandbox],
    deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> VerifiedTransaction {
    let found = try await lookUp(
      ServerAPIRequest(id: id.rawValue), [.transaction], bundleIDs: bundleIDs, stores: stores, deadline: deadline)
    guard let transaction = found.findings.transaction else { throw .invalidAnswer("there is no transaction in it") }
    return transaction
  }

  /// The transactions of one order, by the ID in Apple's mail to the customer. The ID is not signed: the signatures
  /// prove a purchase in our app, and only Apple's answer says that it belongs to the order.
  ///
  /// Only production is asked: the sandbox does not have this endpoint.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/look-up-order-id
  package func order(
    _ id: String, bundleIDs: [BundleID], deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> [VerifiedTransaction] {
    try await lookUp(
      ServerAPIRequest(order: id), [.order], bundleIDs: bundleIDs, stores: [.production], deadline: deadline
    ).findings.order
  }

  /// A page of the notifications of one app, as Apple sent them or tried to. Nothing in it is verified.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/get-notification-history
  package func notifications(
    _ query: NotificationQuery, of bundleID: BundleID, in store: StoreEnvironment, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> NotificationPage {
    let answer = try await unsigned(
      ServerAPIRequest(query), .notifications, bundleIDs: [bundleID], in: store, retriesTrouble: true,
      deadline: deadline)
    guard case .notifications(let page) = answer else { throw .invalidAnswer("there is no page in it") }
    return page
  }

  /// Has Apple post a test notification to the app's URL.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/request-a-test-notification
  /// - Returns: the token for `testOutcome`.
  package func requestTest(
    of bundleID: BundleID, in store: StoreEnvironment, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> String {
    let answer = try await unsigned(
      ServerAPIRequest(testToken: ""), .testNotification, bundleIDs: [bundleID], in: store, deadline: deadline)
    guard case .testToken(let token) = answer else { throw .invalidAnswer("there is no token in it") }
    return token
  }

  /// The outcome of a test notification. While Apple does not know it, the error is `unexpected` with the code 4040008.
  ///
  /// - Returns: `sendAttemptResult` of the last attempt, as sent: `SUCCESS`, `TIMED_OUT`, …; `nil` before the first.
  package func testOutcome(
    _ token: String, of bundleID: BundleID, in store: StoreEnvironment, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> String? {
    let answer = try await unsigned(
      ServerAPIRequest(testToken: token), .testOutcome, bundleIDs: [bundleID], in: store, deadline: deadline)
    guard case .testOutcome(let outcome) = answer else { throw .invalidAnswer("there is no outcome in it") }
    return outcome
  }

  /// Sends consumption information about a transaction, for Apple's decision on a refund. Apple has it when this returns.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/send-consumption-information
  package func send(
    _ information: ConsumptionInformation, about id: TransactionID, of bundleID: BundleID, in store: StoreEnvironment,
    deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) {
    _ = try await unsigned(
      ServerAPIRequest(information, about: id), .consumption, bundleIDs: [bundleID], in: store, deadline: deadline)
  }

  /// The refunded transactions of the customer who made a transaction, whatever their kind, page by page to the end.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/get-refund-history
  /// - Parameter retriesTrouble: see `history`.
  package func refunds(
    of id: OriginalTransactionID, bundleIDs: [BundleID], in store: StoreEnvironment, retriesTrouble: Bool = true,
    deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> [SignedRefund] {
    try await lookUp(
      ServerAPIRequest(id: id.rawValue), [.refunds], bundleIDs: bundleIDs, stores: [store],
      retriesTrouble: retriesTrouble, deadline: deadline
    ).findings.refunds
  }

  /// Tells Apple the user who has a purchase, by a lower-case UUID. Apple has it when this returns.
  ///
  /// https://developer.apple.com/documentation/appstoreserverapi/set-app-account-token
  package func setAccountToken(
    _ token: String, of id: OriginalTransactionID, bundleIDs: [BundleID], in store: StoreEnvironment,
    deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) {
    _ = try await unsigned(
      ServerAPIRequest(accountToken: token, of: id), .accountToken, bundleIDs: bundleIDs, in: store,
      deadline: deadline)
  }

  /// Whether a store is paused after a 429.
  package func isClosed(_ environment: StoreEnvironment) -> Bool {
    rateLimit.closed(environment, at: timing.now()) != nil
  }

  /// Whether calls to a store are useless at the moment: its circuit breaker is open, or it is paused after a 429.
  package func isAway(_ environment: StoreEnvironment) -> Bool {
    driver.breakers[environment]?.state == .open || isClosed(environment)
  }

  /// The unsigned answer of one endpoint of one store.
  func unsigned(
    _ request: ServerAPIRequest?, _ endpoint: ServerAPIEndpoint, bundleIDs: [BundleID], in store: StoreEnvironment,
    retriesTrouble: Bool = false, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> UnsignedAnswer? {
    try await lookUp(
      request, [endpoint], bundleIDs: bundleIDs, stores: [store], retriesTrouble: retriesTrouble, deadline: deadline
    ).findings.unsigned
  }

  private func lookUp(
    _ request: ServerAPIRequest?, _ endpoints: [ServerAPIEndpoint], bundleIDs: [BundleID], stores: [StoreEnvironment],
    retriesTrouble: Bool = true, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> LookUp.Found {
    guard let request else { throw .notFound }
    guard
      let route = ServerAPIRoute(stores: stores, bundleIDs: bundleIDs, endpoints: endpoints, retry: configuration.retry)
    else { throw .unavailable(.misrouted) }
    return try await driver.answer(
      to: LookUp(
        request: request, bundleIDs: bundleIDs, configuration: configuration, verifier: verifier, timing: timing,
        tokens: tokens, rateLimit: rateLimit, route: route),
      retriesTrouble: retriesTrouble, deadline: deadline)
  }
}

/// The look-up of one ID or order, through stores, apps, endpoints and pages.
private struct LookUp: AppleQuestion {
  struct Found {
    var place: ServerAPIRoute.Place
    var findings: ServerAPIFindings
  }

  let request: ServerAPIRequest
  let bundleIDs: [BundleID]
  let configuration: ServerAPIClient.Configuration
  let verifier: SignedDataVerifier
  let timing: CallTiming
  let tokens: DeveloperTokens<BundleID>
  let rateLimit: ServerAPIRateLimit
  var route: ServerAPIRoute
  var findings = ServerAPIFindings()
  var token: DeveloperToken?

  var environment: StoreEnvironment { route.place.environment }

  /// Waits until Apple's rate limit leaves room for the call.
  func waitForTurn(repeating failure: AppStoreError?, deadline: ContinuousClock.Instant) async throws(AppStoreError) {
    let quota = ServerAPIRateLimit.Quota(
      environment: environment, bundleID: route.place.bundleID, endpoint: route.endpoint)
    switch rateLimit.turn(for: quota, at: timing.now(), before: deadline) {
    case .after(.zero): return
    case .after(let wait):
      do { try await timing.sleep(wait) } catch { throw .cancelled }
      guard timing.now() < deadline else { throw failure ?? .overloaded }
      // Another call may have met a 429 in the meantime.
      guard let remaining = rateLimit.closed(environment, at: timing.now()) else { return }
      throw failure ?? .unavailable(.rateLimited(retryAfter: remaining))
    case .tooLate: throw failure ?? .overloaded
    case .closed(let remaining): throw failure ?? .unavailable(.rateLimited(retryAfter: remaining))
    }
  }

  mutating func nextRequest() throws(AppStoreError) -> TransportRequest {
    let token: DeveloperToken
    // A key that cannot sign is as useless as one that Apple rejects.
    do { token = try tokens.token(for: route.place.bundleID, now: timing.date()) } catch { throw .keyRejected }
    self.token = token
    return request.transportRequest(
      to: environment.select(configuration.productionURL, configuration.sandboxURL), route.endpoint,
      revision: findings.revision, token: token, answerLimit: configuration.answerLimit)
  }

  func outcome(of answer: CallResponse) async throws(AppStoreError) -> ServerAPIOutcome {
    if route.endpoint.isSent, (200..<300).contains(answer.response.status) {
      return .answer(.unsigned(.accepted), answeredAt: answer.answeredAt)
    }
    guard answer.response.status == 200 else { return try await failure(answer) }
    let body: ServerAPIResponse
    do throws(JSONReader.Failure) {
      body = try await JSONReader.shared.read(answer.response.body, largeIntegers: .text) {
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
      // Apple's clock if ahead of ours: a signature made for this answer is not from the future.
      now: max(answer.askedAt, answer.answeredAt ?? answer.askedAt))
    do throws(AppStoreError) {
      return .answer(try examiner.contents(of: body, asked: request.id), answeredAt: answer.answeredAt)
    } catch {
      return .refused(error)
    }
  }

  /// The outcome of an HTTP status other than 200.
  private func failure(_ answer: CallResponse) async throws(AppStoreError) -> ServerAPIOutcome {
    let status = answer.response.status
    let retryAfter = answer.retryAfter
    let code = try await errorCode(answer.response.body).flatMap { $0.httpStatus == status ? $0 : nil }
    switch status {
    case 401: return .http(status, errorCode: code?.rawValue, retryAfter: nil)
    case 429:
      // A time in the past still means: not at once.
      let pause = max(retryAfter ?? configuration.rateLimitPause, .seconds(1))
      rateLimit.close(environment, for: pause, at: timing.now())
      return .rateLimited(errorCode: code?.rawValue, retryAfter: pause)
    case 400...499:
      return code.map { .error(httpStatus: status, $0) } ?? .http(status, errorCode: nil, retryAfter: retryAfter)
    default: return .http(status, errorCode: code?.rawValue, retryAfter: retryAfter)
    }
  }

  /// - Returns: `nil` for a body that is no error of Apple's, HTML from a proxy for instance.
  private func errorCode(_ body: [UInt8]) async throws(AppStoreError) -> ServerAPIErrorCode? {
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

  mutating func next(after outcome: ServerAPIOutcome) throws(AppStoreError) -> CallStep<Found> {
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
