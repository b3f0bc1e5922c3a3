import Synchronization

/// Keeps calls away from a service while it is down, and finds out by one call at a time whether it is back.
///
///     switch breaker.admit() {
///     case .refused(let retryIn):   // answer without calling
///     case .admitted(let permit):   // call, then
///       permit.report(.success)     // or .failure(), or .neutral
///     }
///
/// The rules are in `Circuit`. One breaker stands for one service: one store's trouble says nothing about another's.
package final class CircuitBreaker: Sendable {
  /// The limits of a breaker: when it opens, and how long it stays open.
  package struct Configuration: Hashable, Sendable {
    /// The period over which calls are counted.
    package var window = Duration.seconds(10)
    /// The least number of failures that opens it.
    package var failures = 5
    /// The nominal pause when it opens, by failed probes.
    package var pause = Backoff(base: .seconds(1), cap: .seconds(30))
    /// The time after which a probe without a report counts as lost. Longer than any call takes.
    package var probeTimeout = Duration.seconds(15)
    /// The longest pause that the service's `Retry-After` can ask for.
    package var longestRetryAfter = Duration.seconds(60)

    package init() {}
  }

  /// Whether calls pass: all, none, or one probe at a time.
  package enum State: String, Hashable, Sendable {
    case closed
    case open
    case halfOpen = "half_open"
  }

  /// The health of the service as a call shows it, whether or not the caller liked the answer.
  package enum Outcome: Hashable, Sendable {
    case success
    /// - Parameters:
    ///   - retryAfter: the service's `Retry-After`.
    ///   - reporter: the caller, if their bytes may be the cause of a failure. One reporter is heard once and not again
    ///     soon, so that nobody opens it alone. `nil`: it counts for any caller.
    case failure(retryAfter: Duration? = nil, reporter: String? = nil)
    /// No statement. A probe that ends so passes its place to the next call.
    case neutral
  }

  /// The answer to a caller who wants to call.
  package enum Admission: Sendable {
    case admitted(Permit)
    case refused(retryIn: Duration)
  }

  package struct Permit: Sendable {
    fileprivate let breaker: CircuitBreaker
    fileprivate let ticket: Circuit.Ticket

    /// To be called once, however the call ended. A probe that never reports holds its place for `probeTimeout`.
    package func report(_ outcome: Outcome) { breaker.report(outcome, for: ticket) }
  }

  package struct Counts: Hashable, Sendable {
    package var refused = 0
    /// Openings, those by a failed probe included.
    package var opened = 0
    package var probes = 0

    package init() {}
  }

  package struct Change: Hashable, Sendable {
    package var to: State
    /// The time for which it will be open.
    package var pause: Duration?
  }

  package let configuration: Configuration
  private let circuit: Mutex<Circuit>
  private let now: @Sendable () -> ContinuousClock.Instant
  private let jitter: @Sendable (Duration) -> Duration
  private let onChange: @Sendable (Change) -> Void

  /// - Parameters:
  ///   - jitter: a duration between zero and its argument.
  ///   - onChange: called for every change, outside the lock; for quick changes not always in order.
  package init(
    configuration: Configuration = Configuration(),
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    jitter: @escaping @Sendable (Duration) -> Duration = { $0 * Double.random(in: 0...1) },
    onChange: @escaping @Sendable (Change) -> Void = { _ in }
  ) {
    self.configuration = configuration
    circuit = Mutex(Circuit(configuration, at: now()))
    self.now = now
    self.jitter = jitter
    self.onChange = onChange
  }

  /// As the next caller would find it.
  package var state: State { circuit.withLock { $0.state(at: now()) } }

  package var counts: Counts { circuit.withLock { $0.counts } }

  package func admit() -> Admission {
    let decision = change { circuit, now in circuit.admit(at: now) }
    switch decision {
    case .admitted(let ticket): return .admitted(Permit(breaker: self, ticket: ticket))
    case .refused(let retryIn): return .refused(retryIn: retryIn)
    }
  }

  private func report(_ outcome: Outcome, for ticket: Circuit.Ticket) {
    change { circuit, now in circuit.report(outcome, for: ticket, at: now, jitter: jitter) }
  }

  private func change<Result: Sendable>(
    _ body: (inout Circuit, ContinuousClock.Instant) -> Result
  ) -> Result {
    let (result, change) = circuit.withLock { circuit in
      // Read under the lock, so that the second caller sees a time that is not earlier.
      let now = now()
      let before = circuit.phaseState
      let opened = circuit.counts.opened
      let result = body(&circuit, now)
      let after = circuit.phaseState
      let hasChanged = before != after || circuit.counts.opened != opened
      return (result, hasChanged ? Change(to: after, pause: circuit.pause(at: now)) : nil)
    }
    if let change { onChange(change) }
    return result
  }
}
