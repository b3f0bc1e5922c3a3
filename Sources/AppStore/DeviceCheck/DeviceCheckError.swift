package import HTTPTransport
import Resilience

/// Why DeviceCheck gave no answer. No case says anything about a device's trials.
package enum DeviceCheckError: Error, Hashable, Sendable {
  /// Apple takes the device token for no device of ours (400): expired, used before, of the other server, or made up.
  case tokenRefused
  /// Apple refuses our key (401, or 400 about it), also with a fresh token, or it cannot sign. Apple is as good as away,
  /// and an operator has to act.
  case keyRefused
  case away(Away)
  case cancelled

  /// The cause of Apple's unavailability, by the last attempt.
  package enum Away: Hashable, Sendable {
    /// Another HTTP status, and how long to wait if Apple said so.
    case http(Int, retryAfter: Duration?)
    /// The body is no answer; the text names the place in it.
    case malformedAnswer(String)
    case noAnswer(TransportError)
    /// There was no time left for a first attempt.
    case deadlinePassed
    /// The circuit breaker of this server is open: no call was made.
    case circuitOpen(retryIn: Duration)
  }

  /// Whether and when the same request may end otherwise.
  enum Retry: Hashable {
    case no
    /// With a fresh token of ours.
    case atOnce
    case afterPause(least: Duration)
  }

  /// A 4xx of another kind may be the request, and a 429 says that there were enough.
  var retry: Retry {
    switch self {
    case .keyRefused: .atOnce
    case .away(.http(500..., let retryAfter)): .afterPause(least: retryAfter ?? .zero)
    case .away(.malformedAnswer): .afterPause(least: .zero)
    case .away(.noAnswer(let error)): error.isWorthRetry ? .afterPause(least: .zero) : .no
    case .tokenRefused, .away(.http), .away(.deadlinePassed), .away(.circuitOpen), .cancelled: .no
    }
  }

  /// The outcome for the circuit breaker: this error's evidence of Apple's health.
  ///
  /// - Parameter given: the time from the start of the call to its deadline.
  func health(given: Duration) -> CircuitBreaker.Outcome {
    switch self {
    case .tokenRefused, .keyRefused: .success
    case .away(.http(let status, let retryAfter)):
      (400...499).contains(status) && status != 429 ? .neutral : .failure(retryAfter: retryAfter)
    case .away(.malformedAnswer): .failure()
    case .away(.noAnswer(let error)): error.health(given: given)
    case .away(.deadlinePassed), .away(.circuitOpen), .cancelled: .neutral
    }
  }
}
