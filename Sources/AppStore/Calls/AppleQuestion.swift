import Entitlements
import HTTPTransport
import Resilience

import struct FoundationEssentials.Date

/// A question that takes one or more calls to Apple. `CallDriver` makes the calls; the question defines them, and what
/// follows from each.
///
///     waitForTurn → nextRequest → (the call) → outcome → health → attempt → next
protocol AppleQuestion {
  associatedtype Outcome: CallOutcome
  associatedtype Attempt: Sendable
  associatedtype Answer

  /// The store that the next call goes to.
  var environment: StoreEnvironment { get }

  /// Waits until Apple's rate limit allows the next call.
  ///
  /// - Parameter failure: the failure that the call repeats; `nil` for a new call.
  func waitForTurn(repeating failure: AppStoreError?, deadline: ContinuousClock.Instant) async throws(AppStoreError)
  mutating func nextRequest() throws(AppStoreError) -> TransportRequest
  func outcome(of response: CallResponse) async throws(AppStoreError) -> Outcome
  /// - Parameter given: the time from the start of the call to its deadline.
  func health(of outcome: Outcome, given: Duration) -> CircuitBreaker.Outcome
  /// The record of the last call, for log and metrics.
  func attempt(_ outcome: Outcome, duration: Duration) -> Attempt
  mutating func next(after outcome: Outcome) throws(AppStoreError) -> CallStep<Answer>
}

extension AppleQuestion {
  func waitForTurn(repeating failure: AppStoreError?, deadline: ContinuousClock.Instant) async throws(AppStoreError) {}
}

extension StoreEnvironment {
  func select<Value>(_ production: Value, _ sandbox: Value) -> Value { self == .production ? production : sandbox }

  /// The store that issues receipts of a type: `Production`, `ProductionVPP`, `ProductionSandbox`,
  /// `ProductionVPPSandbox`; `nil` for Xcode and unknown types.
  init?(receiptType: String?) {
    switch receiptType {
    case "Production", "ProductionVPP": self = .production
    case "ProductionSandbox", "ProductionVPPSandbox": self = .sandbox
    default: return nil
    }
  }
}

protocol CallOutcome {
  static func noAnswer(_ error: TransportError) -> Self
}

/// A response of Apple's, not yet decoded.
struct CallResponse {
  var response: TransportResponse
  var askedAt: Date
  /// Apple's clock, from the HTTP header `Date`.
  var answeredAt: Date?

  init(_ response: TransportResponse, askedAt: Date) {
    self.response = response
    self.askedAt = askedAt
    answeredAt = response.header("Date").flatMap(HTTPDate.parse)
  }

  var retryAfter: Duration? {
    response.header("Retry-After").flatMap { RetryAfter.parse($0, answeredAt: answeredAt ?? askedAt) }
  }
}

enum CallStep<Answer> {
  case conclude(Answer)
  case ask
  /// The same call once more.
  ///
  /// - Parameters:
  ///   - ceiling: the longest pause.
  ///   - least: the shortest pause, which Apple asked for.
  ///   - failure: the error if there is no time for another attempt.
  ///   - isProvoked: whether the submission itself may be the cause; the retry then costs no token of the shared
  ///     budget.
  case retry(ceiling: Duration, least: Duration, failure: AppStoreError, isProvoked: Bool = false)
  case fail(AppStoreError)
}
