/// The longest pause after so many failures: it doubles from a base up to a cap.
///
///     Backoff(base: .seconds(1), cap: .seconds(10))
///
///     failures   0     1     2     3     4 …
///     ceiling    1 s   2 s   4 s   8 s   10 s
///
/// Each caller chooses the jitter: none, full (`jitter(ceiling)`), or half (`drawn`).
package struct Backoff: Hashable, Sendable {
  package var base: Duration
  package var cap: Duration

  package init(base: Duration, cap: Duration) {
    self.base = base
    self.cap = cap
  }

  package func ceiling(after failures: Int) -> Duration {
    // Doubled 40 times at most: a microsecond is twelve days by then, and a year does not overflow.
    min(cap, base * (1 << max(0, min(failures, 40))))
  }

  /// A pause between half of the ceiling and all of it.
  /// - Parameter jitter: chance, from zero to its argument; clamped, so that no source of chance can make it longer or none.
  package func drawn(after failures: Int, jitter: (Duration) -> Duration) -> Duration {
    let half = ceiling(after: failures) / 2
    return half + min(max(jitter(half), .zero), half)
  }
}
