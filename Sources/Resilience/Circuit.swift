/// Decides whether a service that may be down is called. Pure: time and chance are passed in; see `CircuitBreaker`.
///
///                     enough failures                      pause over: one call is let through
///     ┌────────┐ ───────────────────────► ┌──────┐ ───────────────────────────────────► ┌───────────┐
///     │ closed │                          │ open │                                       │ half open │
///     └────────┘                          └──────┘ ◄──────────────────────────────────── └───────────┘
///          ▲                                         that call, the probe, failed               │
///          └──────────────────────────────────────────────────────────────── the probe succeeded┘
///
/// Enough failures: at least 5 in the last 10 s, and half of the calls judged in that time. Where fewer than 5 were
/// judged in that time, 5 in a row, however slowly they came. A burst of failures amid healthy traffic, as when one
/// connection with many streams breaks, does not open it. Nor does one reporter alone, see `Reporters`: what a caller may
/// have provoked takes five callers.
///
///     failed probes   nominal pause   drawn between
///     0               1 s             0.5 s and 1 s
///     1               2 s             1 s and 2 s
///     …               …               …
///     5 and more      30 s            15 s and 30 s
struct Circuit {
  typealias Instant = ContinuousClock.Instant

  enum Decision: Hashable {
    case admitted(Ticket)
    case refused(retryIn: Duration)
  }

  /// The token that an admitted call shows when it reports.
  struct Ticket: Hashable, Sendable {
    fileprivate let generation: UInt64
    let isProbe: Bool
  }

  private enum Phase {
    case closed
    case open(until: Instant)
    /// - Parameter probeUntil: when the call that is out counts as lost; `nil`: the next call is the probe.
    case halfOpen(probeUntil: Instant?)
  }

  private let configuration: CircuitBreaker.Configuration
  private var phase = Phase.closed
  /// Grows when it opens, when it closes, and with every probe. A report from an earlier generation is not heard: a
  /// call that began before the outage was known says nothing about whether it is over.
  private var generation: UInt64 = 0
  private var recent: RecentOutcomes
  private var failuresInARow = 0
  private var reporters: Reporters
  private var failedProbes = 0
  /// The end of the pause that the service asked for by `Retry-After`.
  private var notBefore: Instant?
  private(set) var counts = CircuitBreaker.Counts()

  init(_ configuration: CircuitBreaker.Configuration, at now: Instant) {
    self.configuration = configuration
    recent = RecentOutcomes(window: configuration.window, since: now)
    reporters = Reporters(window: configuration.window)
  }

  func state(at now: Instant) -> CircuitBreaker.State {
    if case .open(let until) = phase, until <= now { .halfOpen } else { phaseState }
  }

  /// The state in which the last call left the circuit. The end of a pause shows only with the next call.
  var phaseState: CircuitBreaker.State {
    switch phase {
    case .closed: .closed
    case .open: .open
    case .halfOpen: .halfOpen
    }
  }

  /// The rest of the time for which it is open.
  func pause(at now: Instant) -> Duration? {
    guard case .open(let until) = phase, now < until else { return nil }
    return until - now
  }

  mutating func admit(at now: Instant) -> Decision {
    switch phase {
    case .closed:
      return .admitted(Ticket(generation: generation, isProbe: false))
    case .open(let until) where now < until:
      return refuse(until - now)
    case .halfOpen(let probeUntil?) where now < probeUntil:
      // The probe's own time says little: most end long before it.
      return refuse(min(probeUntil - now, configuration.pause.ceiling(after: failedProbes)))
    case .open, .halfOpen:
      generation += 1
      counts.probes += 1
      phase = .halfOpen(probeUntil: now + configuration.probeTimeout)
      return .admitted(Ticket(generation: generation, isProbe: true))
    }
  }

  /// - Parameter jitter: a duration between zero and its argument.
  mutating func report(
    _ outcome: CircuitBreaker.Outcome, for ticket: Ticket, at now: Instant, jitter: (Duration) -> Duration
  ) {
    guard ticket.generation == generation else { return }
    var outcome = outcome
    switch outcome {
    case .success: reporters.forgive(at: now)
    case .failure(_, let reporter?) where !reporters.hear(reporter, at: now): outcome = .neutral
    case .failure, .neutral: break
    }
    if ticket.isProbe {
      reportProbe(outcome, at: now, jitter: jitter)
      return
    }
    switch outcome {
    case .neutral:
      break
    case .success:
      recent.note(isFailure: false, at: now)
      failuresInARow = 0
      notBefore = nil
    case .failure(let retryAfter, _):
      recent.note(isFailure: true, at: now)
      failuresInARow += 1
      heed(retryAfter, at: now)
      if isEnough(at: now) { open(at: now, jitter: jitter) }
    }
  }

  private mutating func reportProbe(
    _ outcome: CircuitBreaker.Outcome, at now: Instant, jitter: (Duration) -> Duration
  ) {
    switch outcome {
    case .neutral:
      generation += 1
      phase = .halfOpen(probeUntil: nil)
    case .success:
      generation += 1
      phase = .closed
      recent = RecentOutcomes(window: configuration.window, since: now)
      failuresInARow = 0
      failedProbes = 0
      notBefore = nil
    case .failure(let retryAfter, _):
      failedProbes += 1
      heed(retryAfter, at: now)
      open(at: now, jitter: jitter)
    }
  }

  private mutating func refuse(_ retryIn: Duration) -> Decision {
    counts.refused += 1
    return .refused(retryIn: retryIn)
  }

  private mutating func isEnough(at now: Instant) -> Bool {
    let (failures, evaluated) = recent.counts(at: now)
    guard evaluated >= configuration.failures else { return failuresInARow >= configuration.failures }
    return failures >= configuration.failures && failures * 2 >= evaluated
  }

  private mutating func open(at now: Instant, jitter: (Duration) -> Duration) {
    let until = now + configuration.pause.drawn(after: failedProbes, jitter: jitter)
    generation += 1
    counts.opened += 1
    phase = .open(until: max(until, notBefore ?? until))
  }

  private mutating func heed(_ retryAfter: Duration?, at now: Instant) {
    guard let retryAfter, retryAfter > .zero else { return }
    let until = now + min(retryAfter, configuration.longestRetryAfter)
    notBefore = max(notBefore ?? until, until)
  }
}

/// The numbers of calls that succeeded and failed in a sliding window, in tenths of it: ten pairs of numbers under any load. The
/// oldest counted call is at most between 9 and 10 tenths of the window old.
private struct RecentOutcomes {
  private struct Slice {
    let index: Int
    var failures = 0
    var evaluated = 0
  }

  private static let sliceCount = 10
  private let sliceLength: Duration
  private let start: ContinuousClock.Instant
  private var slices: [Slice] = []

  init(window: Duration, since start: ContinuousClock.Instant) {
    sliceLength = window / Self.sliceCount
    self.start = start
  }

  mutating func note(isFailure: Bool, at now: ContinuousClock.Instant) {
    let index = forget(at: now)
    if slices.last?.index != index { slices.append(Slice(index: index)) }
    slices[slices.count - 1].evaluated += 1
    if isFailure { slices[slices.count - 1].failures += 1 }
  }

  mutating func counts(at now: ContinuousClock.Instant) -> (failures: Int, evaluated: Int) {
    forget(at: now)
    return slices.reduce(into: (0, 0)) { sum, slice in
      sum.0 += slice.failures
      sum.1 += slice.evaluated
    }
  }

  /// Drops old counts.
  ///
  /// - Returns: the slice of this moment.
  @discardableResult private mutating func forget(at now: ContinuousClock.Instant) -> Int {
    let index = Int(((now - start) / sliceLength).rounded(.down))
    slices.removeAll { $0.index <= index - Self.sliceCount }
    return index
  }
}

/// The callers who recently reported a failure that they may have caused themselves.
///
/// A reporter is heard again when the window is over and the service has worked for somebody since. Without the first, one
/// reporter amid healthy calls would make up half of them; without the second, one alone at night would make up all.
private struct Reporters {
  /// More than are needed to open it. Beyond that the oldest is forgotten.
  private static let limit = 256

  private let window: Duration
  /// In the order of hearing.
  private var heard: [(name: String, at: ContinuousClock.Instant)] = []
  private var lastSuccess: ContinuousClock.Instant?

  init(window: Duration) {
    self.window = window
  }

  mutating func forgive(at now: ContinuousClock.Instant) { lastSuccess = now }

  /// - Returns: whether the report counts.
  mutating func hear(_ name: String, at now: ContinuousClock.Instant) -> Bool {
    if let lastSuccess { heard.removeAll { [window] in now - $0.at >= window && $0.at <= lastSuccess } }
    guard !heard.contains(where: { $0.name == name }) else { return false }
    if heard.count >= Self.limit { heard.removeFirst() }
    heard.append((name, now))
    return true
  }
}
