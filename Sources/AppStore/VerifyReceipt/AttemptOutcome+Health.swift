import HTTPTransport

/// What a call says about Apple's health, for the circuit breaker.
///
///     outcome                                      says
///     0, 21006, 21010, 21004, 21007, 21008,        success: Apple works, whether we like the answer or not
///     21000, 21001
///     21003, a status that is not known            nothing
///     21002, 21005, 21009, 21100…21199             failure if the receipt's signature was verified here, else nothing
///     HTTP 5xx, 429, other statuses than 200       failure; 4xx apart from 429 only if verified
///     a body that is no JSON or lacks its parts    failure
///     a value in it that cannot be read            nothing: it may be in this one answer only
///     no connection, reset, TLS refused, not HTTP  failure
///     timed out                                    failure, if it was given a second at least
///     too large, our own limits and faults         nothing
///
/// Anybody can make up receipts of which Apple says that they are malformed. Heard only when the signature is Apple's,
/// such answers cannot be used to close the store to everybody else. For the same reason 21003 says nothing: it needs no
/// more of Apple's service than a check of a signature, and could be used to hide an outage.
extension AttemptOutcome {
  /// - Parameters:
  ///   - isVerified: the receipt is authentic by its own signature.
  ///   - given: the time between the call's begin and its deadline.
  func health(isVerified: Bool, given: Duration) -> CircuitBreaker.Outcome {
    switch self {
    case .answer(let body, _, _):
      return Self.health(of: body.status, isVerified: isVerified)
    case .http(let status, let retryAfter):
      let mayBeTheReceipt = (400...499).contains(status) && status != 429
      return mayBeTheReceipt && !isVerified ? .neutral : .failure(retryAfter: retryAfter)
    case .malformed(let error):
      return error.health
    case .noAnswer(let error):
      return error.health(given: given)
    }
  }

  private static func health(of status: AppleStatus, isVerified: Bool) -> CircuitBreaker.Outcome {
    switch status {
    case .valid, .expired, .accountGone, .wrongSharedSecret, .belongsToSandbox, .belongsToProduction, .notPosted,
      .notRead:
      .success
    case .malformedOrTrouble, .unavailable, .internalError:
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
