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
  package var base: Duration
  package var cap: Duration

  package init(attempts: Int = 3, base: Duration = .milliseconds(100), cap: Duration = .seconds(2)) {
    self.attempts = attempts
    self.base = base
    self.cap = cap
  }

  /// The most to wait before an attempt; attempts count from 1.
  package func ceiling(before attempt: Int) -> Duration {
    guard attempt > 1 else { return .zero }
    // Shifted by at most 20: the cap is reached long before, and a large count must not overflow.
    return min(cap, base * (1 << min(attempt - 2, 20)))
  }
}
