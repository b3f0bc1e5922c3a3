import Resilience
import Synchronization

/// Admits a fixed number of requests at a time; the others wait in order of arrival.
///
///     arrived ──▶ a slot is free ──────────────────────────▶ worked on ──▶ answered
///        └──────▶ in line ──▶ its turn, in time ──────────────▲
///                    └──────▶ its turn, too late ──▶ refused
///     would wait too long ──────────────────────────▶ refused
///
/// So what was begun is finished before anything new is begun, and requests that do not pass here, such as reads, wait behind the
/// few that were admitted instead of everything that has arrived.
package final class AdmissionQueue: Sendable {
  /// The turn came too late, by forecast or in fact, or the caller has gone.
  struct Refusal: Error {}

  let slots: Int
  package let patience: Duration
  /// The time from the head of a request to the close of its connection.
  package let requestDeadline: Duration
  private let semaphore: AsyncSemaphore
  /// Guards the forecast of how long a slot is held.
  private let forecast: Mutex<QueueForecast>
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameters:
  ///   - slots: requests admitted at a time.
  ///   - patience: the longest wait; a request whose turn comes later is refused.
  ///   - requestDeadline: the time from the head of a request to the close of its connection.
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

  /// The number of waiting requests.
  package var waiting: Int { semaphore.waiting }

  /// Runs `work` when the turn of the request has come.
  ///
  /// - Parameter head: the moment at which the head of the request had arrived.
  /// - Throws: `Refusal` when nothing was begun, and what `work` throws.
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

  /// A slot in use.
  package final class Place: Sendable {
    private let line: AdmissionQueue
    private let begin: ContinuousClock.Instant
    private let isLeft = Atomic(false)

    fileprivate init(_ line: AdmissionQueue, begin: ContinuousClock.Instant) {
      self.line = line
      self.begin = begin
    }

    /// Passes the slot on early, when the rest of the work only waits for others. Further calls do nothing.
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
  /// Slots in addition to the calls to Apple, for the requests that are being checked, recorded or written back.
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
