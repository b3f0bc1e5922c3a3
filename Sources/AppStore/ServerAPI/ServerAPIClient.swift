package import Entitlements
package import HTTPTransport
import JSON
package import Resilience

import struct FoundationEssentials.Date

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

  package typealias Timing = VerifyReceiptClient.Timing

  private let transport: any Transport
  private let configuration: Configuration
  private let verifier: SignedDataVerifier
  private let timing: Timing
  private let breakers: [StoreEnvironment: CircuitBreaker]
  private let retryBudget: RetryBudget?
  private let observe: @Sendable (ServerAPIAttempt) -> Void
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
    timing: Timing = .live,
    breakers: [StoreEnvironment: CircuitBreaker] = [:],
    retryBudget: RetryBudget? = nil,
    observe: @escaping @Sendable (ServerAPIAttempt) -> Void = { _ in }
  ) {
    self.transport = transport
    self.configuration = configuration
    self.verifier = verifier
    self.timing = timing
    self.breakers = breakers
    self.retryBudget = retryBudget
    self.observe = observe
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
    let look = try await lookUp(
      ServerAPIRequest(id: id.rawValue), includesOneTimePurchases ? [.statuses, .history] : [.statuses],
      bundleIDs: bundleIDs, stores: stores,
      retriesTrouble: retriesTrouble, deadline: deadline)
    return look.findings.answer(
      environment: look.place.environment, bundleID: look.place.bundleID, attempts: look.attempts, now: timing.date())
  }

  /// One transaction, as Apple knows it now.
  package func transaction(
    _ id: TransactionID, bundleIDs: [BundleID], stores: [StoreEnvironment] = [.production, .sandbox],
    deadline: ContinuousClock.Instant
  ) async throws(ServerAPIError) -> VerifiedTransaction {
    let look = try await lookUp(
      ServerAPIRequest(id: id.rawValue), [.transaction], bundleIDs: bundleIDs, stores: stores, deadline: deadline)
    guard let transaction = look.findings.transaction else { throw .invalidAnswer("there is no transaction in it") }
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
    ).findings.order
  }

  /// Whether Apple has asked to be left alone (429), and the time is not over.
  package func isClosed(_ environment: StoreEnvironment) -> Bool {
    rateLimit.closed(environment, at: timing.now()) != nil
  }

  /// What the answers to one question came to.
  private struct LookUp {
    var place: ServerAPIRoute.Place
    var findings = ServerAPIFindings()
    var attempts: [ServerAPIAttempt] = []
  }

  private func lookUp(
    _ request: ServerAPIRequest?, _ endpoints: [ServerAPIEndpoint], bundleIDs: [BundleID], stores: [StoreEnvironment],
    retriesTrouble: Bool = true, deadline: ContinuousClock.Instant
  ) async throws(ServerAPIError) -> LookUp {
    guard let request else { throw .notFound }
    guard
      var route = ServerAPIRoute(
        stores: stores, bundleIDs: bundleIDs, endpoints: endpoints, retry: configuration.retry)
    else { throw .unavailable(.misrouted) }
    var look = LookUp(place: route.place)
    /// Why the last call is repeated; `nil` when the next one repeats none.
    var repeated: ServerAPIError?
    while true {
      guard !Task.isCancelled else { throw .cancelled }
      guard timing.now() < deadline else { throw .unavailable(.deadlinePassed) }
      look.place = route.place
      let call = Call(
        request: request, place: route.place, endpoint: route.endpoint, revision: look.findings.revision,
        bundleIDs: bundleIDs, isFirst: look.attempts.isEmpty, repeats: repeated)
      let (outcome, attempt, token) = try await make(call, deadline: deadline)
      look.attempts.append(attempt)
      observe(attempt)
      if case .answer(let contents, let answeredAt) = outcome {
        try look.findings.take(contents, answeredAt: answeredAt, pageLimit: configuration.pageLimit)
      }
      repeated = nil
      switch route.next(after: outcome) {
      case .conclude:
        return look
      case .ask:
        break
      case .renewToken:
        tokens.drop(token, for: call.place.bundleID)
      case .fail(let error):
        throw error
      case .retry(let ceiling, let least, let failure):
        // A store that is being kept from calls, or tried with one, gets no second call from the same look-up.
        guard retriesTrouble, breakers[call.place.environment].map({ $0.state == .closed }) ?? true else {
          throw failure
        }
        try await pause(ceiling: ceiling, least: least, deadline: deadline, failure: failure)
        repeated = failure
      }
    }
  }

  private struct Call {
    var request: ServerAPIRequest
    var place: ServerAPIRoute.Place
    var endpoint: ServerAPIEndpoint
    var revision: String?
    var bundleIDs: [BundleID]
    /// Of the look-up.
    var isFirst: Bool
    /// What made it necessary to repeat it.
    var repeats: ServerAPIError?
  }

  /// One call at its turn, and the breaker told how it went. Errors are only those that end everything at once; all else
  /// is an outcome to judge.
  private func make(
    _ call: Call, deadline: ContinuousClock.Instant
  ) async throws(ServerAPIError) -> (ServerAPIOutcome, ServerAPIAttempt, ServerAPIToken) {
    let environment = call.place.environment
    let permit = try permit(for: environment, repeating: call.repeats)
    do throws(ServerAPIError) {
      try await waitForTurn(call, deadline: deadline)
      if call.isFirst { retryBudget?.noteFirstCall() }
      let token = try token(for: call.place.bundleID)
      let started = timing.now()
      let outcome = try await send(call, token, deadline: deadline)
      if case .rateLimited(_, let retryAfter) = outcome {
        rateLimit.close(environment, for: retryAfter, at: timing.now())
      }
      let health = outcome.health(given: deadline - started)
      // A repeated call that fails again tells nothing new.
      permit?.report(call.repeats != nil && health != .success ? .neutral : health)
      let attempt = ServerAPIAttempt(
        environment: environment, endpoint: call.endpoint, outcome: outcome.summary, duration: timing.now() - started,
        answeredAt: outcome.answeredAt)
      return (outcome, attempt, token)
    } catch {
      permit?.report(.neutral)
      throw error
    }
  }

  /// Leave for one call; `nil` where no breaker asks for it.
  ///
  /// - Parameter failure: what made it necessary to repeat a call. It tells more than that the breaker opened since.
  private func permit(
    for environment: StoreEnvironment, repeating failure: ServerAPIError?
  ) throws(ServerAPIError) -> CircuitBreaker.Permit? {
    switch breakers[environment]?.admit() {
    case nil: return nil
    case .admitted(let permit)?: return permit
    case .refused(let retryIn)?: throw failure ?? .unavailable(.circuitOpen(environment, retryIn: retryIn))
    }
  }

  /// Waits until Apple's rate limit leaves room for the call.
  private func waitForTurn(_ call: Call, deadline: ContinuousClock.Instant) async throws(ServerAPIError) {
    let environment = call.place.environment
    let subject = ServerAPIRateLimit.Subject(
      environment: environment, bundleID: call.place.bundleID, endpoint: call.endpoint)
    switch rateLimit.turn(for: subject, at: timing.now(), before: deadline) {
    case .after(.zero): return
    case .after(let wait):
      do { try await timing.sleep(wait) } catch { throw .cancelled }
      guard timing.now() < deadline else { throw call.repeats ?? .overloaded }
      // Another call may have been told to stop in the meantime.
      guard let remaining = rateLimit.closed(environment, at: timing.now()) else { return }
      throw call.repeats ?? .unavailable(.rateLimited(retryAfter: remaining))
    case .tooLate: throw call.repeats ?? .overloaded
    case .closed(let remaining): throw call.repeats ?? .unavailable(.rateLimited(retryAfter: remaining))
    }
  }

  private func token(for bundleID: BundleID) throws(ServerAPIError) -> ServerAPIToken {
    // A key that does not sign is as good as one that Apple does not take.
    do { return try tokens.token(for: bundleID, now: timing.date()) } catch { throw .keyRejected }
  }

  private func send(
    _ call: Call, _ token: ServerAPIToken, deadline: ContinuousClock.Instant
  ) async throws(ServerAPIError) -> ServerAPIOutcome {
    let askedAt = timing.date()
    let response: TransportResponse
    do {
      response = try await transport.send(
        call.request.transportRequest(
          to: configuration.url(of: call.place.environment), call.endpoint, revision: call.revision, token: token,
          answerLimit: configuration.answerLimit),
        deadline: deadline)
    } catch .cancelled {
      throw .cancelled
    } catch .overloaded {
      throw .overloaded
    } catch {
      return .noAnswer(error)
    }
    let answeredAt = response.header("Date").flatMap(HTTPDate.parse)
    guard response.status == 200 else {
      return try await failure(response, answeredAt: answeredAt ?? askedAt)
    }
    let body: ServerAPIResponse
    do throws(JSONReader.Failure) {
      body = try await JSONReader.shared.read(response.body) { root throws(JSONError) in
        try ServerAPIResponse(root, of: call.endpoint)
      }
    } catch {
      switch error {
      case .cancelled: throw .cancelled
      case .json(let error): return .malformed(error)
      }
    }
    let gateway = ServerAPIExaminer(
      verifier: verifier, bundleIDs: call.bundleIDs, environment: call.place.environment,
      // Apple's clock where it runs ahead of ours: a signature that was made for this answer is not from the future.
      now: max(askedAt, answeredAt ?? askedAt))
    do throws(ServerAPIError) {
      return .answer(try gateway.contents(of: body, asked: call.request.id), answeredAt: answeredAt)
    } catch {
      return .refused(error)
    }
  }

  /// What an answer with another HTTP status than 200 is.
  private func failure(
    _ response: TransportResponse, answeredAt moment: Date
  ) async throws(ServerAPIError) -> ServerAPIOutcome {
    let status = response.status
    let retryAfter = response.header("Retry-After").flatMap { RetryAfter.parse($0, answeredAt: moment) }
    let code = try await errorCode(response.body).flatMap { $0.httpStatus == status ? $0 : nil }
    switch status {
    case 401:
      return .http(status, errorCode: code?.rawValue, retryAfter: nil)
    case 429:
      // A moment that is over by Apple's clock still means: not at once.
      return .rateLimited(
        errorCode: code?.rawValue, retryAfter: max(retryAfter ?? configuration.rateLimitPause, .seconds(1)))
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

  /// Waits before the same call is made again.
  ///
  /// - Throws: `failure` when the retry budget is spent or the pause would outlast the deadline.
  private func pause(
    ceiling: Duration, least: Duration, deadline: ContinuousClock.Instant, failure: ServerAPIError
  ) async throws(ServerAPIError) {
    let pause = max(timing.jitter(ceiling), least)
    guard timing.now().advanced(by: pause) < deadline, retryBudget?.takeRetry() ?? true else { throw failure }
    do { try await timing.sleep(pause) } catch { throw .cancelled }
    guard timing.now() < deadline else { throw failure }
  }
}
