import Entitlements
import HTTPTransport
import Resilience

import struct FoundationEssentials.Date

/// A question that one or more calls to Apple answer. `CallDriver` makes the calls; a question says which they are, and what
/// follows from each.
///
///     waitForTurn → nextRequest → (the call) → outcome → health → attempt → next
protocol AppleQuestion {
  associatedtype Outcome: CallOutcome
  associatedtype Attempt: Sendable
  associatedtype Answer
  associatedtype Failure: CallFailure

  /// The store that the next call goes to.
  var environment: StoreEnvironment { get }

  /// Waits until the next call may be made, where Apple limits how often it may.
  ///
  /// - Parameter failure: why the last call is repeated; `nil` for a call that repeats none.
  func waitForTurn(repeating failure: Failure?, deadline: ContinuousClock.Instant) async throws(Failure)
  mutating func nextRequest() throws(Failure) -> TransportRequest
  func outcome(of response: CallResponse) async throws(Failure) -> Outcome
  /// - Parameter given: the time between the call's begin and its deadline.
  func health(of outcome: Outcome, given: Duration) -> CircuitBreaker.Outcome
  /// The record of the call that was made last, for log and metrics.
  func attempt(_ outcome: Outcome, duration: Duration) -> Attempt
  mutating func next(after outcome: Outcome) throws(Failure) -> CallStep<Answer, Failure>
}

extension AppleQuestion {
  func waitForTurn(repeating failure: Failure?, deadline: ContinuousClock.Instant) async throws(Failure) {}
}

/// The outcome of one call.
protocol CallOutcome {
  static func noAnswer(_ error: TransportError) -> Self
}

/// Why a question has no answer: the reasons that are the same whatever is asked.
protocol CallFailure: Error {
  static var overloaded: Self { get }
  static var cancelled: Self { get }
  static func unavailable(because reason: Unavailability) -> Self
}

/// An answer of Apple's, not yet decoded.
struct CallResponse {
  var response: TransportResponse
  /// Our clock when the call began.
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

/// The step after a call.
enum CallStep<Answer, Failure: Error> {
  case conclude(Answer)
  /// Another call that repeats none.
  case ask
  /// - Parameters:
  ///   - ceiling: the most to wait.
  ///   - least: what Apple asked to wait.
  ///   - failure: how it ends if there is no time for another attempt.
  ///   - isProvoked: the submission itself may be the cause, so that nobody else is to pay for it.
  case retry(ceiling: Duration, least: Duration, failure: Failure, isProvoked: Bool = false)
  case fail(Failure)
}
