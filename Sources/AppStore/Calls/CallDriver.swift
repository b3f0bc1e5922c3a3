import Entitlements
import HTTPTransport
import Resilience

/// The driver of all questions to Apple: makes call after call until the question is answered or has failed.
///
/// Each call needs a permit of its store's circuit breaker, which learns the outcome. A retry waits with full jitter,
/// at least as long as Apple asked for, within the deadline, and costs a token of the retry budget.
struct CallDriver<Attempt: Sendable>: Sendable {
  let transport: any Transport
  let timing: CallTiming
  let breakers: [StoreEnvironment: CircuitBreaker]
  let retryBudget: RetryBudget?
  let observe: @Sendable (Attempt) -> Void

  /// - Parameters:
  ///   - retriesTrouble: whether Apple's trouble may be retried out of the shared budget.
  ///   - deadline: the end of all attempts together. A call that stalls takes the rest of the time.
  func answer<Question: AppleQuestion>(
    to question: Question, retriesTrouble: Bool, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> Question.Answer
  where Question.Attempt == Attempt {
    var question = question
    var isFirst = true
    /// The failure that the next call repeats; `nil` for a new call.
    var repeated: AppStoreError?
    while true {
      guard !Task.isCancelled else { throw .cancelled }
      guard timing.now() < deadline else { throw repeated ?? .unavailable(.deadlinePassed) }
      let environment = question.environment
      let permit = try permit(for: environment, repeating: repeated)
      let call = try await call(&question, permit, repeating: repeated, isFirst: isFirst, deadline: deadline)
      isFirst = false
      switch try step(of: &question, after: call, permit, repeating: repeated) {
      case .conclude(let answer): return answer
      case .ask:
        repeated = nil
      case .fail(let error): throw error
      case .retry(let ceiling, let least, let failure, let isProvoked):
        // A store without a closed breaker gets no second call for the same question.
        guard breakers[environment].map({ $0.state == .closed }) ?? true, isProvoked || retriesTrouble else {
          throw failure
        }
        try await pause(
          ceiling: ceiling, least: least, deadline: deadline, budget: isProvoked ? nil : retryBudget, failure: failure)
        repeated = failure
      }
    }
  }

  /// The breaker's permit for one call; `nil` without a breaker.
  ///
  /// - Parameter failure: the failure that the call repeats. It explains more than that the breaker has opened since.
  private func permit(
    for environment: StoreEnvironment, repeating failure: AppStoreError?
  ) throws(AppStoreError) -> CircuitBreaker.Permit? {
    switch breakers[environment]?.admit() {
    case nil: return nil
    case .admitted(let permit)?: return permit
    case .refused(let retryIn)?: throw failure ?? .unavailable(.circuitOpen(environment, retryIn: retryIn))
    }
  }

  private struct Call<Outcome> {
    var outcome: Outcome
    /// The time until the response was complete, without its decoding.
    var duration: Duration
    var given: Duration
  }

  /// Makes one call at its turn. Throws only errors that end the question at once.
  private func call<Question: AppleQuestion>(
    _ question: inout Question, _ permit: CircuitBreaker.Permit?, repeating failure: AppStoreError?, isFirst: Bool,
    deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> Call<Question.Outcome> {
    do throws(AppStoreError) {
      try await question.waitForTurn(repeating: failure, deadline: deadline)
      if isFirst { retryBudget?.noteFirstCall() }
      return try await send(question.nextRequest(), of: question, deadline: deadline)
    } catch {
      permit?.report(.neutral)
      throw error
    }
  }

  private func send<Question: AppleQuestion>(
    _ request: TransportRequest, of question: Question, deadline: ContinuousClock.Instant
  ) async throws(AppStoreError) -> Call<Question.Outcome> {
    let askedAt = timing.date()
    let started = timing.now()
    let response: TransportResponse
    do {
      response = try await transport.send(request, deadline: deadline)
    } catch .cancelled {
      throw .cancelled
    } catch .overloaded {
      throw .overloaded
    } catch {
      return Call(outcome: .noAnswer(error), duration: timing.now() - started, given: deadline - started)
    }
    let duration = timing.now() - started
    return Call(
      outcome: try await question.outcome(of: CallResponse(response, askedAt: askedAt)), duration: duration,
      given: deadline - started)
  }

  /// Reports the outcome of a call to the breaker, and decides the next step.
  ///
  /// Not inlined, nor is `pause`: a request holds the memory of `answer` during a call, 5.1 KB, and 5.8 with both.
  @inline(never)
  private func step<Question: AppleQuestion>(
    of question: inout Question, after call: Call<Question.Outcome>, _ permit: CircuitBreaker.Permit?,
    repeating failure: AppStoreError?
  ) throws(AppStoreError) -> CallStep<Question.Answer> where Question.Attempt == Attempt {
    let health = question.health(of: call.outcome, given: call.given)
    // A repeated failure is no news: one receipt that Apple never accepts must not count three times.
    permit?.report(failure != nil && health != .success ? .neutral : health)
    observe(question.attempt(call.outcome, duration: call.duration))
    return try question.next(after: call.outcome)
  }

  /// Waits before a retry.
  ///
  /// - Throws: `failure` if the retry budget is spent or the pause would outlast the deadline.
  @inline(never)
  private func pause(
    ceiling: Duration, least: Duration, deadline: ContinuousClock.Instant, budget: RetryBudget?, failure: AppStoreError
  ) async throws(AppStoreError) {
    let pause = max(timing.jitter(ceiling), least)
    guard timing.now().advanced(by: pause) < deadline, budget?.takeRetry() ?? true else { throw failure }
    do { try await timing.sleep(pause) } catch { throw .cancelled }
    guard timing.now() < deadline else { throw failure }
  }
}
