import Entitlements
import HTTPTransport
import JSON

import struct FoundationEssentials.Date

enum AttemptOutcome: CallOutcome {
  case answer(VerifyReceiptResponse, CallResponse)
  case http(Int, retryAfter: Duration?)
  /// HTTP 200 with an unreadable body.
  case malformed(JSONError)
  case noAnswer(TransportError)

  var answeredAt: Date? { if case .answer(_, let call) = self { call.answeredAt } else { nil } }

  var summary: VerifyReceiptAttempt.Outcome {
    switch self {
    case .answer(let body, _): .status(body.status.rawValue)
    case .http(let status, _): .http(status)
    case .malformed(let error): .malformed(error.summary)
    case .noAnswer(let error): .transport(error)
    }
  }
}

/// The next step after each call. Pure: it neither waits nor calls.
///
///     outcome                                     next
///     0, 21006, 21010                             conclude
///     21002                                       retry once, then unavailable
///     21003                                       not authentic if our own check failed, or if repeated
///     21004                                       shared secret rejected
///     21005, 21009, 21100…21199                   retry, then unavailable; no retry if Apple says it does not help
///     21007 at production, 21008 at the sandbox   the other store, once; unavailable after that
///     21000, 21001, anything else                 unexpected
///     HTTP other than 200, no readable body       retry, then unavailable; 429 and 503 not before Retry-After; of 4xx
///                                                 apart from 429 one retry
///     no connection, reset, not HTTP              retry, then unavailable
///     stalled, too large, TLS refused, shut down  unavailable: the next attempt would end the same way
///
/// Unavailable after 21003 is doubtful. A retry after 21002, 21003 and 4xx costs no token of the shared budget.
struct VerifyReceiptRoute {
  typealias Step = CallStep<AppStoreAnswer>

  private(set) var environment: StoreEnvironment
  private let retry: RetryPolicy
  private var attemptsHere = 0
  private var hasSwitched = false
  private let check: @Sendable () -> SignatureCheck
  private var refusals = 0
  private var complaints = 0

  init(first: StoreEnvironment, retry: RetryPolicy, check: @escaping @Sendable () -> SignatureCheck) {
    environment = first
    self.retry = retry
    self.check = check
  }

  mutating func next(after outcome: AttemptOutcome) -> Step {
    attemptsHere += 1
    let step = ordinaryStep(after: outcome)
    // The refusal is Apple's last verdict; later answers are none.
    guard refusals > 0 else { return step }
    return switch step {
    case .fail(.unavailable), .fail(.unexpected), .fail(.sharedSecretRejected): .fail(.doubtful)
    case .retry(let ceiling, let least, .unavailable, let isProvoked):
      .retry(ceiling: ceiling, least: least, failure: .doubtful, isProvoked: isProvoked)
    case .conclude, .ask, .retry, .fail: step
    }
  }

  private mutating func ordinaryStep(after outcome: AttemptOutcome) -> Step {
    switch outcome {
    case .answer(let body, let call): return next(after: body, call)
    case .http(429, let retryAfter):
      return again(.unavailable(.rateLimited(retryAfter: retryAfter)), least: retryAfter ?? .zero)
    case .http(let status, let retryAfter):
      let least = retryAfter ?? .zero
      return AttemptOutcome.mayBeProvoked(httpStatus: status)
        ? onceMore(.unavailable(.receiptRefused(httpStatus: status)), least: least)
        : again(.unavailable(.http(status)), least: least)
    case .malformed(let error): return again(.unavailable(.malformedAnswer(error.summary)))
    case .noAnswer(let error): return error.isWorthRetry ? again(AppStoreError(error)) : .fail(AppStoreError(error))
    }
  }

  private mutating func next(after body: VerifyReceiptResponse, _ call: CallResponse) -> Step {
    let status = body.status
    let trouble = AppStoreError.unavailable(appleStatus: status.rawValue, .trouble)
    switch status {
    case .valid, .expired, .accountGone: return .conclude(AppStoreAnswer(body, call, from: environment))
    case .malformedOrTrouble: return onceMore(trouble)
    case .unavailable, .internalError: return again(trouble)
    case .notAuthentic:
      refusals += 1
      // Two refusals are needed, by Apple or by our own check: the app drops the purchase on this answer.
      guard refusals == 1, check() != .failed else { return .fail(.notAuthentic) }
      return again(.doubtful, isProvoked: true)
    case .wrongSharedSecret: return .fail(.sharedSecretRejected)
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
      return body.isRetryable == false ? .fail(trouble) : again(trouble)
    default: return .fail(.unexpected(appleStatus: status.rawValue))
    }
  }

  /// One more attempt after an answer that the submission itself may have caused.
  private mutating func onceMore(_ failure: AppStoreError, least: Duration = .zero) -> Step {
    complaints += 1
    return complaints > 1 ? .fail(failure) : again(failure, least: least, isProvoked: true)
  }

  /// Another attempt at the same store, if one is left.
  private func again(_ failure: AppStoreError, least: Duration = .zero, isProvoked: Bool = false) -> Step {
    guard attemptsHere < retry.attempts else { return .fail(failure) }
    return .retry(
      ceiling: retry.ceiling(before: attemptsHere + 1), least: least, failure: failure, isProvoked: isProvoked)
  }
}

package enum SignatureCheck: Hashable, Sendable {
  case passed, failed
  /// The receipt has no certificate chain, or the check could not be carried out.
  case impossible
}
