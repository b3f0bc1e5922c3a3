import Synchronization

/// A limit on repeated calls, over all callers together.
///
/// Retries help against a fault here and there. When everything fails they multiply the load on a service that has
/// trouble enough: three attempts each would triple it. So a repeated call costs a token, and every call made for the
/// first time earns a tenth of one: calls come to at most 1.1 times the questions, and the tokens kept. A service with
/// few callers would earn none for long; so one token comes in every 10 s.
///
/// A failure that a caller can provoke is repeated once without a token; otherwise one caller could spend the tokens of all.
package final class RetryBudget: Sendable {
  package struct Configuration: Hashable, Sendable {
    /// Tokens earned by a hundred first calls.
    package var retriesPerHundredCalls = 10
    /// The most tokens kept; it starts with them.
    package var capacity = 10
    /// One token comes in this often; `nil`: none.
    package var trickle: Duration? = .seconds(10)

    package init() {}
  }

  private let tokens: Mutex<RetryTokens>
  private let now: @Sendable () -> ContinuousClock.Instant

  package init(
    configuration: Configuration = Configuration(),
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    tokens = Mutex(RetryTokens(configuration, at: now()))
    self.now = now
  }

  package func noteFirstCall() {
    tokens.withLock { $0.noteFirstCall(at: now()) }
  }

  package func takeRetry() -> Bool {
    tokens.withLock { $0.takeRetry(at: now()) }
  }

  /// Retries that could be made at once, for metrics.
  package var retriesLeft: Int { tokens.withLock { $0.retriesLeft(at: now()) } }

  /// Retries that were not allowed, since the start.
  package var refused: Int { tokens.withLock { $0.refused } }
}

/// The tokens of a `RetryBudget`. Pure. Counted in hundredths, so that ten tenths are one.
struct RetryTokens {
  private static let whole = 100

  private let configuration: RetryBudget.Configuration
  private var hundredths: Int
  /// The time up to which the trickle is paid out.
  private var trickledUntil: ContinuousClock.Instant
  private(set) var refused = 0

  init(_ configuration: RetryBudget.Configuration, at now: ContinuousClock.Instant) {
    self.configuration = configuration
    hundredths = configuration.capacity * Self.whole
    trickledUntil = now
  }

  mutating func noteFirstCall(at now: ContinuousClock.Instant) {
    trickle(at: now)
    earn(configuration.retriesPerHundredCalls)
  }

  mutating func takeRetry(at now: ContinuousClock.Instant) -> Bool {
    trickle(at: now)
    guard hundredths >= Self.whole else {
      refused += 1
      return false
    }
    hundredths -= Self.whole
    return true
  }

  mutating func retriesLeft(at now: ContinuousClock.Instant) -> Int {
    trickle(at: now)
    return hundredths / Self.whole
  }

  private mutating func trickle(at now: ContinuousClock.Instant) {
    guard let interval = configuration.trickle, interval > .zero else { return }
    // More than fill it up are not counted, so a long silence overflows nothing.
    let due = ((now - trickledUntil) / interval).rounded(.down)
    guard due >= 1 else { return }
    guard due < Double(configuration.capacity) else {
      hundredths = configuration.capacity * Self.whole
      trickledUntil = now
      return
    }
    earn(Int(due) * Self.whole)
    trickledUntil += interval * Int(due)
  }

  private mutating func earn(_ amount: Int) {
    hundredths = min(hundredths + amount, configuration.capacity * Self.whole)
  }
}
