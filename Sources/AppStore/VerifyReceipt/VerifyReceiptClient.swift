package import Entitlements
package import HTTPTransport
import JSON
package import Resilience

/// The client of Apple's `verifyReceipt`.
///
/// It asks production first, the sandbox only on 21007, and production only on 21008, each once: the sandbox has
/// wrongly answered 21007 for days. Temporary failures are retried within the deadline, see `RetryPolicy`. Everything
/// but a verdict is an error, and no error says anything about a user's purchases.
///
/// https://developer.apple.com/documentation/appstorereceipts/verifyreceipt
package final class VerifyReceiptClient: Sendable {
  package struct Configuration: Sendable {
    var productionURL: String
    var sandboxURL: String
    var sharedSecret: Secret
    /// The largest answer in bytes. Thousands of rows make some megabytes.
    var answerLimit = 8 * 1024 * 1024
    var retry: RetryPolicy

    package init(productionURL: String, sandboxURL: String, sharedSecret: Secret, retry: RetryPolicy = RetryPolicy()) {
      self.productionURL = productionURL
      self.sandboxURL = sandboxURL
      self.sharedSecret = sharedSecret
      self.retry = retry
    }
  }

  private let configuration: Configuration
  private let driver: CallDriver<VerifyReceiptAttempt>

  /// - Parameters:
  ///   - breakers: one for each store, shared by all validations; a store without one is always called.
  ///   - retryBudget: shared by all validations; `nil`: only `RetryPolicy` limits retries.
  ///   - observe: called after every attempt, for log and metrics, also if the validation fails.
  package init(
    transport: any Transport, configuration: Configuration, timing: CallTiming = .live,
    breakers: [StoreEnvironment: CircuitBreaker] = [:], retryBudget: RetryBudget? = nil,
    observe: @escaping @Sendable (VerifyReceiptAttempt) -> Void = { _ in }
  ) {
    self.configuration = configuration
    driver = CallDriver(
      transport: transport, timing: timing, breakers: breakers, retryBudget: retryBudget, observe: observe)
  }

  /// Asks about one receipt.
  ///
  /// - Parameters:
  ///   - receiptBase64: standard base64 of a receipt that was decoded here. Apple's "malformed" is therefore Apple's
  ///     trouble.
  ///   - check: the result of our own check of the signature, which an answer that is a verdict does not ask for. If
  ///     it passed, Apple's "malformed" and the like count against Apple's health, see `AttemptOutcome.health`; if it
  ///     failed, Apple's "not authentic" is final.
  ///   - user: the user of the submission.
  ///   - retriesTrouble: whether Apple's trouble may be retried out of the shared budget. Not if nobody waits and Apple
  ///     is asked again later anyway.
  ///   - first: the store to begin with.
  ///   - detail: whether the answer's bytes are wanted besides.
  ///   - deadline: the end of all attempts together. A call that stalls takes the rest of the time.
  package func verify(
    _ receiptBase64: String, check: @autoclosure @escaping @Sendable () -> SignatureCheck = .impossible,
    of user: UserID? = nil, retriesTrouble: Bool = true, startingWith first: StoreEnvironment = .production,
    detail: VerifyReceiptDetail = .decoded, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> AppStoreAnswer {
    var answer = try await driver.answer(
      to: Question(
        request: VerifyReceiptRequest(
          receipt: receiptBase64, sharedSecret: configuration.sharedSecret,
          excludesOldTransactions: detail.excludesOldTransactions, answerLimit: configuration.answerLimit),
        configuration: configuration, check: check, user: user,
        route: VerifyReceiptRoute(first: first, retry: configuration.retry, check: check)),
      retriesTrouble: retriesTrouble, deadline: deadline)
    if detail == .decoded { answer.bytes = nil }
    return answer
  }

  /// The question about one receipt, which may go from one store to the other.
  private struct Question: AppleQuestion {
    let request: VerifyReceiptRequest
    let configuration: Configuration
    let check: @Sendable () -> SignatureCheck
    let user: UserID?
    var route: VerifyReceiptRoute

    var environment: StoreEnvironment { route.environment }

    func nextRequest() -> TransportRequest {
      request.transportRequest(to: environment.select(configuration.productionURL, configuration.sandboxURL))
    }

    func outcome(of answer: CallResponse) async throws(AppStoreError) -> AttemptOutcome {
      guard answer.response.status == 200 else { return .http(answer.response.status, retryAfter: answer.retryAfter) }
      do throws(JSONReader.Failure) {
        let body = try await JSONReader.shared.read(answer.response.body, largeIntegers: .text) {
          root throws(JSONError) in
          try VerifyReceiptResponse(root)
        }
        return .answer(body, answer)
      } catch {
        switch error {
        case .cancelled: throw .cancelled
        case .json(let error): return .malformed(error)
        }
      }
    }

    func health(of outcome: AttemptOutcome, given: Duration) -> CircuitBreaker.Outcome {
      outcome.health(isVerified: check() == .passed, user: user, given: given)
    }

    func attempt(_ outcome: AttemptOutcome, duration: Duration) -> VerifyReceiptAttempt {
      VerifyReceiptAttempt(
        environment: environment, outcome: outcome.summary, duration: duration, answeredAt: outcome.answeredAt)
    }

    mutating func next(after outcome: AttemptOutcome) -> VerifyReceiptRoute.Step { route.next(after: outcome) }
  }
}

/// The part of verifyReceipt's answer that a caller needs.
package enum VerifyReceiptDetail: Hashable, Sendable {
  /// The decoded answer, with the last transaction of each subscription.
  case decoded
  /// Its bytes too, for a caller who reads them as Apple's.
  case whole(excludesOldTransactions: Bool)

  var excludesOldTransactions: Bool {
    switch self {
    case .decoded: true
    case .whole(let excludesOldTransactions): excludesOldTransactions
    }
  }
}

extension AppStoreAnswer {
  /// - Parameter endpoint: the store that was asked.
  init(_ body: VerifyReceiptResponse, _ call: CallResponse, from endpoint: StoreEnvironment) {
    // 21010 comes without a time of Apple's but the HTTP header.
    let moment = call.answeredAt ?? call.askedAt
    let history =
      body.status == .accountGone
      ? PurchaseHistory(
        environment: body.environment ?? endpoint, source: .verifyReceipt, evidenceTime: moment,
        evaluatedAt: moment, purchases: [], isAccountGone: true)
      : body.purchaseHistory(environment: endpoint, answeredAt: call.answeredAt, askedAt: call.askedAt)
    self.init(history: history, bundleID: body.bundleID, appleStatus: body.status)
    if body.latestRows != nil { receiptPurchases = body.receiptRows }
    bytes = call.response.body
  }
}

extension JSONError {
  var summary: String {
    switch self {
    case .syntax: "not one whole JSON object"
    case .tooLarge: "more than an answer can be"
    case .missing(let path): "\(path) is missing"
    case .unreadable(let path): "\(path) cannot be read"
    }
  }
}
