import Synchronization

/// A request on its way to the loop, with the one who waits for it.
struct Submission: Sendable {
  let id: UInt64
  let request: PreparedRequest
  let deadline: ContinuousClock.Instant
  let mark: CancellationMark
  let continuation: CheckedContinuation<Result<TransportResponse, TransportError>, Never>
}

/// Remembers that a request was cancelled, for when that happens before the request is handed in.
final class CancellationMark: Sendable {
  private let flag = Atomic(false)

  var isSet: Bool { flag.load(ordering: .acquiring) }

  func set() { flag.store(true, ordering: .releasing) }
}

/// How callers on any thread reach the loop.
final class CurlMailbox: Sendable {
  /// What came in since the loop last looked.
  struct Contents {
    var submitted: [Submission] = []
    var cancelled: [UInt64] = []
    var isShutDown = false
  }

  /// Guards what callers and loop both touch.
  private struct State {
    var contents = Contents()
    /// `nil` once the loop has ended: nothing may be handed in any more.
    var handles: CurlHandles?
    /// A wake is under way and will show the loop all that is here: no need for another.
    var isWaking = false
    /// Handed in and not yet answered.
    var outstanding = 0
    /// Those that found no place; the loop never hears of them.
    var refused = 0
    var statistics = CurlTransport.Statistics()
  }

  private let state: Mutex<State>
  private let capacity: Int
  private let nextID = Atomic<UInt64>(0)

  init(handles: CurlHandles, capacity: Int) {
    state = Mutex(State(handles: handles))
    self.capacity = capacity
  }

  var statistics: CurlTransport.Statistics {
    state.withLock { state in
      var statistics = state.statistics
      statistics.refused += state.refused
      return statistics
    }
  }

  func newID() -> UInt64 { nextID.wrappingAdd(1, ordering: .relaxed).newValue }

  /// Hands a request in.
  ///
  /// - Returns: why it was not taken; the caller answers it then. `nil`: the loop will.
  func submit(_ submission: Submission) -> TransportError? {
    let (refusal, sleeper): (TransportError?, CurlHandles?) = state.withLock { state in
      guard state.handles != nil, !state.contents.isShutDown else { return (.shutDown, nil) }
      guard state.outstanding < capacity else {
        state.refused += 1
        return (.overloaded, nil)
      }
      state.outstanding += 1
      state.contents.submitted.append(submission)
      return (nil, Self.sleeper(&state))
    }
    sleeper?.wake()
    return refusal
  }

  /// Asks to end a request; nothing happens when it has ended already or was never handed in.
  func cancel(_ id: UInt64) {
    let sleeper: CurlHandles? = state.withLock { state in
      guard state.handles != nil else { return nil }
      state.contents.cancelled.append(id)
      return Self.sleeper(&state)
    }
    sleeper?.wake()
  }

  func shutDown() {
    let sleeper = state.withLock { state in
      state.contents.isShutDown = true
      return Self.sleeper(&state)
    }
    sleeper?.wake()
  }

  /// The loop's: everything that came in since.
  func take() -> Contents {
    state.withLock { state in
      state.isWaking = false
      let taken = state.contents
      state.contents = Contents(isShutDown: taken.isShutDown)
      return taken
    }
  }

  /// The loop's: makes its counts visible, before those whose requests ended hear of it.
  func publish(_ statistics: CurlTransport.Statistics, ended: Int) {
    state.withLock { state in
      state.outstanding -= ended
      state.statistics = statistics
    }
  }

  /// The loop's last: takes nothing more in.
  ///
  /// - Returns: what nobody has looked at.
  func close() -> [Submission] {
    state.withLock { state in
      state.handles = nil
      defer { state.contents = Contents(isShutDown: true) }
      return state.contents.submitted
    }
  }

  /// The loop, if it has to be woken: not while the state is held, which is the first thing that it asks for.
  private static func sleeper(_ state: inout State) -> CurlHandles? {
    guard !state.isWaking else { return nil }
    state.isWaking = true
    return state.handles
  }
}
