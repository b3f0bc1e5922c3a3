import Logging
import Resilience

extension CircuitBreaker {
  /// One that says in the log when it opens and closes.
  static func logging(_ upstream: String, _ logger: Logger) -> CircuitBreaker {
    var configuration = Configuration()
    // Short enough that what waits is settled soon after the outage; still only some calls a minute during it.
    configuration.pause.cap = .seconds(15)
    return CircuitBreaker(
      configuration: configuration,
      onChange: { change in
        var metadata: Logger.Metadata = ["upstream": "\(upstream)", "state": "\(change.to.rawValue)"]
        if let pause = change.pause { metadata["pause_milliseconds"] = .stringConvertible(pause / .milliseconds(1)) }
        if change.to == .open {
          logger.warning("a circuit breaker changed", metadata: metadata)
        } else {
          logger.notice("a circuit breaker changed", metadata: metadata)
        }
      })
  }
}
