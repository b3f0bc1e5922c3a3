package import Entitlements
package import HTTPTransport
import JSON
package import Resilience

package import struct FoundationEssentials.Date

/// Asks Apple's `verifyReceipt` about a receipt.
///
/// Production first; the sandbox only on 21007 and production only on 21008, each once: the sandbox has wrongly answered
/// 21007 for days. Temporary failures are retried inside the deadline, see `RetryPolicy`. Whatever is not a verdict is
/// an error; no error says anything about what a user has.
///
/// https://developer.apple.com/documentation/appstorereceipts/verifyreceipt
package struct VerifyReceiptClient: Sendable {
  package struct Configuration: Sendable {
    package var productionURL: String
    package var sandboxURL: String
    package var sharedSecret: Secret
    /// The most bytes of an answer that are taken. Thousands of rows make some megabytes.
    package var answerLimit: Int
    package var retry: RetryPolicy

    package init(
      productionURL: String, sandboxURL: String, sharedSecret: Secret, answerLimit: Int = 8 * 1024 * 1024,
      retry: RetryPolicy = RetryPolicy()
    ) {
      self.productionURL = productionURL
      self.sandboxURL = sandboxURL
      self.sharedSecret = sharedSecret
      self.answerLimit = answerLimit
      self.retry = retry
    }

    func url(of environment: StoreEnvironment) -> String {
      switch environment {
      case .production: productionURL
      case .sandbox: sandboxURL
      }
    }
  }

  /// Clocks and chance, passed in so that tests neither sleep nor roll dice.
  package struct Timing: Sendable {
    /// For deadlines and pauses: never jumps.
    package var now: @Sendable () -> ContinuousClock.Instant
    /// Our calendar clock; judged by only where Apple names no time.
    package var date: @Sendable () -> Date
    /// Throws when the task is cancelled, and only then.
    package var sleep: @Sendable (Duration) async throws -> Void
    /// A pause between zero and the ceiling.
    package var jitter: @Sendable (_ ceiling: Duration) -> Duration

    package init(
      now: @escaping @Sendable () -> ContinuousClock.Instant,
      date: @escaping @Sendable () -> Date,
      sleep: @escaping @Sendable (Duration) async throws -> Void,
      jitter: @escaping @Sendable (_ ceiling: Duration) -> Duration
    ) {
      self.now = now
      self.date = date
      self.sleep = sleep
      self.jitter = jitter
    }

    package static let live = Timing(
      now: { ContinuousClock.now },
      date: { Date() },
      sleep: { try await Task.sleep(for: $0, clock: .continuous) },
      jitter: { $0 * Double.random(in: 0...1) })
  }

  private let transport: any Transport
  private let configuration: Configuration
  private let timing: Timing
  private let breakers: [StoreEnvironment: CircuitBreaker]
  private let retryBudget: RetryBudget?
  private let observe: @Sendable (VerifyReceiptAttempt) -> Void

  /// - Parameters:
  ///   - breakers: one for each store, shared by all validations; a store without one is always called.
  ///   - retryBudget: shared by all validations; `nil`: no bound but `RetryPolicy`.
  ///   - observe: told of every attempt when it ends, for log and metrics, also when the validation fails.
  package init(
    transport: any Transport,
    configuration: Configuration,
    timing: Timing = .live,
    breakers: [StoreEnvironment: CircuitBreaker] = [:],
    retryBudget: RetryBudget? = nil,
    observe: @escaping @Sendable (VerifyReceiptAttempt) -> Void = { _ in }
  ) {
    self.transport = transport
    self.configuration = configuration
    self.timing = timing
    self.breakers = breakers
    self.retryBudget = retryBudget
    self.observe = observe
  }

  /// Asks about one receipt.
  ///
  /// - Parameters:
  ///   - receiptBase64: standard base64 of a receipt that could be decoded here; Apple's "malformed" therefore counts as
  ///     trouble of Apple's.
  ///   - check: what our own check of its signature says. Only where that passed does Apple's "malformed" and the like
  ///     count against Apple's health, see `AttemptOutcome.health`; where it failed, Apple's "not authentic" is final.
  ///   - user: on whose behalf.
  ///   - retriesTrouble: whether Apple's trouble is worth a retry out of the budget. Not so where nobody waits, and Apple
  ///     is asked again later anyway.
  ///   - first: the store to begin with.
  ///   - deadline: for everything together. An attempt that stalls takes the rest of it.
  package func verify(
    _ receiptBase64: String, check: SignatureCheck = .impossible, of user: UserID? = nil, retriesTrouble: Bool = true,
    startingWith first: StoreEnvironment = .production, deadline: ContinuousClock.Instant
  ) async throws(VerifyReceiptError) -> VerifyReceiptAnswer {
    let request = VerifyReceiptRequest(
      receipt: receiptBase64, sharedSecret: configuration.sharedSecret, answerLimit: configuration.answerLimit)
    var route = VerifyReceiptRoute(first: first, retry: configuration.retry, check: check)
    var attempts: [VerifyReceiptAttempt] = []
    /// Why the last attempt is repeated; `nil` when the next one repeats none.
    var repeated: VerifyReceiptError?
    while true {
      guard !Task.isCancelled else { throw .cancelled }
      let environment = route.environment
      guard timing.now() < deadline else { throw repeated ?? .unavailable(appleStatus: nil, .deadlinePassed) }
      let permit = try permit(for: environment, repeating: repeated)
      if attempts.isEmpty { retryBudget?.noteFirstCall() }
      let (outcome, duration) = try await ask(
        environment, request, permit, isRepeat: repeated != nil, deadline: deadline
      ) { outcome, given in outcome.health(isVerified: check == .passed, user: user, given: given) }
      let attempt = VerifyReceiptAttempt(
        environment: environment, outcome: outcome.summary, duration: duration, answeredAt: outcome.answeredAt)
      attempts.append(attempt)
      observe(attempt)
      switch route.next(after: outcome) {
      case .conclude(let body, let askedAt, let answeredAt):
        return answer(
          body, from: environment, askedAt: askedAt, answeredAt: answeredAt, attempts: attempts)
      case .switchStore:
        repeated = nil
      case .fail(let error):
        throw error
      case .retry(let ceiling, let least, let failure, let isProvoked):
        // A store that is being kept from calls, or tried with one, gets no second call from the same validation.
        guard breakers[environment].map({ $0.state == .closed }) ?? true else { throw failure }
        guard isProvoked || retriesTrouble else { throw failure }
        try await pause(
          ceiling: ceiling, least: least, deadline: deadline, budget: isProvoked ? nil : retryBudget, failure: failure)
        repeated = failure
      }
    }
  }

  /// Leave for one call; `nil` where no breaker asks for it.
  ///
  /// - Parameter failure: what made it necessary to repeat a call. It tells more than that the breaker opened since.
  private func permit(
    for environment: StoreEnvironment, repeating failure: VerifyReceiptError?
  ) throws(VerifyReceiptError) -> CircuitBreaker.Permit? {
    switch breakers[environment]?.admit() {
    case nil: return nil
    case .admitted(let permit)?: return permit
    case .refused(let retryIn)?:
      throw failure ?? .unavailable(appleStatus: nil, .circuitOpen(environment, retryIn: retryIn))
    }
  }

  /// One call, and the breaker told how it went. Errors are only those that end everything at once; all else is an
  /// outcome to judge.
  ///
  /// - Parameters:
  ///   - isRepeat: a repeated call that fails again tells nothing new: one receipt of which Apple wants to know nothing
  ///     must not count as three.
  ///   - health: what an outcome says about Apple, of a call that was given so much time.
  private func ask(
    _ environment: StoreEnvironment, _ request: VerifyReceiptRequest, _ permit: CircuitBreaker.Permit?,
    isRepeat: Bool, deadline: ContinuousClock.Instant,
    health: (AttemptOutcome, _ given: Duration) -> CircuitBreaker.Outcome
  ) async throws(VerifyReceiptError) -> (AttemptOutcome, Duration) {
    let given = deadline - timing.now()
    do throws(VerifyReceiptError) {
      let (outcome, duration) = try await call(environment, request, deadline: deadline)
      let health = health(outcome, given)
      permit?.report(isRepeat && health != .success ? .neutral : health)
      return (outcome, duration)
    } catch {
      permit?.report(.neutral)
      throw error
    }
  }

  private func call(
    _ environment: StoreEnvironment, _ request: VerifyReceiptRequest, deadline: ContinuousClock.Instant
  ) async throws(VerifyReceiptError) -> (AttemptOutcome, Duration) {
    let askedAt = timing.date()
    let started = timing.now()
    let response: TransportResponse
    do {
      response = try await transport.send(
        request.transportRequest(to: configuration.url(of: environment)), deadline: deadline)
    } catch .cancelled {
      throw .cancelled
    } catch .overloaded {
      throw .overloaded
    } catch {
      return (.noAnswer(error), timing.now() - started)
    }
    let duration = timing.now() - started
    let answeredAt = response.header("Date").flatMap(HTTPDate.parse)
    guard response.status == 200 else {
      let retryAfter = response.header("Retry-After").flatMap {
        RetryAfter.parse($0, answeredAt: answeredAt ?? askedAt)
      }
      return (.http(response.status, retryAfter: retryAfter), duration)
    }
    do throws(JSONReader.Failure) {
      let body = try await JSONReader.shared.read(
        response.body, selecting: VerifyReceiptResponse.selection
      ) { root throws(JSONError) in
        try VerifyReceiptResponse(root)
      }
      return (.answer(body, askedAt: askedAt, answeredAt: answeredAt), duration)
    } catch {
      switch error {
      case .cancelled: throw .cancelled
      case .json(let error): return (.malformed(error), duration)
      }
    }
  }

  /// Waits before the same store is asked again.
  ///
  /// - Throws: `failure` when the retry budget is spent or the pause would outlast the deadline.
  private func pause(
    ceiling: Duration, least: Duration, deadline: ContinuousClock.Instant, budget: RetryBudget?,
    failure: VerifyReceiptError
  ) async throws(VerifyReceiptError) {
    let pause = max(timing.jitter(ceiling), least)
    guard timing.now().advanced(by: pause) < deadline, budget?.takeRetry() ?? true else {
      throw failure
    }
    do {
      try await timing.sleep(pause)
    } catch {
      throw .cancelled
    }
    guard timing.now() < deadline else { throw failure }
  }

  private func answer(
    _ body: VerifyReceiptResponse, from endpoint: StoreEnvironment, askedAt: Date, answeredAt: Date?,
    attempts: [VerifyReceiptAttempt]
  ) -> VerifyReceiptAnswer {
    let isAccountGone = body.status == .accountGone
    // An answer about a vanished account carries no time of Apple's but the one in its HTTP header.
    let history =
      isAccountGone
      ? PurchaseHistory(
        environment: body.environment ?? endpoint, source: .verifyReceipt, evidenceTime: answeredAt ?? askedAt,
        evaluatedAt: answeredAt ?? askedAt, purchases: [], isAccountGone: true)
      : body.purchaseHistory(environment: endpoint, answeredAt: answeredAt, askedAt: askedAt)
    return VerifyReceiptAnswer(
      environment: history.environment, appleStatus: body.status.rawValue,
      verdict: isAccountGone ? .accountGone : .purchases(body), history: history, bundleID: body.bundleID,
      attempts: attempts)
  }
}

extension JSONError {
  /// For the log: what is wrong, and where.
  var summary: String {
    switch self {
    case .syntax: "not one whole JSON object"
    case .tooLarge: "more than an answer can be"
    case .missing(let path): "\(path) is missing"
    case .unreadable(let path): "\(path) cannot be read"
    }
  }
}
