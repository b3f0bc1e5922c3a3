import Entitlements
import HTTPTransport
import JSON

import struct FoundationEssentials.Date

/// What came of one call.
enum AttemptOutcome: CallOutcome {
  struct Answer {
    var body: VerifyReceiptResponse
    /// The store that was asked.
    var endpoint: StoreEnvironment
    var askedAt: Date
    var answeredAt: Date?
  }

  case answer(Answer)
  case http(Int, retryAfter: Duration?)
  /// HTTP 200, and the body is no answer.
  case malformed(JSONError)
  case noAnswer(TransportError)

  var answeredAt: Date? {
    guard case .answer(let answer) = self else { return nil }
    return answer.answeredAt
  }

  var summary: VerifyReceiptAttempt.Outcome {
    switch self {
    case .answer(let answer): .status(answer.body.status.rawValue)
    case .http(let status, _): .http(status)
    case .malformed(let error): .malformed(error.summary)
    case .noAnswer(let error): .transport(error)
    }
  }
}

/// Decides after each call what to do next. Pure: it neither waits nor calls.
///
///     outcome                                     next
///     0, 21006, 21010                             conclude
///     21002                                       retry once, then unavailable
///     21003                                       not authentic where our own check failed, or else when said twice
///     21004                                       shared secret rejected
///     21005, 21009, 21100…21199                   retry, then unavailable; not retried if Apple says it does not help
///     21007 at production, 21008 at the sandbox   the other store, once; unavailable after that
///     21000, 21001, anything else                 unexpected status
///     HTTP other than 200, no readable body       retry, then unavailable; 429 and 503 not before Retry-After; of 4xx
///                                                 apart from 429 one retry
///     no connection, reset, not HTTP              retry, then unavailable
///     stalled, too large, TLS refused, shut down  unavailable: the next attempt would end the same way
///
/// Unavailable after 21003 is doubtful. A retry after 21002, 21003 and 4xx costs nobody else's budget.
struct VerifyReceiptRoute {
  typealias Step = CallStep<AttemptOutcome.Answer, VerifyReceiptError>

  private(set) var environment: StoreEnvironment
  private let retry: RetryPolicy
  private var attemptsHere = 0
  private var hasSwitched = false
  private let check: SignatureCheck
  private var refusals = 0
  private var complaints = 0

  init(first: StoreEnvironment, retry: RetryPolicy, check: SignatureCheck = .impossible) {
    environment = first
    self.retry = retry
    self.check = check
  }

  mutating func next(after outcome: AttemptOutcome) -> Step {
    attemptsHere += 1
    let step = ordinaryStep(after: outcome)
    // Whatever came after Apple's refusal, it was no verdict: the refusal is the last that Apple said.
    guard refusals > 0 else { return step }
    let doubtful = VerifyReceiptError.doubtful(appleStatus: AppleStatus.notAuthentic.rawValue)
    return switch step {
    case .fail(.unavailable), .fail(.unexpectedStatus), .fail(.sharedSecretRejected): .fail(doubtful)
    case .retry(let ceiling, let least, .unavailable, let isProvoked):
      .retry(ceiling: ceiling, least: least, failure: doubtful, isProvoked: isProvoked)
    default: step
    }
  }

  private mutating func ordinaryStep(after outcome: AttemptOutcome) -> Step {
    switch outcome {
    case .answer(let answer):
      return next(after: answer)
    case .http(429, let retryAfter):
      return again(.unavailable(appleStatus: nil, .rateLimited(retryAfter: retryAfter)), least: retryAfter ?? .zero)
    case .http(let status, let retryAfter):
      let failure = VerifyReceiptError.unavailable(appleStatus: nil, .http(status))
      let least = retryAfter ?? .zero
      return failure.mayBeProvoked ? onceMore(failure, least: least) : again(failure, least: least)
    case .malformed(let error):
      return again(.unavailable(appleStatus: nil, .malformedAnswer(error.summary)))
    case .noAnswer(let error):
      let failure = VerifyReceiptError.unavailable(appleStatus: nil, .noAnswer(error))
      return switch error {
      case .resolve, .connect, .reset, .protocolViolation, .other: again(failure)
      case .timedOut, .tooLarge, .tls, .invalidRequest, .shutDown: .fail(failure)
      case .overloaded: .fail(.overloaded)
      case .cancelled: .fail(.cancelled)
      }
    }
  }

  private mutating func next(after answer: AttemptOutcome.Answer) -> Step {
    let status = answer.body.status
    let trouble = VerifyReceiptError.unavailable(appleStatus: status.rawValue, .trouble)
    switch status {
    case .valid, .expired, .accountGone:
      return .conclude(answer)
    case .malformedOrTrouble:
      return onceMore(trouble)
    case .unavailable, .internalError:
      return again(trouble)
    case .notAuthentic:
      refusals += 1
      // Refused for good only when it was said twice, by Apple or by our own check: the caller drops a purchase on this
      // word.
      guard refusals == 1, check != .failed else { return .fail(.notAuthentic(appleStatus: status.rawValue)) }
      return again(.doubtful(appleStatus: status.rawValue), isProvoked: true)
    case .wrongSharedSecret:
      return .fail(.sharedSecretRejected)
    case .belongsToSandbox, .belongsToProduction:
      let other: StoreEnvironment = status == .belongsToSandbox ? .sandbox : .production
      guard !hasSwitched, other != environment else {
        return .fail(.unavailable(appleStatus: status.rawValue, .misrouted))
      }
      hasSwitched = true
      environment = other
      attemptsHere = 0
      refusals = 0
      complaints = 0
      return .ask
    case _ where status.isInternalDataAccessError:
      return answer.body.isRetryable == false ? .fail(trouble) : again(trouble)
    default:
      return .fail(.unexpectedStatus(status.rawValue))
    }
  }

  /// One attempt more about what may be the submission's own fault.
  private mutating func onceMore(_ failure: VerifyReceiptError, least: Duration = .zero) -> Step {
    complaints += 1
    return complaints > 1 ? .fail(failure) : again(failure, least: least, isProvoked: true)
  }

  /// Another attempt at the same store if there is one left.
  private func again(_ failure: VerifyReceiptError, least: Duration = .zero, isProvoked: Bool = false) -> Step {
    guard attemptsHere < retry.attempts else { return .fail(failure) }
    return .retry(
      ceiling: retry.ceiling(before: attemptsHere + 1), least: least, failure: failure, isProvoked: isProvoked)
  }
}

/// The outcome of the local check of a receipt's signature.
package enum SignatureCheck: Hashable, Sendable {
  case passed
  case failed
  /// The receipt carries nothing to check it by, or the check could not be carried out.
  case impossible
}
