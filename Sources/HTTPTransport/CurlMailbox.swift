import Synchronization

/// A request on its way to the loop, with its waiting caller.
struct Submission: Sendable {
  let id: UInt64
  let request: PreparedRequest
  let deadline: ContinuousClock.Instant
  let mark: CancellationMark
  let continuation: CheckedContinuation<Result<TransportResponse, TransportError>, Never>
}

/// Records that a request was cancelled, in case that happens before it is submitted.
final class CancellationMark: Sendable {
  private let flag = Atomic(false)

  var isSet: Bool { flag.load(ordering: .acquiring) }

  func set() { flag.store(true, ordering: .releasing) }
}

/// The link between callers on any thread and the loop.
final class CurlMailbox: Sendable {
  /// Everything submitted since the loop last read the mailbox.
  struct Contents {
    var submitted: [Submission] = []
    var cancelled: [UInt64] = []
    var isShutDown = false
  }

  private struct State {
    var contents = Contents()
    /// `nil` once the loop has ended: submissions are refused.
    var multi: CurlMulti?
    /// A wake is in progress, after which the loop will see all contents: no other is needed.
    var isWaking = false
    /// Submitted and not yet answered.
    var outstanding = 0
    /// Requests refused for want of space; the loop never sees them.
    var refused = 0
    var statistics = CurlTransport.Statistics()
  }

  private let state: Mutex<State>
  private let capacity: Int
  private let nextID = Atomic<UInt64>(0)

  init(multi: CurlMulti, capacity: Int) {
    state = Mutex(State(multi: multi))
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

  /// Submits a request.
  ///
  /// - Returns: why it was refused, so that the caller has to answer it; `nil`: the loop will.
  func submit(_ submission: Submission) -> TransportError? {
    let (refusal, sleeper): (TransportError?, CurlMulti?) = state.withLock { state in
      guard state.multi != nil, !state.contents.isShutDown else { return (.shutDown, nil) }
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

  /// Requests cancellation; no effect on a request that has ended or was never submitted.
  func cancel(_ id: UInt64) {
    let sleeper: CurlMulti? = state.withLock { state in
      guard state.multi != nil else { return nil }
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

  /// For the loop: takes everything submitted since the last call.
  func take() -> Contents {
    state.withLock { state in
      state.isWaking = false
      let taken = state.contents
      state.contents = Contents(isShutDown: taken.isShutDown)
      return taken
    }
  }

  /// For the loop: publishes its counts, before callers see their results.
  func publish(_ statistics: CurlTransport.Statistics, ended: Int) {
    state.withLock { state in
      state.outstanding -= ended
      state.statistics = statistics
    }
  }

  /// For the loop, at its end: refuses further submissions.
  ///
  /// - Returns: submissions that the loop has not seen.
  func close() -> [Submission] {
    state.withLock { state in
      state.multi = nil
      defer { state.contents = Contents(isShutDown: true) }
      return state.contents.submitted
    }
  }

  /// The handle on which a sleeping loop waits. It is woken after the lock is released, as the loop takes the lock first.
  private static func sleeper(_ state: inout State) -> CurlMulti? {
    guard !state.isWaking else { return nil }
    state.isWaking = true
    return state.multi
  }
}
