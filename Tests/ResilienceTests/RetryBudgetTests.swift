import Synchronization
import Testing

@testable import Resilience

@Suite struct RetryBudgetTests {
  private let start = ContinuousClock.now

  /// Tokens that a macro of the tests may change.
  private final class Purse {
    private var tokens: RetryTokens

    init(_ configuration: RetryBudget.Configuration, at now: ContinuousClock.Instant) {
      tokens = RetryTokens(configuration, at: now)
    }

    var refused: Int { tokens.refused }
    func noteFirstCall(at now: ContinuousClock.Instant) { tokens.noteFirstCall(at: now) }
    func takeRetry(at now: ContinuousClock.Instant) -> Bool { tokens.takeRetry(at: now) }
    func retriesLeft(at now: ContinuousClock.Instant) -> Int { tokens.retriesLeft(at: now) }
  }

  @Test(arguments: [0, 1, 10, 1000, 100_000])
  func `when everything fails, calls stay within 1.1 times what was asked for, and the reserve`(_ offered: Int) {
    var configuration = RetryBudget.Configuration()
    configuration.trickle = nil
    let tokens = Purse(configuration, at: start)
    var calls = 0
    for _ in 0..<offered {
      tokens.noteFirstCall(at: start)
      calls += 1
      // Two retries each, as far as they are allowed.
      for _ in 0..<2 where tokens.takeRetry(at: start) { calls += 1 }
    }
    #expect(calls * 10 <= offered * 11 + configuration.capacity * 10)
    if offered >= 1000 { #expect(calls * 10 >= offered * 11, "what is allowed can be used") }
    print("retry budget: \(offered) validations that all fail, \(calls) calls")
  }

  @Test func `ten first calls earn one retry, exactly`() {
    var configuration = RetryBudget.Configuration()
    configuration.trickle = nil
    let tokens = Purse(configuration, at: start)
    while tokens.takeRetry(at: start) {}
    for _ in 0..<9 { tokens.noteFirstCall(at: start) }
    #expect(!tokens.takeRetry(at: start))
    tokens.noteFirstCall(at: start)
    #expect(tokens.takeRetry(at: start))
    #expect(!tokens.takeRetry(at: start))
    #expect(tokens.refused == 3)
  }

  @Test func `the budget starts full and never holds more`() {
    let tokens = Purse(.init(), at: start)
    #expect(tokens.retriesLeft(at: start) == 10)
    for _ in 0..<1000 { tokens.noteFirstCall(at: start) }
    #expect(tokens.retriesLeft(at: start) == 10)
    #expect(tokens.retriesLeft(at: start + .seconds(3600)) == 10)
  }

  @Test func `a quiet service earns one retry in ten seconds`() {
    let tokens = Purse(.init(), at: start)
    for _ in 0..<10 { #expect(tokens.takeRetry(at: start)) }
    #expect(!tokens.takeRetry(at: start + .milliseconds(9_999)))
    #expect(tokens.takeRetry(at: start + .seconds(10)))
    #expect(!tokens.takeRetry(at: start + .milliseconds(19_999)))
    // The part of a token that was not paid out yet is kept when whole ones are: 35 s are three tokens, and half of the
    // fourth.
    #expect(tokens.retriesLeft(at: start + .seconds(45)) == 3)
    #expect(tokens.retriesLeft(at: start + .seconds(50)) == 4)
  }

  @Test func `the trickle does not flow twice, and a century of silence only fills it up`() {
    let tokens = Purse(.init(), at: start)
    while tokens.takeRetry(at: start) {}
    let later = start + .seconds(100 * 365 * 86_400)
    #expect(tokens.retriesLeft(at: later) == 10)
    while tokens.takeRetry(at: later) {}
    #expect(tokens.retriesLeft(at: later) == 0)
    #expect(tokens.retriesLeft(at: later + .seconds(9)) == 0)
  }

  @Test func `callers share one budget`() async {
    var configuration = RetryBudget.Configuration()
    configuration.trickle = nil
    let budget = RetryBudget(configuration: configuration)
    let taken = await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<200 { group.addTask { budget.takeRetry() } }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(taken == 10)
    #expect(budget.retriesLeft == 0)
    #expect(budget.refused == 190)
  }
}
