package import Resilience

/// How long to wait before asking the same store again.
///
/// Full jitter: the pause is drawn evenly from zero up to a ceiling that doubles, so that many callers who failed at the
/// same moment do not come back at the same moment.
///
///     attempt   pause before it
///     1         none
///     2         0 to 100 ms
///     3         0 to 200 ms     the last by default; further ones would be 400, 800, 1600 ms, then
///     7…        0 to 2 s        never more
package struct RetryPolicy: Hashable, Sendable {
  /// Calls per store and validation, the first included.
  package var attempts: Int
  package var backoff: Backoff

  package init(attempts: Int = 3, backoff: Backoff = Backoff(base: .milliseconds(100), cap: .seconds(2))) {
    self.attempts = attempts
    self.backoff = backoff
  }

  /// The most to wait before an attempt; attempts count from 1.
  package func ceiling(before attempt: Int) -> Duration {
    attempt > 1 ? backoff.ceiling(after: attempt - 2) : .zero
  }
}
