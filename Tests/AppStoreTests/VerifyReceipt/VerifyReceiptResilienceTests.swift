import Entitlements
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

@testable import AppStore
@testable import HTTPTransport
@testable import Resilience

/// The client with circuit breakers and a retry budget: what reaches Apple while Apple has trouble.
@Suite struct VerifyReceiptResilienceTests {
  private let bench = Bench()

  typealias Step = ScriptedTransport.Step

  /// One Apple for many validations: time, breakers and budget are shared.
  private struct Bench {
    let time = TestTime()
    let production: CircuitBreaker
    let sandbox: CircuitBreaker
    let budget: RetryBudget?

    init(budget: RetryBudget? = nil) {
      production = CircuitBreaker(now: { [time] in time.now }, jitter: { $0 })
      sandbox = CircuitBreaker(now: { [time] in time.now }, jitter: { $0 })
      self.budget = budget
    }

    func client(_ transport: any Transport, attempts: Int = 3) -> VerifyReceiptClient {
      var configuration = VerifyReceiptClient.Configuration.test
      configuration.retry.attempts = attempts
      return VerifyReceiptClient(
        transport: transport, configuration: configuration, timing: time.timing(),
        breakers: [.production: production, .sandbox: sandbox], retryBudget: budget)
    }

    /// One validation; a call beyond the steps, or a step that is not used, fails the test.
    @discardableResult func verify(
      _ steps: [Step], check: SignatureCheck = .passed, of user: UserID? = nil, attempts: Int = 3,
      within time: Duration = .seconds(10)
    ) async -> AppStoreError? {
      let transport = ScriptedTransport(steps, time: self.time)
      defer { #expect(transport.remaining == 0, "every planned answer is fetched") }
      do throws(AppStoreError) {
        _ = try await client(transport, attempts: attempts).verify(
          "AA==", check: check, of: user, deadline: self.time.now + time)
        return nil
      } catch {
        return error
      }
    }

    func wait(_ duration: Duration) { time.advance(to: time.now + duration) }

    /// Five validations that fail without a retry.
    func openProduction(_ step: Step = .error(.connect)) async {
      for _ in 0..<5 { await verify([step], attempts: 1) }
      #expect(production.state == .open)
    }
  }

  private static func status(_ code: Int) -> Step { .body(#"{"status":\#(code)}"#) }
  private static let verdict = Step.body(Sample.body())

  // MARK: What a call says about Apple's health

  /// A step with the time it is given, and what it says of a verified and of an unverified receipt.
  private static let health: [(Step, CircuitBreaker.Outcome, CircuitBreaker.Outcome)] = [
    (verdict, .success, .success),
    (status(21010), .success, .success),
    (status(21004), .success, .success),
    (status(21000), .success, .success),
    (status(21008), .success, .success),
    (status(21003), .neutral, .neutral),
    (status(21011), .neutral, .neutral),
    (status(21002), .failure(), .neutral),
    (status(21005), .failure(), .neutral),
    (status(21009), .failure(), .neutral),
    (status(21100), .failure(), .neutral),
    (status(21199), .failure(), .neutral),
    (.body("", status: 500), .failure(), .failure()),
    (.body("", status: 503), .failure(), .failure()),
    (.body("", status: 429), .failure(), .failure()),
    (.body("", status: 301), .failure(), .failure()),
    (.body("", status: 413), .failure(), .neutral),
    (.body("<html>"), .failure(), .failure()),
    (.body("{}"), .failure(), .failure()),
    (.body(Sample.body().replacingOnce("1719792000000", with: "l719792000000")), .neutral, .neutral),
    (.error(.resolve), .failure(), .failure()),
    (.error(.connect), .failure(), .failure()),
    (.error(.tls("expired")), .failure(), .failure()),
    (.error(.reset), .failure(), .failure()),
    (.error(.protocolViolation("x")), .failure(), .failure()),
    (.error(.other(code: 92)), .failure(), .failure()),
    (.stall, .failure(), .failure()),
    (.error(.tooLarge(limit: 8)), .neutral, .neutral),
    (.error(.invalidRequest("x")), .neutral, .neutral),
    (.error(.overloaded), .neutral, .neutral),
    (.error(.cancelled), .neutral, .neutral),
    (.error(.shutDown), .neutral, .neutral),
  ]

  @Test(arguments: health.indices, [true, false])
  func `each outcome is counted for what it says about Apple`(_ index: Int, _ isVerified: Bool) async {
    let (step, verified, unverified) = Self.health[index]
    let expected = isVerified ? verified : unverified
    // Four failures: one more opens it, a success resets it, silence leaves it as it is.
    let bench = Bench()
    for _ in 0..<4 { await bench.verify([.error(.connect)], attempts: 1) }
    bench.wait(.seconds(60))
    await bench.verify([step], check: isVerified ? .passed : .impossible, attempts: 1)
    if case .failure = expected {
      #expect(bench.production.state == .open)
      return
    }
    #expect(bench.production.state == .closed)
    bench.wait(.seconds(60))
    await bench.verify([.error(.connect)], attempts: 1)
    #expect((bench.production.state == .open) == (expected == .neutral))
  }

  @Test func `a time-out counts only if the call was given a second`() async {
    for _ in 0..<20 { await bench.verify([.stall], within: .milliseconds(999)) }
    #expect(bench.production.state == .closed)
    for _ in 0..<5 { await bench.verify([.stall], within: .seconds(1)) }
    #expect(bench.production.state == .open)
  }

  @Test func `made-up receipts cannot close the store to others`() async {
    for code in [21002, 21003, 21005, 21009, 21100] {
      for _ in 0..<100 { await bench.verify([Self.status(code)], check: .failed, attempts: 1) }
    }
    #expect(bench.production.counts.opened == 0)
    #expect(await bench.verify([Self.verdict]) == nil)
  }

  private static let users: [UserID] = ["anna", "ben", "cleo", "dora", "emil"]

  /// Whoever has a receipt of Apple's can spoil it where the signature does not reach.
  @Test(arguments: [status(21002), .body("", status: 413)])
  func `one user's spoilt receipts cannot close the store to others, an outage for many can`(_ step: Step) async {
    for _ in 0..<100 {
      await bench.verify([step], of: "mallory", attempts: 1)
      bench.wait(.seconds(1))
    }
    #expect(bench.production.counts.opened == 0)
    #expect(await bench.verify([Self.verdict], of: "anna") == nil)
    for user in Self.users { await bench.verify([step], of: user, attempts: 1) }
    #expect(bench.production.state == .open)
  }

  /// That there is an outage is clear enough where the answer can be nobody's fault.
  @Test(arguments: [status(21005), status(21009), .body("", status: 503), .error(.connect)])
  func `trouble that no receipt can bring about counts, whoever meets it`(_ step: Step) async {
    for _ in 0..<5 { await bench.verify([step], of: "anna", attempts: 1) }
    #expect(bench.production.state == .open)
  }

  @Test func `forged receipts leave the retries to others`() async {
    let budget = Self.budget()
    let bench = Bench(budget: budget)
    let before = budget.retriesLeft
    for _ in 0..<100 {
      await bench.verify([Self.status(21003)], check: .failed, of: "mallory")
      await bench.verify([Self.status(21003), Self.status(21003)], check: .passed, of: "mallory")
      await bench.verify([Self.status(21002), Self.status(21002)], check: .impossible, of: "mallory")
    }
    #expect(budget.retriesLeft == before)
    #expect(budget.refused == 0)
    #expect(await bench.verify([Self.status(21009), Self.verdict], of: "anna") == nil)
  }

  // MARK: What the breaker stops

  @Test func `an open breaker calls nothing, and the error says when to come back`() async {
    await bench.openProduction()
    #expect(
      await bench.verify([]) == .unavailable(.circuitOpen(.production, retryIn: .seconds(1))))
  }

  @Test func `each store has its own breaker`() async {
    for _ in 0..<5 { await bench.verify([Self.status(21007), .error(.connect)], attempts: 1) }
    #expect(bench.sandbox.state == .open)
    #expect(bench.production.state == .closed)
    #expect(await bench.verify([Self.verdict]) == nil)
    #expect(
      await bench.verify([Self.status(21007)])
        == .unavailable(.circuitOpen(.sandbox, retryIn: .seconds(1))))
  }

  @Test func `retrying stops when the breaker opens, without a pause`() async {
    for _ in 0..<4 { await bench.verify([Self.status(21005)], attempts: 1) }
    #expect(await bench.verify([Self.status(21005)], attempts: 9) == .unavailable(appleStatus: 21005, .trouble))
    #expect(bench.time.pauses.isEmpty)
    #expect(bench.production.state == .open)
  }

  @Test func `one receipt that Apple never answers counts once, however often the call is repeated`() async {
    for _ in 0..<4 {
      await bench.verify(Array(repeating: Self.status(21005), count: 5), attempts: 5)
      #expect(bench.production.state == .closed)
    }
    await bench.verify([Self.status(21005)], attempts: 5)
    #expect(bench.production.state == .open)
  }

  @Test func `a breaker that others open during the pause stops the retry, which ends as it failed`() async {
    let transport = ScriptedTransport([Self.status(21005)], time: bench.time)
    var timing = bench.time.timing()
    timing.sleep = { _ in
      for _ in 0..<5 {
        if case .admitted(let permit) = bench.production.admit() { permit.report(.failure()) }
      }
    }
    let client = VerifyReceiptClient(
      transport: transport, configuration: .test, timing: timing, breakers: [.production: bench.production])
    await #expect(throws: AppStoreError.unavailable(appleStatus: 21005, .trouble)) {
      try await client.verify("AA==", check: .passed, deadline: bench.time.now + .seconds(10))
    }
    #expect(transport.calls.count == 1)
  }

  @Test func `the probe is one call; it is not repeated when it fails`() async {
    await bench.openProduction()
    bench.wait(.seconds(1))
    #expect(await bench.verify([Self.status(21005)]) == .unavailable(appleStatus: 21005, .trouble))
    #expect(bench.production.state == .open)
    #expect(bench.time.pauses.isEmpty)
    bench.wait(.seconds(2))
    #expect(
      await bench.verify([Self.status(21005)], check: .failed) == .unavailable(appleStatus: 21005, .trouble))
    #expect(bench.production.state == .halfOpen)
    #expect(bench.time.pauses.isEmpty)
  }

  @Test func `a probe that gets a verdict opens the way for all`() async {
    await bench.openProduction()
    bench.wait(.seconds(1))
    #expect(await bench.verify([Self.verdict]) == nil)
    #expect(bench.production.state == .closed)
    #expect(await bench.verify([Self.status(21005), Self.verdict]) == nil)
  }

  @Test(arguments: [TransportError.overloaded, .cancelled])
  func `a probe that ended on our side leaves the place to the next call`(_ error: TransportError) async {
    await bench.openProduction()
    bench.wait(.seconds(1))
    await bench.verify([.error(error)])
    #expect(bench.production.state == .halfOpen)
    #expect(await bench.verify([Self.verdict]) == nil)
  }

  @Test(arguments: [429, 503], [("20", 20), ("3600", 60)])
  func `Retry-After keeps it open, a minute at most`(_ status: Int, _ wish: (header: String, pause: Int)) async {
    await bench.openProduction(
      .body("", status: status, headers: [TransportHeader("Retry-After", wish.header)]))
    #expect(
      await bench.verify([])
        == .unavailable(.circuitOpen(.production, retryIn: .seconds(wish.pause))))
  }

  @Test func `no permit is taken for a validation without time`() async {
    await bench.openProduction()
    bench.wait(.seconds(1))
    #expect(await bench.verify([], within: .zero) == .unavailable(.deadlinePassed))
    #expect(await bench.verify([Self.verdict]) == nil)
  }

  // MARK: How much reaches Apple

  private static func budget(_ time: TestTime? = nil) -> RetryBudget {
    var configuration = RetryBudget.Configuration()
    configuration.trickle = nil
    return RetryBudget(configuration: configuration)
  }

  @Test func `without a breaker the budget alone keeps calls to 1.1 times what was asked for`() async throws {
    let time = TestTime()
    let calls = Mutex(0)
    let transport = StubTransport { _ throws(TransportError) in
      calls.withLock { $0 += 1 }
      throw .reset
    }
    let client = VerifyReceiptClient(
      transport: transport, configuration: .test, timing: time.timing(), retryBudget: Self.budget())
    for _ in 0..<1000 {
      _ = try? await client.verify("AA==", check: .passed, deadline: time.now + .seconds(10))
    }
    let made = calls.withLock { $0 }
    print("verifyReceipt: 1000 validations that all fail, \(made) calls")
    #expect((1100...1110).contains(made))
  }

  @Test func `a hop to the other store earns nothing and costs nothing`() async {
    let budget = Self.budget()
    while budget.takeRetry() {}
    let bench = Bench(budget: budget)
    for _ in 0..<9 { #expect(await bench.verify([Self.status(21007), Self.verdict]) == nil) }
    #expect(budget.retriesLeft == 0)
    #expect(await bench.verify([Self.status(21007), Self.verdict]) == nil)
    #expect(budget.retriesLeft == 1)
  }

  @Test func `validations that make no call earn no retries`() async {
    let budget = Self.budget()
    while budget.takeRetry() {}
    let bench = Bench(budget: budget)
    await bench.openProduction()
    for _ in 0..<100 { await bench.verify([]) }
    #expect(budget.retriesLeft == 0)
  }

  /// Ten minutes of trouble under 20 validations a second, then Apple is well again.
  @Test(arguments: [Step.error(.connect), status(21005), .body("<html>"), .body("", status: 503)])
  func `an outage of ten minutes costs Apple a few dozen calls, and ends within half a minute of it`(
    _ trouble: Step
  ) async throws {
    let budget = Self.budget()
    let bench = Bench(budget: budget)
    let isDown = Mutex(true)
    let calls = Mutex(0)
    let transport = StubTransport { _ throws(TransportError) in
      calls.withLock { $0 += 1 }
      guard isDown.withLock({ $0 }) else {
        return TransportResponse(status: 200, body: Array(Sample.body().utf8))
      }
      switch trouble {
      case .body(let text, let status, _): return TransportResponse(status: status, body: Array(text.utf8))
      case .error(let error): throw error
      case .stall: throw .timedOut
      }
    }
    let client = bench.client(transport)
    for _ in 0..<12_000 {
      _ = try? await client.verify("AA==", check: .passed, deadline: bench.time.now + .seconds(10))
      bench.wait(.milliseconds(50))
    }
    let during = calls.withLock { $0 }
    isDown.withLock { $0 = false }
    let end = bench.time.now
    var recovered: ContinuousClock.Instant?
    while recovered == nil, bench.time.now - end < .seconds(120) {
      if (try? await client.verify("AA==", check: .passed, deadline: bench.time.now + .seconds(10))) != nil {
        recovered = bench.time.now
      }
      bench.wait(.milliseconds(50))
    }
    let recovery = try #require(recovered) - end
    print("verifyReceipt: outage of 10 min, 12000 validations, \(during) calls, recovered after \(recovery)")
    #expect(during <= 5 + 44)
    #expect(recovery <= .seconds(30))
  }
}
