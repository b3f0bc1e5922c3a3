package import struct FoundationEssentials.Date

/// The clocks and the randomness of the calls, injected so that tests neither sleep nor depend on chance.
package struct CallTiming: Sendable {
  /// The monotonic clock for deadlines and pauses.
  package var now: @Sendable () -> ContinuousClock.Instant
  /// Our wall clock, used where Apple gives no time.
  package var date: @Sendable () -> Date
  /// Sleeps; throws only if the task is cancelled.
  var sleep: @Sendable (Duration) async throws -> Void
  /// A pause between zero and the ceiling.
  var jitter: @Sendable (_ ceiling: Duration) -> Duration

  package static let live = CallTiming(
    now: { ContinuousClock.now },
    date: { Date() },
    sleep: { try await Task.sleep(for: $0, clock: .continuous) },
    jitter: { $0 * Double.random(in: 0...1) })
}
