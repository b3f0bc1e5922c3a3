import HTTPTransport
import JSON
import Resilience

import struct FoundationEssentials.Date

enum ServerAPIOutcome: CallOutcome, Sendable {
  /// An answer; each purchase in it is verified.
  case answer(ServerAPIContents, answeredAt: Date?)
  /// HTTP 200 with an answer that fails verification.
  case refused(AppStoreError)
  /// A 4xx with a code that belongs to its status.
  case error(httpStatus: Int, ServerAPIErrorCode)
  /// Another status than 200, with or without a code.
  case http(Int, errorCode: Int?, retryAfter: Duration?)
  /// HTTP 429. The store is paused for all callers.
  case rateLimited(errorCode: Int?, retryAfter: Duration)
  /// HTTP 200 with an unreadable body.
  case malformed(JSONError)
  case noAnswer(TransportError)

  var answeredAt: Date? { if case .answer(_, let answeredAt) = self { answeredAt } else { nil } }

  var summary: ServerAPIAttempt.Outcome {
    switch self {
    case .answer: .answered
    case .refused(.wrongApp): .refused("another app than ours")
    case .refused(.invalidAnswer(let words)): .refused(words)
    case .refused: .refused("not what was asked for")
    case .error(let status, let code): .error(httpStatus: status, errorCode: code.rawValue)
    case .http(let status, let code, _): code.map { .error(httpStatus: status, errorCode: $0) } ?? .http(status)
    case .rateLimited(let code, _): code.map { .error(httpStatus: 429, errorCode: $0) } ?? .http(429)
    case .malformed(let error): .malformed(error.summary)
    case .noAnswer(let error): .transport(error)
    }
  }

  /// The outcome for the circuit breaker: the call's evidence of Apple's health.
  ///
  ///     outcome                                   says
  ///     an answer, or one that is refused         success: Apple works
  ///     not found, 401                            success
  ///     not found for now (4040002, 4, 6)         nothing: anybody can ask for an ID that is never found
  ///     another 4xx                               nothing: it may be the request
  ///     429                                       nothing: Apple works, and says itself when to come back
  ///     5xx, other statuses than 200              failure
  ///     a body that is no answer, no connection   as for verifyReceipt, see `AttemptOutcome.health`
  func health(given: Duration) -> CircuitBreaker.Outcome {
    switch self {
    case .answer, .refused, .http(401, _, _): .success
    case .error(_, let code): code.meaning == .notFound ? .success : .neutral
    case .rateLimited: .neutral
    case .http(let status, _, let retryAfter):
      (400...499).contains(status) ? .neutral : .failure(retryAfter: retryAfter)
    case .malformed(let error): error.health
    case .noAnswer(let error): error.health(given: given)
    }
  }
}
