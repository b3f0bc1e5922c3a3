package import Resilience

/// The attempts at one store, and the pauses before them.
///
/// Full jitter: a pause is drawn evenly from zero up to a ceiling that doubles, so that callers who failed together do
/// not come back together.
///
///     attempt   pause before it
///     1         none
///     2         0 to 100 ms
///     3         0 to 200 ms     the last by default; further ones would be 400, 800, 1600 ms, then
///     7…        0 to 2 s        the longest
package struct RetryPolicy: Hashable, Sendable {
  /// Calls per store and validation, the first included.
  var attempts: Int
  var backoff: Backoff

  package init(attempts: Int = 3, backoff: Backoff = Backoff(base: .milliseconds(100), cap: .seconds(2))) {
    self.attempts = attempts
    self.backoff = backoff
  }

  /// The longest pause before an attempt; attempts count from 1.
  func ceiling(before attempt: Int) -> Duration { attempt > 1 ? backoff.ceiling(after: attempt - 2) : .zero }
}
