import Resilience
import Synchronization

/// Lets so many requests be worked on at once; the others wait in line.
///
///     arrived ──▶ a slot is free ──────────────────────────▶ worked on ──▶ answered
///        └──────▶ in line ──▶ its turn, in time ──────────────▲
///                    └──────▶ its turn, too late ──▶ refused
///     would wait too long ──────────────────────────▶ refused
///
/// What was begun is thereby finished before anything new is begun, and requests that do not come here, such as reads, wait
/// for the few that are worked on, and not for the work on all that have arrived.
package final class AdmissionQueue: Sendable {
  /// The turn did not come in time, by the forecast or in fact, or nobody waits for it any more.
  struct Refusal: Error {}

  let slots: Int
  package let patience: Duration
  /// How long after its head a request can be answered; its connection is closed then.
  package let requestDeadline: Duration
  private let semaphore: AsyncSemaphore
  /// Guards what is known of how long a slot is kept.
  private let forecast: Mutex<QueueForecast>
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameters:
  ///   - slots: how many are worked on at once.
  ///   - patience: the longest that one waits; whose turn comes later is refused.
  ///   - requestDeadline: how long after its head a request can be answered.
  package init(
    slots: Int, patience: Duration, requestDeadline: Duration,
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    self.slots = slots
    self.patience = patience
    self.requestDeadline = requestDeadline
    semaphore = AsyncSemaphore(permits: slots)
    forecast = Mutex(QueueForecast(slots: slots))
    self.now = now
  }

  /// How many wait now.
  package var waiting: Int { semaphore.waiting }

  /// Works on a request when its turn has come.
  ///
  /// - Parameter head: when the request began to arrive, which a slow caller takes long for.
  /// - Throws: `Refusal`, then nothing was begun; and what the work throws.
  package func run<Value>(since head: ContinuousClock.Instant, _ work: (Place) async throws -> Value) async throws
    -> Value
  {
    let arrival = now()
    let end = min(arrival + patience, head + requestDeadline)
    guard isPromising(at: arrival, until: end), await semaphore.acquire() else { throw Refusal() }
    let begin = now()
    guard begin <= end else {
      semaphore.release()
      throw Refusal()
    }
    forecast.withLock { $0.noteStart(at: begin) }
    let place = Place(self, begin: begin)
    defer { place.leave() }
    return try await work(place)
  }

  /// A place among those that are worked on.
  package final class Place: Sendable {
    private let line: AdmissionQueue
    private let begin: ContinuousClock.Instant
    private let isLeft = Atomic(false)

    fileprivate init(_ line: AdmissionQueue, begin: ContinuousClock.Instant) {
      self.line = line
      self.begin = begin
    }

    /// Gives the place to the next, when what is left waits for others. It is given once.
    @Sendable func leave() {
      guard !isLeft.exchange(true, ordering: .relaxed) else { return }
      line.leave(after: begin)
    }
  }

  /// Whether a request that arrives now can expect its turn in time.
  private func isPromising(at arrival: ContinuousClock.Instant, until end: ContinuousClock.Instant) -> Bool {
    guard semaphore.free == 0 else { return true }
    let ahead = semaphore.waiting
    return arrival + forecast.withLock { $0.wait(at: arrival, ahead: ahead) } <= end
  }

  private func leave(after begin: ContinuousClock.Instant) {
    let end = now()
    forecast.withLock { $0.note(begin.duration(to: end), at: end) }
    semaphore.release()
  }
}

extension AdmissionQueue {
  /// Slots beside those of the calls to Apple: for what is checked, recorded and written meanwhile.
  private static let besideCalls = 64

  /// The queue for validations. Its patience is `server.request_deadline` less what Apple and the profile store may take: a
  /// request that waited longer could not be answered in time. A request whose body arrived slowly is begun all the same:
  /// what is bought counts, though the answer may come too late.
  ///
  /// - Parameters:
  ///   - appStoreCalls: calls to Apple at once (`app_store.concurrency`).
  ///   - deadlines: of what a validation waits for after its turn, one after the other.
  package convenience init(appStoreCalls: Int, deadlines: [Duration], requestDeadline: Duration) {
    self.init(
      slots: appStoreCalls + Self.besideCalls, patience: deadlines.reduce(requestDeadline, -),
      requestDeadline: requestDeadline)
  }
}
