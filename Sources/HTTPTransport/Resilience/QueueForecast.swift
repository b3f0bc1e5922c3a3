/// Foresees whether a request that has to wait for a slot can still be answered in time. Pure.
///
/// A request that is sent too late takes a slot from one that could be served, and when all are late nobody is: an
/// overloaded queue would do all of its work for callers who have left. To say no at once costs nothing.
///
///     slots all taken, calls take 300 ms         64 slots, 100 waiting: a slot in 470 ms, an answer in 770 ms
///     slots all taken, none was freed for 4 s    a slot in 4 s or later, whatever calls took before
struct QueueForecast {
  /// How long calls took lately: each weighs an eighth, those before it the rest.
  private(set) var typicalDuration: Duration?
  private var lastEnd: ContinuousClock.Instant?
  private let slots: Int

  init(slots: Int) { self.slots = slots }

  /// A call that was sent has ended, well or not. One that was cancelled tells nothing.
  mutating func note(_ duration: Duration, at now: ContinuousClock.Instant) {
    typicalDuration = typicalDuration.map { $0 + (duration - $0) / 8 } ?? duration
    lastEnd = now
  }

  /// The expected answer, for a request with `ahead` others waiting before it while every slot is taken.
  func answer(at now: ContinuousClock.Instant, ahead: Int) -> ContinuousClock.Instant {
    // With nothing known yet, everything is possible.
    guard let typicalDuration, let lastEnd else { return now }
    let wait = max(typicalDuration * (ahead + 1) / slots, now - lastEnd)
    return now + wait + typicalDuration
  }

  /// The expected answer, for a request that is sent now.
  func answer(sentAt now: ContinuousClock.Instant) -> ContinuousClock.Instant { now + (typicalDuration ?? .zero) }
}
