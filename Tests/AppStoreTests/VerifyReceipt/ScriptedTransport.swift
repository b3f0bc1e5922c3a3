import FoundationEssentials
import HTTPTransport
import Synchronization
import Testing

@testable import AppStore
@testable import Resilience

/// Plays Apple from a list of answers, in order. A call that is not in the list fails the test.
final class ScriptedTransport: Transport {
  enum Step: Sendable {
    case body(String, status: Int = 200, headers: [TransportHeader] = [])
    case error(TransportError)
    /// As a stall does: the clock stands at the deadline afterwards.
    case stall
  }

  struct Call: Sendable {
    var url: String
    var request: TransportRequest
  }

  private struct State {
    var steps: [Step]
    var calls: [Call] = []
  }

  private let state: Mutex<State>
  private let time: TestTime

  init(_ steps: [Step], time: TestTime) {
    state = Mutex(State(steps: steps))
    self.time = time
  }

  var calls: [Call] { state.withLock { $0.calls } }
  var remaining: Int { state.withLock { $0.steps.count } }

  func send(
    _ request: TransportRequest, deadline: ContinuousClock.Instant
  ) async throws(TransportError) -> TransportResponse {
    let step = state.withLock { state in
      state.calls.append(Call(url: request.url, request: request))
      return state.steps.isEmpty ? nil : state.steps.removeFirst()
    }
    switch step {
    case .body(let text, let status, let headers):
      return TransportResponse(status: status, headers: headers, body: Array(text.utf8))
    case .error(let error): throw error
    case .stall:
      time.advance(to: deadline)
      throw .timedOut
    case nil:
      Issue.record("an unplanned call to \(request.url)")
      throw .other(code: -1)
    }
  }
}

/// A clock that moves only when somebody sleeps on it, and remembers how long they slept.
final class TestTime: Sendable {
  /// 2024-06-15 12:00:00 UTC.
  static let date = Date(timeIntervalSince1970: 1_718_452_800)

  let start = ContinuousClock.now
  private let state = Mutex<(passed: Duration, pauses: [Duration])>((.zero, []))

  var pauses: [Duration] { state.withLock { $0.pauses } }
  var now: ContinuousClock.Instant { start.advanced(by: state.withLock { $0.passed }) }

  func advance(to instant: ContinuousClock.Instant) {
    let passed = instant - start
    state.withLock { $0.passed = max($0.passed, passed) }
  }

  /// - Parameter jitter: the share of the ceiling that every pause takes.
  func timing(jitter: Double = 1) -> CallTiming {
    CallTiming(
      now: { self.now },
      date: { Self.date },
      sleep: { pause in
        try Task.checkCancellation()
        self.state.withLock { state in
          state.passed += pause
          state.pauses.append(pause)
        }
      },
      jitter: { $0 * jitter })
  }
}

extension VerifyReceiptClient.Configuration {
  static let test = Self(
    productionURL: "https://buy.example/verifyReceipt", sandboxURL: "https://sandbox.example/verifyReceipt",
    sharedSecret: Secret("s3cr\"et"))
}

extension RetryBudget {
  /// One that allows nothing and earns nothing.
  static func spent() -> RetryBudget {
    var configuration = Configuration()
    configuration.capacity = 0
    return RetryBudget(configuration: configuration)
  }
}
