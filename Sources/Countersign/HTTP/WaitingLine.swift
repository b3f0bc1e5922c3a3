import HTTPTransport
import Synchronization

/// Lets so many requests be worked on at once. The others wait in line before their bodies are read, and hold little.
///
///     arrived ──▶ a slot is free ──────────────────────────▶ worked on ──▶ answered
///        └──────▶ in line ──▶ its turn, in time ──────────────▲
///                    └──────▶ its turn, too late ──▶ refused
///     would wait too long ──────────────────────────▶ refused
///
/// What was begun is thereby finished before anything new is begun, and requests that do not come here, such as reads, wait
/// for the few that are worked on and not for all that have arrived.
final class WaitingLine: Sendable {
  /// Nobody's turn came in time: by the forecast, or in fact.
  struct Refusal: Error {}

  private struct Waiter {
    var number: UInt64
    var arrival: ContinuousClock.Instant
    var resume: @Sendable (Bool) -> Void
  }

  private struct State {
    var inside = 0
    /// In order of arrival, from `first` on.
    var line: [Waiter] = []
    var first = 0
    var numbers: UInt64 = 0
    var forecast: QueueForecast
    var waiting: Int { line.count - first }

    /// Takes a slot, where one is free and nobody waits for it.
    mutating func enter(_ slots: Int, at now: ContinuousClock.Instant) -> Bool {
      guard inside < slots, waiting == 0 else { return false }
      inside += 1
      forecast.noteStart(at: now)
      return true
    }

    mutating func popFirst() -> Waiter? {
      guard first < line.count else { return nil }
      let waiter = line[first]
      first += 1
      if first == line.count || first >= 256 {
        line.removeFirst(first)
        first = 0
      }
      return waiter
    }
  }

  private let state: Mutex<State>
  let slots: Int
  let patience: Duration
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameters:
  ///   - slots: how many are worked on at once.
  ///   - patience: the longest that one waits; whose turn comes later is refused.
  init(slots: Int, patience: Duration, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    state = Mutex(State(forecast: QueueForecast(slots: slots)))
    self.slots = slots
    self.patience = patience
    self.now = now
  }

  /// How many wait now.
  var waiting: Int { state.withLock { $0.waiting } }

  /// Works on a request when its turn has come.
  ///
  /// - Throws: `Refusal`, then nothing was begun; and what the work throws.
  func run<Value>(_ work: (Place) async throws -> Value) async throws -> Value {
    guard await enter() else { throw Refusal() }
    let place = Place(self, begin: now())
    defer { place.leave() }
    return try await work(place)
  }

  /// A place among those that are worked on.
  final class Place: Sendable {
    private let line: WaitingLine
    private let begin: ContinuousClock.Instant
    private let isLeft = Atomic(false)

    fileprivate init(_ line: WaitingLine, begin: ContinuousClock.Instant) {
      self.line = line
      self.begin = begin
    }

    /// Gives the place to the next, when the request only waits for others any more. It is given once.
    @Sendable func leave() {
      guard !isLeft.exchange(true, ordering: .relaxed) else { return }
      line.leave(after: begin)
    }
  }

  private func enter() async -> Bool {
    if state.withLock({ $0.enter(slots, at: now()) }) { return true }
    let number = state.withLock { state in
      state.numbers += 1
      return state.numbers
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let arrival = now()
        let outcome = state.withLock { state -> Bool? in
          // Asked under the lock: a cancellation that comes later finds the waiter.
          if Task.isCancelled { return false }
          if state.enter(slots, at: arrival) { return true }
          if state.forecast.wait(at: arrival, ahead: state.waiting) > patience { return false }
          state.line.append(Waiter(number: number, arrival: arrival) { continuation.resume(returning: $0) })
          return nil
        }
        if let outcome { continuation.resume(returning: outcome) }
      }
    } onCancel: {
      abandon(number)
    }
  }

  /// Hands the slot to the next who is not too late.
  private func leave(after begin: ContinuousClock.Instant) {
    let now = now()
    let (next, late) = state.withLock { state -> (Waiter?, [Waiter]) in
      state.forecast.note(begin.duration(to: now), at: now)
      var late: [Waiter] = []
      while let waiter = state.popFirst() {
        if waiter.arrival.duration(to: now) <= patience { return (waiter, late) }
        late.append(waiter)
      }
      state.inside -= 1
      return (nil, late)
    }
    for waiter in late { waiter.resume(false) }
    next?.resume(true)
  }

  private func abandon(_ number: UInt64) {
    let waiter = state.withLock { state -> Waiter? in
      guard let index = state.line[state.first...].firstIndex(where: { $0.number == number }) else { return nil }
      return state.line.remove(at: index)
    }
    waiter?.resume(false)
  }
}

extension WaitingLine {
  /// Slots beside those of the calls to Apple: for what is read, checked, recorded and written meanwhile.
  private static let besideCalls = 64

  /// That of validations. Whose turn comes later than `patience` could not count on an answer within
  /// `server.request_deadline`: Apple and the profile store may take all of their time.
  convenience init(_ configuration: ServiceConfiguration) {
    self.init(
      slots: configuration.appStore.concurrency + Self.besideCalls,
      patience: configuration.server.requestDeadline - configuration.appStore.deadline
        - (configuration.profileStore?.deadline ?? .zero))
  }
}
