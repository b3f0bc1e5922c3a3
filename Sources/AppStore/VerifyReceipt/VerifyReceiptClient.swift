package import Entitlements
package import HTTPTransport
import JSON
package import Resilience

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

  private let configuration: Configuration
  private let driver: CallDriver<VerifyReceiptAttempt>

  /// - Parameters:
  ///   - breakers: one for each store, shared by all validations; a store without one is always called.
  ///   - retryBudget: shared by all validations; `nil`: no bound but `RetryPolicy`.
  ///   - observe: told of every attempt when it ends, for log and metrics, also when the validation fails.
  package init(
    transport: any Transport,
    configuration: Configuration,
    timing: CallTiming = .live,
    breakers: [StoreEnvironment: CircuitBreaker] = [:],
    retryBudget: RetryBudget? = nil,
    observe: @escaping @Sendable (VerifyReceiptAttempt) -> Void = { _ in }
  ) {
    self.configuration = configuration
    driver = CallDriver(
      transport: transport, timing: timing, breakers: breakers, retryBudget: retryBudget, observe: observe)
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
    let (answer, attempts) = try await driver.answer(
      to: Question(
        request: VerifyReceiptRequest(
          receipt: receiptBase64, sharedSecret: configuration.sharedSecret, answerLimit: configuration.answerLimit),
        configuration: configuration, check: check, user: user,
        route: VerifyReceiptRoute(first: first, retry: configuration.retry, check: check)),
      retriesTrouble: retriesTrouble, deadline: deadline)
    return VerifyReceiptAnswer(answer, attempts: attempts)
  }

  /// One receipt, on its way between the two stores.
  private struct Question: AppleQuestion {
    typealias Failure = VerifyReceiptError
    typealias Answer = AttemptOutcome.Answer

    let request: VerifyReceiptRequest
    let configuration: Configuration
    let check: SignatureCheck
    let user: UserID?
    var route: VerifyReceiptRoute

    var environment: StoreEnvironment { route.environment }

    func nextRequest() -> TransportRequest { request.transportRequest(to: configuration.url(of: environment)) }

    func outcome(of answer: CallResponse) async throws(VerifyReceiptError) -> AttemptOutcome {
      guard answer.response.status == 200 else {
        return .http(answer.response.status, retryAfter: answer.retryAfter)
      }
      do throws(JSONReader.Failure) {
        let body = try await JSONReader.shared.read(
          answer.response.body, selecting: VerifyReceiptResponse.selection
        ) { root throws(JSONError) in
          try VerifyReceiptResponse(root)
        }
        return .answer(
          .init(body: body, endpoint: environment, askedAt: answer.askedAt, answeredAt: answer.answeredAt))
      } catch {
        switch error {
        case .cancelled: throw .cancelled
        case .json(let error): return .malformed(error)
        }
      }
    }

    func health(of outcome: AttemptOutcome, given: Duration) -> CircuitBreaker.Outcome {
      outcome.health(isVerified: check == .passed, user: user, given: given)
    }

    func attempt(_ outcome: AttemptOutcome, duration: Duration) -> VerifyReceiptAttempt {
      VerifyReceiptAttempt(
        environment: environment, outcome: outcome.summary, duration: duration, answeredAt: outcome.answeredAt)
    }

    mutating func next(after outcome: AttemptOutcome) -> VerifyReceiptRoute.Step { route.next(after: outcome) }
  }
}

extension VerifyReceiptAnswer {
  fileprivate init(_ answer: AttemptOutcome.Answer, attempts: [VerifyReceiptAttempt]) {
    let body = answer.body
    let isAccountGone = body.status == .accountGone
    // An answer about a vanished account carries no time of Apple's but the one in its HTTP header.
    let moment = answer.answeredAt ?? answer.askedAt
    let history =
      isAccountGone
      ? PurchaseHistory(
        environment: body.environment ?? answer.endpoint, source: .verifyReceipt, evidenceTime: moment,
        evaluatedAt: moment, purchases: [], isAccountGone: true)
      : body.purchaseHistory(
        environment: answer.endpoint, answeredAt: answer.answeredAt, askedAt: answer.askedAt)
    self.init(
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
