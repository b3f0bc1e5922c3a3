/// Foresees whether a request that has to wait for a slot can still be answered in time. Pure.
///
/// A request that is sent too late takes a slot from one that could be served, and when all are late nobody is: an
/// overloaded queue would do all of its work for callers who have left. To say no at once costs nothing.
///
///     slots all taken, calls take 300 ms         64 slots, 100 waiting: a slot in 470 ms, an answer in 770 ms
///     slots all taken, none was freed for 4 s    a slot in 4 s or later, whatever calls took before
package struct QueueForecast: Sendable {
  /// The moving average of the durations of calls: the latest one weighs an eighth.
  package private(set) var typicalDuration: Duration?
  /// The last time a slot was taken or given back: until then one was free.
  private var lastTurnover: ContinuousClock.Instant?
  private let slots: Int

  package init(slots: Int) { self.slots = slots }

  package mutating func noteStart(at now: ContinuousClock.Instant) { lastTurnover = now }

  /// A call that was sent has ended, well or not. One that was cancelled tells nothing.
  package mutating func note(_ duration: Duration, at now: ContinuousClock.Instant) {
    typicalDuration = typicalDuration.map { $0 + (duration - $0) / 8 } ?? duration
    lastTurnover = now
  }

  /// The expected answer, for a request with `ahead` others waiting before it while every slot is taken.
  package func answer(at now: ContinuousClock.Instant, ahead: Int) -> ContinuousClock.Instant {
    now + wait(at: now, ahead: ahead) + (typicalDuration ?? .zero)
  }

  /// The expected wait of such a request for its slot.
  package func wait(at now: ContinuousClock.Instant, ahead: Int) -> Duration {
    // With nothing known yet, everything is possible.
    guard let typicalDuration, let lastTurnover else { return .zero }
    return max(typicalDuration * (ahead + 1) / slots, now - lastTurnover)
  }

  /// The expected answer, for a request that is sent now.
  package func answer(sentAt now: ContinuousClock.Instant) -> ContinuousClock.Instant {
    now + (typicalDuration ?? .zero)
  }
}
