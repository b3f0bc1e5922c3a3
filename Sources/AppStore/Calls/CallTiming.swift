package import struct FoundationEssentials.Date

/// Clocks and chance, passed in so that tests neither sleep nor roll dice.
package struct CallTiming: Sendable {
  /// The monotonic clock for deadlines and pauses.
  package var now: @Sendable () -> ContinuousClock.Instant
  /// Our calendar clock; judged by only where Apple names no time.
  package var date: @Sendable () -> Date
  /// Throws when the task is cancelled, and only then.
  package var sleep: @Sendable (Duration) async throws -> Void
  /// A pause between zero and the ceiling.
  package var jitter: @Sendable (_ ceiling: Duration) -> Duration

  package init(
    now: @escaping @Sendable () -> ContinuousClock.Instant,
    date: @escaping @Sendable () -> Date,
    sleep: @escaping @Sendable (Duration) async throws -> Void,
    jitter: @escaping @Sendable (_ ceiling: Duration) -> Duration
  ) {
    self.now = now
    self.date = date
    self.sleep = sleep
    self.jitter = jitter
  }

  package static let live = CallTiming(
    now: { ContinuousClock.now },
    date: { Date() },
    sleep: { try await Task.sleep(for: $0, clock: .continuous) },
    jitter: { $0 * Double.random(in: 0...1) })
}
