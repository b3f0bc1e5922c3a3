import Entitlements
import HTTPTransport
import JSON
import Resilience

/// What a call says about Apple's health, for the circuit breaker.
///
///     outcome                                      says
///     0, 21006, 21010, 21004, 21007, 21008,        success: Apple works, whether we like the answer or not
///     21000, 21001
///     21003, a status that is not known            nothing
///     21005, 21009, 21100…21199                    failure if the receipt's signature was verified here, else nothing
///     21002                                        the same, once for each user
///     HTTP 5xx, 429, other statuses than 200       failure; 4xx apart from 429 as 21002
///     a body that is no JSON or lacks its parts    failure
///     a value in it that cannot be read            nothing: it may be in this one answer only
///     no connection, reset, TLS refused, not HTTP  failure
///     timed out                                    failure, if it was given a second at least
///     too large, our own limits and faults         nothing
///
/// Anybody can make up receipts of which Apple says that they are malformed, and whoever has one of Apple's can spoil it
/// where its signature does not reach. Heard only when the signature is Apple's, and once from each user, such answers
/// cannot be used to close the store to everybody else. For the same reason 21003 says nothing: it needs no more of
/// Apple's service than a check of a signature, and could be used to hide an outage.
extension AttemptOutcome {
  /// - Parameters:
  ///   - isVerified: the receipt is authentic by its own signature.
  ///   - user: on whose behalf Apple is asked.
  ///   - given: the time between the call's begin and its deadline.
  func health(isVerified: Bool, user: UserID?, given: Duration) -> CircuitBreaker.Outcome {
    switch self {
    case .answer(let answer):
      return Self.health(of: answer.body.status, isVerified: isVerified, user: user)
    case .http(let status, let retryAfter):
      guard Self.mayBeProvoked(httpStatus: status) else { return .failure(retryAfter: retryAfter) }
      return isVerified ? .failure(retryAfter: retryAfter, reporter: user?.rawValue) : .neutral
    case .malformed(let error):
      return error.health
    case .noAnswer(let error):
      return error.health(given: given)
    }
  }

  /// Whether Apple may answer so because of what was sent: too large, say.
  static func mayBeProvoked(httpStatus status: Int) -> Bool { (400...499).contains(status) && status != 429 }

  private static func health(
    of status: AppleStatus, isVerified: Bool, user: UserID?
  ) -> CircuitBreaker.Outcome {
    switch status {
    case .valid, .expired, .accountGone, .wrongSharedSecret, .belongsToSandbox, .belongsToProduction, .notPosted,
      .notRead:
      .success
    case .malformedOrTrouble:
      isVerified ? .failure(reporter: user?.rawValue) : .neutral
    case .unavailable, .internalError:
      isVerified ? .failure() : .neutral
    case _ where status.isInternalDataAccessError:
      isVerified ? .failure() : .neutral
    default:
      .neutral
    }
  }
}

extension JSONError {
  /// What a body says about Apple's health when it is no answer.
  var health: CircuitBreaker.Outcome {
    switch self {
    case .syntax, .missing: .failure()
    case .tooLarge, .unreadable: .neutral
    }
  }
}

extension TransportError {
  /// Less than this proves nothing about who is slow.
  private static let fairTime = Duration.seconds(1)

  /// What a call without an answer says about Apple's health.
  func health(given: Duration) -> CircuitBreaker.Outcome {
    switch self {
    case .resolve, .connect, .tls, .reset, .protocolViolation, .other: .failure()
    case .timedOut: given >= Self.fairTime ? .failure() : .neutral
    case .tooLarge, .invalidRequest, .overloaded, .cancelled, .shutDown: .neutral
    }
  }
}
