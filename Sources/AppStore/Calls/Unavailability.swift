package import Entitlements
package import HTTPTransport

/// In which way Apple cannot be asked, as the last attempt showed it.
package enum Unavailability: Hashable, Sendable {
  /// Apple has trouble, by its own account (21002, 21005, 21009, 21100 to 21199).
  case trouble
  /// Another HTTP status than 200.
  case http(Int)
  /// HTTP 429; how long to wait, where Apple said so.
  case rateLimited(retryAfter: Duration?)
  /// The body is no answer; the text names the place in it.
  case malformedAnswer(String)
  /// Each store says that the receipt belongs to the other one.
  case misrouted
  case noAnswer(TransportError)
  /// There was no time left for a first attempt.
  case deadlinePassed
  /// This store is not called for now, as too many calls to it failed; no call was made.
  case circuitOpen(StoreEnvironment, retryIn: Duration)
}
