import Entitlements
import HTTPTransport
import Resilience

/// The driver of every question to Apple: call after call, until one concludes it or it has failed.
///
/// Each call needs leave of its store's breaker, which is told how it went. A retry waits with full jitter, not less than
/// Apple asked for, inside the deadline, and costs a token of the budget.
struct CallDriver<Attempt: Sendable>: Sendable {
  let transport: any Transport
  let timing: CallTiming
  let breakers: [StoreEnvironment: CircuitBreaker]
  let retryBudget: RetryBudget?
  let observe: @Sendable (Attempt) -> Void

  /// - Parameters:
  ///   - retriesTrouble: whether Apple's trouble is worth a retry out of the budget.
  ///   - deadline: for everything together. A call that stalls takes the rest of it.
  /// - Returns: the answer, and every call that was made, in order.
  func answer<Question: AppleQuestion>(
    to question: Question, retriesTrouble: Bool, deadline: ContinuousClock.Instant
  ) async throws(Question.Failure) -> (answer: Question.Answer, attempts: [Attempt])
  where Question.Attempt == Attempt {
    var question = question
    var attempts: [Attempt] = []
    /// Why the last call is repeated; `nil` when the next one repeats none.
    var repeated: Question.Failure?
    while true {
      guard !Task.isCancelled else { throw .cancelled }
      guard timing.now() < deadline else { throw repeated ?? .unavailable(because: .deadlinePassed) }
      let environment = question.environment
      let permit = try permit(for: environment, repeating: repeated)
      let (outcome, duration) = try await call(
        &question, permit, repeating: repeated, isFirst: attempts.isEmpty, deadline: deadline)
      let attempt = question.attempt(outcome, duration: duration)
      attempts.append(attempt)
      observe(attempt)
      switch try question.next(after: outcome) {
      case .conclude(let answer):
        return (answer, attempts)
      case .ask:
        repeated = nil
      case .fail(let error):
        throw error
      case .retry(let ceiling, let least, let failure, let isProvoked):
        // A store that is being kept from calls, or tried with one, gets no second call for the same question.
        guard breakers[environment].map({ $0.state == .closed }) ?? true, isProvoked || retriesTrouble else {
          throw failure
        }
        try await pause(
          ceiling: ceiling, least: least, deadline: deadline, budget: isProvoked ? nil : retryBudget, failure: failure)
        repeated = failure
      }
    }
  }

  /// Leave for one call; `nil` where no breaker asks for it.
  ///
  /// - Parameter failure: what made it necessary to repeat a call. It tells more than that the breaker opened since.
  private func permit<Failure: CallFailure>(
    for environment: StoreEnvironment, repeating failure: Failure?
  ) throws(Failure) -> CircuitBreaker.Permit? {
    switch breakers[environment]?.admit() {
    case nil: return nil
    case .admitted(let permit)?: return permit
    case .refused(let retryIn)?: throw failure ?? .unavailable(because: .circuitOpen(environment, retryIn: retryIn))
    }
  }

  /// One call at its turn, and the breaker told how it went. Errors are only those that end everything at once; all else
  /// is an outcome to judge.
  private func call<Question: AppleQuestion>(
    _ question: inout Question, _ permit: CircuitBreaker.Permit?, repeating failure: Question.Failure?, isFirst: Bool,
    deadline: ContinuousClock.Instant
  ) async throws(Question.Failure) -> (Question.Outcome, Duration) {
    do throws(Question.Failure) {
      try await question.waitForTurn(repeating: failure, deadline: deadline)
      if isFirst { retryBudget?.noteFirstCall() }
      let request = try question.nextRequest()
      let given = deadline - timing.now()
      let (outcome, duration) = try await send(request, of: question, deadline: deadline)
      let health = question.health(of: outcome, given: given)
      // A repeated call that fails again tells nothing new: one receipt of which Apple wants to know nothing must not count
      // as three.
      permit?.report(failure != nil && health != .success ? .neutral : health)
      return (outcome, duration)
    } catch {
      permit?.report(.neutral)
      throw error
    }
  }

  /// - Returns: the time until Apple's answer was there, without that of reading it.
  private func send<Question: AppleQuestion>(
    _ request: TransportRequest, of question: Question, deadline: ContinuousClock.Instant
  ) async throws(Question.Failure) -> (Question.Outcome, Duration) {
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
      return (.noAnswer(error), timing.now() - started)
    }
    let duration = timing.now() - started
    return (try await question.outcome(of: CallResponse(response, askedAt: askedAt)), duration)
  }

  /// Waits before the same call is made again.
  ///
  /// - Throws: `failure` when the retry budget is spent or the pause would outlast the deadline.
  private func pause<Failure: CallFailure>(
    ceiling: Duration, least: Duration, deadline: ContinuousClock.Instant, budget: RetryBudget?, failure: Failure
  ) async throws(Failure) {
    let pause = max(timing.jitter(ceiling), least)
    guard timing.now().advanced(by: pause) < deadline, budget?.takeRetry() ?? true else { throw failure }
    do { try await timing.sleep(pause) } catch { throw .cancelled }
    guard timing.now() < deadline else { throw failure }
  }
}
