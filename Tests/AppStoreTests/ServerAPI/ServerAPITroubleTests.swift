import Entitlements
import FoundationEssentials
import Synchronization
import Testing

@testable import AppStore
@testable import HTTPTransport
@testable import Resilience

/// The client's behaviour while Apple has trouble, or has enough of us.
@Suite struct ServerAPITroubleTests {
  private let bench: Bench

  init() throws { bench = try Bench() }

  private typealias Sample = ServerAPISample
  private typealias Step = ScriptedTransport.Step

  /// One Apple for many look-ups: time, breakers, tokens and turns are shared.
  private struct Bench {
    let time = TestTime()
    let production: CircuitBreaker
    let sandbox: CircuitBreaker
    let steps = Script()
    let client: ServerAPIClient

    /// A transport whose steps come one look-up after the other.
    final class Script: Transport {
      private let current = Mutex<ScriptedTransport?>(nil)

      func begin(_ transport: ScriptedTransport) { current.withLock { $0 = transport } }

      func send(
        _ request: TransportRequest, deadline: ContinuousClock.Instant
      ) async throws(TransportError) -> TransportResponse {
        guard let transport = current.withLock({ $0 }) else { throw .other(code: -1) }
        return try await transport.send(request, deadline: deadline)
      }
    }

    init(
      budget: RetryBudget? = nil, pause: Duration = .seconds(1), timing: CallTiming? = nil,
      _ change: (inout ServerAPIClient.Configuration) -> Void = { _ in }
    ) throws {
      var breaker = CircuitBreaker.Configuration()
      breaker.pause.base = pause
      production = CircuitBreaker(configuration: breaker, now: { [time] in time.now }, jitter: { $0 })
      sandbox = CircuitBreaker(configuration: breaker, now: { [time] in time.now }, jitter: { $0 })
      var configuration = try Sample.configuration()
      configuration.callsPerSecond = [:]
      change(&configuration)
      client = ServerAPIClient(
        transport: steps, configuration: configuration, verifier: try SignedDataPKI.made.get().verifier(),
        timing: timing ?? time.timing(), breakers: [.production: production, .sandbox: sandbox], retryBudget: budget)
    }

    /// One look-up; a call beyond the steps, or a step that is not used, fails the test.
    @discardableResult func look(
      _ planned: [Step], stores: [StoreEnvironment] = [.production, .sandbox], within limit: Duration = .seconds(10)
    ) async -> (error: AppStoreError?, answer: AppStoreAnswer?) {
      let transport = ScriptedTransport(planned, time: time)
      steps.begin(transport)
      defer { #expect(transport.remaining == 0, "every planned answer is fetched") }
      do throws(AppStoreError) {
        let answer = try await client.history(
          of: "480002000000112", bundleIDs: [Sample.bundleID], stores: stores, includesOneTimePurchases: false,
          deadline: time.now + limit)
        return (nil, answer)
      } catch {
        return (error, nil)
      }
    }

    func wait(_ duration: Duration) { time.advance(to: time.now + duration) }
  }

  private static func limited(_ retryAfter: String?) -> Step {
    .body(
      #"{"errorCode":4290000,"errorMessage":"Rate limit exceeded."}"#, status: 429,
      headers: retryAfter.map { [TransportHeader("Retry-After", $0)] } ?? [])
  }

  private static func answer() throws -> Step { .body(try Sample.subscriber()) }

  // MARK: Errors

  @Test(arguments: [
    (4_040_002, 404), (4_040_004, 404), (4_040_006, 404), (5_000_000, 500), (5_000_001, 500), (5_000_777, 500),
    (5_030_000, 503),
  ])
  func `errors that Apple calls temporary are retried, and are never "not found"`(_ code: Int, _ status: Int)
    async throws
  {
    let failed = await bench.look(Array(repeating: Sample.error(code), count: 3))
    #expect(failed.error == .unavailable(appleStatus: code, httpStatus: status, .trouble))
    #expect(failed.error?.appleStatus == code)
    #expect(failed.error?.httpStatus == status)
    #expect(bench.time.pauses == [.milliseconds(100), .milliseconds(200)])
    let other = try Bench()
    #expect(await other.look([Sample.error(code), try Self.answer()]).error == nil)
  }

  @Test(arguments: [4_040_001, 4_040_003, 4_040_005, 4_040_010, 4_000_006, 4_000_008])
  func `not found has many names, and both stores are asked`(_ code: Int) async throws {
    #expect(await bench.look([Sample.error(code), Sample.error(code)]).error == .notFound)
    #expect(bench.time.pauses.isEmpty)
    #expect(bench.production.counts.opened == 0)
  }

  @Test(arguments: [4_000_001, 4_000_023, 4_030_000, 4_040_011, 4_090_000])
  func `an error that is not known is kept, and says nothing of the ID`(_ code: Int) async throws {
    #expect(
      await bench.look([Sample.error(code)]).error == .unexpected(appleStatus: code, httpStatus: code / 10_000))
  }

  @Test(arguments: [
    "", "Not Found", "<html>404</html>", "[]", "{}", #"{"errorCode":null}"#, #"{"errorCode":"soon"}"#,
    #"{"errorCode":4040010"#, #"{"errorCode":4040010,"errorCode":4040010}"#, #"{"errorCode":5000001}"#,
    #"{"errorMessage":"Transaction id not found."}"#,
  ])
  func `404 without its code is trouble, never "not found"`(_ body: String) async throws {
    let failed = await bench.look(Array(repeating: .body(body, status: 404), count: 3))
    #expect(failed.error == .unavailable(httpStatus: 404, .http(404)))
  }

  @Test func `the code of "not found" with another status is trouble`() async throws {
    for status in [200, 400, 403, 500, 503] {
      let bench = try Bench()
      let step = Step.body(#"{"errorCode":4040010}"#, status: status)
      let failed = await bench.look(Array(repeating: step, count: 3))
      guard case .unavailable? = failed.error else {
        Issue.record("\(status): \(String(describing: failed.error))")
        continue
      }
    }
  }

  @Test(arguments: [204, 301, 302, 400, 403, 500, 502, 503, 504])
  func `another status without a code is trouble`(_ status: Int) async throws {
    let failed = await bench.look(Array(repeating: .body("<html>", status: status), count: 3))
    #expect(failed.error == .unavailable(httpStatus: status, .http(status)))
  }

  @Test(arguments: [
    "", "<html>Service Unavailable</html>", "{", "[]", "{}", #"{"environment":"Production"}"#,
    #"{"environment":"Production","bundleId":"com.example.app"}"#,
    #"{"environment":"Production","bundleId":"com.example.app","data":"none"}"#,
    #"{"environment":"Production","bundleId":"com.example.app","data":[{}]}"#,
    #"{"environment":"Production","bundleId":"com.example.app","data":[{"lastTransactions":[{}]}]}"#,
    #"{"environment":"Production","bundleId":"com.example.app","data":[{"lastTransactions":[7]}]}"#,
    #"{"environment":"Production","environment":"Production","bundleId":"com.example.app","data":[]}"#,
  ])
  func `a body that is no answer is trouble`(_ body: String) async throws {
    let failed = await bench.look(Array(repeating: .body(body), count: 3))
    guard case .unavailable(appleStatus: nil, httpStatus: 200, .malformedAnswer(let place))? = failed.error else {
      Issue.record("\(String(describing: failed.error))")
      return
    }
    #expect(!place.isEmpty)
  }

  @Test(arguments: [
    (TransportError.resolve, 3), (.connect, 3), (.reset, 3), (.protocolViolation("x"), 3), (.other(code: 92), 3),
    (.tls("expired"), 1), (.timedOut, 1), (.tooLarge(limit: 8), 1), (.invalidRequest("x"), 1), (.shutDown, 1),
  ])
  func `a failure of the transport is retried where that can help`(_ error: TransportError, _ calls: Int) async throws {
    #expect(
      await bench.look(Array(repeating: .error(error), count: calls)).error == .unavailable(.noAnswer(error)))
  }

  @Test func `overload and cancellation are named as what they are`() async throws {
    #expect(await (try Bench()).look([.error(.overloaded)]).error == .overloaded)
    #expect(await (try Bench()).look([.error(.cancelled)]).error == .cancelled)
  }

  @Test func `nothing is sent after the deadline, and no pause is begun that would outlast it`() async throws {
    #expect(await bench.look([], within: .zero).error == .unavailable(.deadlinePassed))
    #expect(
      await bench.look([Sample.error(5_000_001)], within: .milliseconds(100)).error
        == .unavailable(appleStatus: 5_000_001, httpStatus: 500, .trouble))
    #expect(bench.time.pauses.isEmpty)
  }

  @Test func `a spent retry budget allows the first call, the hop and the fresh token`() async throws {
    let sandbox = Step.body(try Sample.subscriber(environment: "Sandbox"))
    #expect(await (try Bench(budget: .spent())).look([Sample.notFound, sandbox]).error == nil)
    #expect(await (try Bench(budget: .spent())).look([.body("", status: 401), try Self.answer()]).error == nil)
    #expect(
      await (try Bench(budget: .spent())).look([Sample.error(5_000_001)]).error
        == .unavailable(appleStatus: 5_000_001, httpStatus: 500, .trouble))
  }

  @Test func `503 is not repeated before Retry-After`() async throws {
    let busy = Step.body("", status: 503, headers: [TransportHeader("Retry-After", "3")])
    #expect(await bench.look([busy, try Self.answer()]).error == nil)
    #expect(bench.time.pauses == [.seconds(3)])
  }

  // MARK: The rate limit

  /// The clock of the tests stands at 1718452800 (2024-06-15 12:00:00 UTC).
  @Test(arguments: [
    ("1718452860000", Duration.seconds(60)), ("1718452800500", .seconds(1)), ("1718452700000", .seconds(1)),
    ("1718452860", .seconds(60)), ("60", .seconds(60)), ("4102444800000", .seconds(86_400)), ("soon", .seconds(30)),
    ("-1", .seconds(30)),
  ])
  func `after 429 a store is left alone until the moment that Apple names`(
    _ value: String, _ pause: Duration
  ) async throws {
    #expect(
      await bench.look([Self.limited(value)]).error
        == .unavailable(appleStatus: 4_290_000, httpStatus: 429, .rateLimited(retryAfter: pause)))
    #expect(await bench.look([]).error == .unavailable(.rateLimited(retryAfter: pause)))
    bench.wait(pause - .milliseconds(1))
    #expect(await bench.look([]).error == .unavailable(.rateLimited(retryAfter: .milliseconds(1))))
    #expect(bench.client.isClosed(.production) && !bench.client.isClosed(.sandbox))
    bench.wait(.milliseconds(1))
    #expect(!bench.client.isClosed(.production))
    #expect(await bench.look([try Self.answer()]).error == nil)
    #expect(bench.time.pauses.isEmpty)
  }

  @Test func `429 closes one store, also without a header or a body`() async throws {
    #expect(
      await bench.look([.body("", status: 429)]).error
        == .unavailable(httpStatus: 429, .rateLimited(retryAfter: .seconds(30))))
    let sandbox = Step.body(try Sample.subscriber(environment: "Sandbox"))
    #expect(await bench.look([sandbox], stores: [.sandbox]).error == nil)
    #expect(await bench.look([], stores: [.production]).error != nil)
  }

  @Test func `429 is no fault for the breaker`() async throws {
    for _ in 0..<20 {
      await bench.look([Self.limited("1")])
      bench.wait(.seconds(1))
    }
    #expect(bench.production.counts.opened == 0)
    #expect(await bench.look([try Self.answer()]).error == nil)
  }

  @Test func `calls keep to the rate that Apple allows, store by store`() async throws {
    let bench = try Bench { $0.callsPerSecond = [.production: 10, .sandbox: 1] }
    let start = bench.time.now
    for _ in 0..<22 { #expect(await bench.look([try Self.answer()]).error == nil) }
    // Two at once, then one every tenth of a second.
    #expect(bench.time.now - start == .seconds(2))
    let sandbox = Step.body(try Sample.subscriber(environment: "Sandbox"))
    for _ in 0..<3 { #expect(await bench.look([sandbox], stores: [.sandbox]).error == nil) }
    #expect(bench.time.now - start == .seconds(4))
  }

  @Test func `a call that waits for a turn while another is told to stop is told so too`() async throws {
    let time = TestTime()
    let transport = ScriptedTransport([try Self.answer(), Self.limited("60")], time: time)
    let waiting = Mutex<ServerAPIClient?>(nil)
    var timing = time.timing()
    timing.sleep = { pause in
      time.advance(to: time.now + pause)
      // Another kind of call has its own turns.
      _ = try? await waiting.withLock { $0 }?.transaction(
        "1", bundleIDs: [Sample.bundleID], deadline: time.now + .seconds(10))
    }
    var configuration = try Sample.configuration()
    configuration.callsPerSecond = [.production: 1]
    let client = ServerAPIClient(
      transport: transport, configuration: configuration, verifier: try SignedDataPKI.made.get().verifier(),
      timing: timing)
    waiting.withLock { $0 = client }
    func look() async throws(AppStoreError) {
      _ = try await client.history(
        of: "1", bundleIDs: [Sample.bundleID], includesOneTimePurchases: false, deadline: time.now + .seconds(10))
    }
    try await look()
    await #expect(throws: AppStoreError.unavailable(.rateLimited(retryAfter: .seconds(60)))) { try await look() }
    #expect(transport.remaining == 0)
  }

  @Test func `a turn that would come after the deadline is overload, and is left to others`() async throws {
    let bench = try Bench { $0.callsPerSecond = [.production: 1] }
    #expect(await bench.look([try Self.answer()]).error == nil)
    for _ in 0..<5 { #expect(await bench.look([], within: .milliseconds(500)).error == .overloaded) }
    #expect(await bench.look([try Self.answer()], within: .milliseconds(1001)).error == nil)
  }

  // MARK: The breaker

  /// A step, and what it says of Apple.
  private static func health() throws -> [(Step, CircuitBreaker.Outcome)] {
    [
      (try answer(), .success),
      (.body(Sample.statuses([], bundle: "com.example.stranger")), .success),
      (Sample.notFound, .success),
      (Sample.error(4_000_006), .success),
      (.body("", status: 401), .success),
      (Sample.error(4_040_002), .neutral),
      (Sample.error(4_000_001), .neutral),
      (.body("", status: 404), .neutral),
      (.body("", status: 429), .neutral),
      (Sample.error(5_000_000), .failure()),
      (Sample.error(5_000_001), .failure()),
      (.body("", status: 503), .failure()),
      (.body("", status: 301), .failure()),
      (.body("<html>"), .failure()),
      (.body("{}"), .failure()),
      (.body(#"{"environment":[]}"#), .neutral),
      (.error(.connect), .failure()),
      (.stall, .failure()),
      (.error(.tooLarge(limit: 8)), .neutral),
      (.error(.overloaded), .neutral),
    ]
  }

  @Test func `each outcome is counted for what it says about Apple`() async throws {
    for (index, (step, expected)) in try Self.health().enumerated() {
      // Four failures: one more opens it, a success resets it, silence leaves it as it is.
      let bench = try Bench { $0.retry.attempts = 1 }
      func one(_ step: Step) async {
        if case .body(_, status: 401, _) = step {
          await bench.look([step, step], stores: [.production])
        } else {
          await bench.look([step], stores: [.production])
        }
      }
      for _ in 0..<4 { await one(.error(.connect)) }
      bench.wait(.seconds(60))
      await one(step)
      if case .failure = expected {
        #expect(bench.production.state == .open, "\(index)")
        continue
      }
      #expect(bench.production.state == .closed, "\(index)")
      bench.wait(.seconds(60))
      await one(.error(.connect))
      #expect((bench.production.state == .open) == (expected == .neutral), "\(index)")
    }
  }

  @Test func `an open breaker calls nothing, and each store has its own`() async throws {
    let bench = try Bench { $0.retry.attempts = 1 }
    for _ in 0..<5 { await bench.look([Sample.notFound, .error(.connect)]) }
    #expect(bench.sandbox.state == .open)
    #expect(bench.production.state == .closed)
    #expect(
      await bench.look([Sample.notFound]).error
        == .unavailable(.circuitOpen(.sandbox, retryIn: .seconds(1))))
    #expect(await bench.look([try Self.answer()]).error == nil)
  }

  @Test func `one look-up that Apple never answers counts once, however often the call is repeated`() async throws {
    let bench = try Bench { $0.retry.attempts = 5 }
    for _ in 0..<4 {
      await bench.look(Array(repeating: Sample.error(5_000_001), count: 5))
      #expect(bench.production.state == .closed)
    }
    // The fifth opens it, and is not repeated; it ends as it failed, without a pause.
    let pauses = bench.time.pauses.count
    #expect(
      await bench.look([Sample.error(5_000_001)]).error
        == .unavailable(appleStatus: 5_000_001, httpStatus: 500, .trouble))
    #expect(bench.production.state == .open)
    #expect(bench.time.pauses.count == pauses)
  }

  @Test func `a probe that gets no turn in time leaves its place to the next call`() async throws {
    let bench = try Bench(pause: .milliseconds(500)) {
      $0.retry.attempts = 1
      $0.callsPerSecond = [.production: 1]
    }
    for _ in 0..<5 { await bench.look([.error(.connect)]) }
    #expect(bench.production.state == .open)
    // Half a second later the store may be tried, and half a second after that it is our turn.
    bench.wait(.milliseconds(500))
    #expect(await bench.look([], within: .milliseconds(100)).error == .overloaded)
    #expect(bench.production.state == .halfOpen)
    #expect(await bench.look([try Self.answer()]).error == nil)
    #expect(bench.production.state == .closed)
  }

  // MARK: Cancellation

  @Test(.timeLimit(.minutes(10))) func `cancelling the task ends the wait for a turn`() async throws {
    let time = TestTime()
    let (pauses, paused) = AsyncStream<Void>.makeStream()
    var timing = time.timing()
    timing.sleep = { _ in
      paused.yield()
      let never = AsyncStream<Void> { _ in }
      for await _ in never {}
      try Task.checkCancellation()
    }
    let bench = try Bench(timing: timing) { $0.callsPerSecond = [.production: 1] }
    #expect(await bench.look([try Self.answer()]).error == nil)
    let task = Task { await bench.look([]).error }
    var iterator = pauses.makeAsyncIterator()
    await iterator.next()
    task.cancel()
    #expect(await task.value == .cancelled)
  }
}
