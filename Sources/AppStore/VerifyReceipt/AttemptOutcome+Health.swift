import Entitlements
import HTTPTransport
import JSON
import Resilience

/// The outcome for the circuit breaker: a call's evidence of Apple's health.
///
///     outcome                                      says
///     0, 21006, 21010, 21004, 21007, 21008,        success: Apple works, with any answer
///     21000, 21001
///     21003, an unknown status                     nothing
///     21005, 21009, 21100…21199                    failure if the receipt's signature was verified here, else nothing
///     21002                                        the same, once for each user
///     HTTP 5xx, 429, other statuses than 200       failure; 4xx apart from 429 as 21002
///     a body that is no JSON or lacks its parts    failure
///     a value in it that cannot be read            nothing: it may be in this one answer only
///     no connection, reset, TLS refused, not HTTP  failure
///     timed out                                    failure, if it was given a second at least
///     too large, our own limits and faults         nothing
///
/// Anybody can forge receipts that Apple calls malformed, or change an authentic one where its signature does not
/// reach. Such answers count only for verified receipts and once for each user, so that nobody can close the store to
/// the others. 21003 says nothing for the same reason: it takes no more of Apple's service than checking a signature,
/// and could hide an outage.
extension AttemptOutcome {
  /// - Parameters:
  ///   - isVerified: whether the receipt's signature was verified here.
  ///   - user: the user of the submission.
  ///   - given: the time from the start of the call to its deadline.
  func health(isVerified: @autoclosure () -> Bool, user: UserID?, given: Duration) -> CircuitBreaker.Outcome {
    switch self {
    case .answer(let body, _): return Self.health(of: body.status, isVerified: isVerified(), user: user)
    case .http(let status, let retryAfter):
      guard Self.mayBeProvoked(httpStatus: status) else { return .failure(retryAfter: retryAfter) }
      return isVerified() ? .failure(retryAfter: retryAfter, reporter: user?.rawValue) : .neutral
    case .malformed(let error): return error.health
    case .noAnswer(let error): return error.health(given: given)
    }
  }

  /// Whether the receipt itself may cause the status, by its size for instance.
  static func mayBeProvoked(httpStatus status: Int) -> Bool { (400...499).contains(status) && status != 429 }

  private static func health(
    of status: AppleStatus, isVerified: @autoclosure () -> Bool, user: UserID?
  ) -> CircuitBreaker.Outcome {
    switch status {
    case .valid, .expired, .accountGone, .wrongSharedSecret, .belongsToSandbox, .belongsToProduction, .notPosted,
      .notRead:
      .success
    case .malformedOrTrouble: isVerified() ? .failure(reporter: user?.rawValue) : .neutral
    case .unavailable, .internalError: isVerified() ? .failure() : .neutral
    case _ where status.isInternalDataAccessError: isVerified() ? .failure() : .neutral
    default: .neutral
    }
  }
}

extension JSONError {
  var health: CircuitBreaker.Outcome {
    switch self {
    case .syntax, .missing: .failure()
    case .tooLarge, .unreadable: .neutral
    }
  }
}

extension TransportError {
  /// The shortest time after which a time-out shows that Apple is slow.
  private static let fairTime = Duration.seconds(1)

  func health(given: Duration) -> CircuitBreaker.Outcome {
    switch self {
    case .resolve, .connect, .tls, .reset, .protocolViolation, .other: .failure()
    case .timedOut: given >= Self.fairTime ? .failure() : .neutral
    case .tooLarge, .invalidRequest, .overloaded, .cancelled, .shutDown: .neutral
    }
  }
}
