package import HTTPTransport
import Synchronization

/// A transport for tests, with planned responses and a record of requests.
///
/// With a queue of responses, a call beyond the plan is a failure: it throws and is kept in `unplanned`. A test checks
/// that at its end, as the code under test may survive the error.
package final class StubTransport: Transport {
  package typealias Answer = @Sendable (TransportRequest) async throws(TransportError) -> TransportResponse

  /// Guards the plan and the record.
  private struct State {
    var plan: [Result<TransportResponse, TransportError>] = []
    var requests: [TransportRequest] = []
    var deadlines: [ContinuousClock.Instant] = []
    var unplanned: [TransportRequest] = []
  }

  private let state: Mutex<State>
  private let answer: Answer?
  private let onUnplanned: @Sendable (TransportRequest) -> Void

  /// Responds by a closure; every call is planned.
  package init(_ answer: @escaping Answer) {
    self.answer = answer
    state = Mutex(State())
    onUnplanned = { _ in }
  }

  /// Responds in this order.
  ///
  /// - Parameter onUnplanned: called for every call beyond the plan; a test gives `{ _ in Issue.record("…") }`.
  package init(
    answers: [Result<TransportResponse, TransportError>],
    onUnplanned: @escaping @Sendable (TransportRequest) -> Void
  ) {
    answer = nil
    state = Mutex(State(plan: answers))
    self.onUnplanned = onUnplanned
  }

  /// The requests, oldest first, unplanned ones included.
  package var requests: [TransportRequest] { state.withLock { $0.requests } }
  package var deadlines: [ContinuousClock.Instant] { state.withLock { $0.deadlines } }
  package var unplanned: [TransportRequest] { state.withLock { $0.unplanned } }
  /// The number of planned responses left.
  package var answersLeft: Int { state.withLock { $0.plan.count } }

  package func send(
    _ request: TransportRequest, deadline: ContinuousClock.Instant
  ) async throws(TransportError) -> TransportResponse {
    let planned = state.withLock { state -> Result<TransportResponse, TransportError>? in
      state.requests.append(request)
      state.deadlines.append(deadline)
      guard answer == nil else { return nil }
      guard !state.plan.isEmpty else {
        state.unplanned.append(request)
        return nil
      }
      return state.plan.removeFirst()
    }
    if let answer { return try await answer(request) }
    guard let planned else {
      onUnplanned(request)
      throw .invalidRequest("the stub has no answer planned for this call")
    }
    return try planned.get()
  }
}
