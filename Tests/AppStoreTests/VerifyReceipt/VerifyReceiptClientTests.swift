import Entitlements
import FoundationEssentials
import Synchronization
import Testing

@testable import AppStore
@testable import HTTPTransport
@testable import JSON
@testable import Resilience

@Suite struct VerifyReceiptClientTests {
  private typealias Outcome = Result<AppStoreAnswer, AppStoreError>

  /// One validation, with its calls.
  private struct Run {
    var outcome: Outcome
    var transport: ScriptedTransport
    var time: TestTime
    var observed: [VerifyReceiptAttempt]

    /// The stores that were called: `p` and `s`, in order.
    var stores: String { String(transport.calls.map { $0.url.contains("sandbox") ? "s" : "p" }) }
    var error: AppStoreError? { if case .failure(let error) = outcome { error } else { nil } }
    var answer: AppStoreAnswer? { try? outcome.get() }
  }

  private func run(
    _ steps: [ScriptedTransport.Step], deadline: Duration = .seconds(10), jitter: Double = 1,
    startingWith first: StoreEnvironment = .production, retryBudget: RetryBudget? = nil,
    check: SignatureCheck = .impossible, retriesTrouble: Bool = true
  ) async -> Run {
    let time = TestTime()
    let transport = ScriptedTransport(steps, time: time)
    let observed = Mutex<[VerifyReceiptAttempt]>([])
    let client = VerifyReceiptClient(
      transport: transport, configuration: .test, timing: time.timing(jitter: jitter), retryBudget: retryBudget,
      observe: { attempt in observed.withLock { $0.append(attempt) } })
    let outcome: Outcome
    do {
      outcome = .success(
        try await client.verify(
          "AA==", check: check, retriesTrouble: retriesTrouble, startingWith: first,
          deadline: time.start.advanced(by: deadline)))
    } catch {
      outcome = .failure(error)
    }
    #expect(transport.remaining == 0, "every planned answer is fetched")
    return Run(outcome: outcome, transport: transport, time: time, observed: observed.withLock { $0 })
  }

  private static func status(_ code: Int) -> ScriptedTransport.Step { .body(#"{"status":\#(code)}"#) }

  // MARK: The request

  @Test func `the request is one JSON object with receipt, secret and exclude-old-transactions`() async throws {
    let run = await run([.body(Sample.body())])
    let call = try #require(run.transport.calls.first?.request)
    #expect(call.method == .post)
    #expect(call.url == "https://buy.example/verifyReceipt")
    #expect(call.headers == [TransportHeader("Content-Type", "application/json")])
    #expect(call.responseBodyLimit == 8 * 1024 * 1024)
    #expect(
      String(decoding: call.body, as: UTF8.self)
        == #"{"receipt-data":"AA==","password":"s3cr\"et","exclude-old-transactions":true}"#)
  }

  @Test(arguments: ["plain", "quote\" back\\slash", "line\nfeed\ttab\u{1}\u{1f}", "ünïcode 🧾", ""])
  func `every character of the secret arrives as it is`(_ secret: String) throws {
    let request = VerifyReceiptRequest(receipt: "+/AA==", sharedSecret: Secret(secret), answerLimit: 1)
    let root = try JSONDocument(request.transportRequest(to: "https://x").body).root
    #expect(try (root.text("password") ?? "") == secret)
    #expect(try root.text("receipt-data") == "+/AA==")
    #expect(try root.flag("exclude-old-transactions") == true)
  }

  // MARK: Verdicts

  @Test func `status 0 is a verdict`() async throws {
    let run = await run([.body(Sample.body())])
    let answer = try #require(run.answer)
    #expect(answer.history.environment == .production)
    #expect(answer.appleStatus == .valid)
    #expect(answer.bundleID == "com.example.app")
    #expect(answer.history.purchases.count == 1)
    #expect(run.observed == [.init(environment: .production, outcome: .status(0), duration: .zero)])
    #expect(!answer.history.isAccountGone)
  }

  @Test func `21006 is a verdict`() async throws {
    let run = await run([.body(#"{"status":21006,"latest_expired_receipt_info":\#(Sample.transaction)}"#)])
    #expect(run.answer?.appleStatus == .expired)
    #expect(run.answer?.history.purchases.count == 1)
  }

  @Test(arguments: [
    ([TransportHeader("date", "Fri, 05 Oct 2018 11:24:18 GMT")], moment(1_538_738_658_000)),
    ([TransportHeader("Date", "soon")], TestTime.date), ([], TestTime.date),
  ])
  func `21010 says that the account is gone, at the time of the HTTP answer`(
    _ headers: [TransportHeader], _ evidence: Date
  ) async throws {
    let run = await run([.body(#"{"status":21010}"#, headers: headers)])
    let answer = try #require(run.answer)
    #expect(answer.appleStatus == .accountGone)
    #expect(answer.history.isAccountGone)
    #expect(answer.history.purchases.isEmpty)
    #expect(answer.history.evidenceTime == evidence)
  }

  @Test func `the content type of an answer does not matter`() async {
    let headers = [TransportHeader("Content-Type", "text/html")]
    #expect(await run([.body(Sample.body(), headers: headers)]).answer != nil)
  }

  // MARK: The two stores

  @Test func `a sandbox receipt is sent on to the sandbox on 21007`() async throws {
    let run = await run([Self.status(21007), .body(Sample.body(environment: "Sandbox"))])
    #expect(run.stores == "ps")
    #expect(run.answer?.history.environment == .sandbox)
    #expect(run.observed.map(\.outcome) == [.status(21007), .status(0)])
    #expect(run.time.pauses.isEmpty)
  }

  @Test func `a receipt first asked about at the sandbox goes to production on 21008`() async {
    let run = await run([Self.status(21008), .body(Sample.body())], startingWith: .sandbox)
    #expect(run.stores == "sp")
    #expect(run.answer?.history.environment == .production)
  }

  @Test(arguments: [
    ([21007, 21007], "ps", 21007), ([21007, 21008], "ps", 21008), ([21008], "p", 21008),
  ])
  func `a receipt that each store sends to the other makes no ping-pong`(_ codes: [Int], _ stores: String, _ last: Int)
    async
  {
    let run = await run(codes.map(Self.status))
    #expect(run.stores == stores)
    #expect(run.error == .unavailable(appleStatus: last, .misrouted))
  }

  @Test func `a validation that begins at the sandbox plays no ping-pong either`() async {
    let run = await run([Self.status(21008), Self.status(21007)], startingWith: .sandbox)
    #expect(run.stores == "sp")
    #expect(run.error == .unavailable(appleStatus: 21007, .misrouted))
  }

  @Test(arguments: [21000, 21001, 21002, 21003, 21004, 21005, 21006, 21009, 21100, 5, -1, 22000])
  func `no other status sends a receipt to the other store`(_ code: Int) async {
    let run = await run(Array(repeating: Self.status(code), count: Self.expectedCalls(code)))
    #expect(Set(run.stores) == ["p"])
  }

  private static func expectedCalls(_ code: Int) -> Int {
    switch code {
    case 21005, 21006, 21009, 21100...21199: 3
    case 21002, 21003: 2
    default: 1
    }
  }

  // MARK: Statuses that are no verdict

  @Test(arguments: [
    (21000, 1, AppStoreError.unexpected(appleStatus: 21000)),
    (21001, 1, .unexpected(appleStatus: 21001)),
    (21002, 2, .unavailable(appleStatus: 21002, .trouble)),
    (21003, 2, .notAuthentic),
    (21004, 1, .sharedSecretRejected),
    (21005, 3, .unavailable(appleStatus: 21005, .trouble)),
    (21009, 3, .unavailable(appleStatus: 21009, .trouble)),
    (21011, 1, .unexpected(appleStatus: 21011)),
    (21099, 1, .unexpected(appleStatus: 21099)),
    (21100, 3, .unavailable(appleStatus: 21100, .trouble)),
    (21199, 3, .unavailable(appleStatus: 21199, .trouble)),
    (21200, 1, .unexpected(appleStatus: 21200)),
    (1, 1, .unexpected(appleStatus: 1)),
    (-1, 1, .unexpected(appleStatus: -1)),
  ])
  func `each status is retried as often as it helps and then named`(
    _ code: Int, _ calls: Int, _ error: AppStoreError
  ) async {
    let run = await run(Array(repeating: Self.status(code), count: calls))
    #expect(run.error == error)
    #expect(run.error?.appleStatus == code)
    #expect(run.observed.map(\.outcome) == Array(repeating: .status(code), count: calls))
  }

  @Test(arguments: [
    ("false", 1), (#""0""#, 1), (#""false""#, 1), ("0", 1), ("true", 3), (#""1""#, 3), (#""?""#, 3), ("null", 3),
  ])
  func `21100 to 21199 are not retried if Apple says that it does not help`(_ retryable: String, _ calls: Int) async {
    let step = ScriptedTransport.Step.body(#"{"status":21150,"is-retryable":\#(retryable)}"#)
    let run = await run(Array(repeating: step, count: calls))
    #expect(run.error == .unavailable(appleStatus: 21150, .trouble))
  }

  @Test(arguments: [21002, 21003, 21005, 21009, 21123])
  func `trouble that passes leaves no trace but the attempts`(_ code: Int) async {
    let run = await run([Self.status(code), .body(Sample.body())])
    #expect(run.answer?.appleStatus == .valid)
    #expect(run.observed.map(\.outcome) == [.status(code), .status(0)])
  }

  @Test(arguments: [SignatureCheck.passed, .impossible])
  func `not authentic is said only after Apple has said it twice`(_ check: SignatureCheck) async {
    #expect(await run([Self.status(21003), .body(Sample.body())], check: check).answer != nil)
    let twice = await run([Self.status(21003), Self.status(21003)], check: check)
    #expect(twice.error == .notAuthentic)
    let mixed = await run([Self.status(21003), Self.status(21005), Self.status(21003)], check: check)
    #expect(mixed.error == .notAuthentic)
  }

  @Test func `not authentic is final at once where our own check failed too`() async {
    let run = await run([Self.status(21003)], check: .failed)
    #expect(run.error == .notAuthentic)
    #expect(run.time.pauses.isEmpty)
    // Apple has the last word: what it takes is taken.
    #expect(await self.run([.body(Sample.body())], check: .failed).answer != nil)
  }

  private static let silences: [[ScriptedTransport.Step]] = [
    [.stall], [.error(.connect), .error(.connect)], [.error(.tls("expired"))], [.body("<html>"), .body("")],
    [.body("", status: 503), .body("", status: 500)], [.body("", status: 413), .body("", status: 413)],
    [status(21005), status(21005)], [status(21002), status(21002)],
    [status(21150), .stall], [status(29999)], [status(21004)],
  ]

  /// An outage that comes between two questions must not be taken for one in which Apple has said nothing.
  @Test(arguments: silences)
  func `refused once and not answered again is doubtful, however Apple fails`(
    _ silence: [ScriptedTransport.Step]
  ) async {
    let run = await run([Self.status(21003)] + silence, check: .passed)
    #expect(run.error == .doubtful)
    #expect(run.error?.mayBeProvoked == true)
  }

  @Test func `refused once with no time or no attempt left is doubtful`() async {
    let late = await run([Self.status(21003)], deadline: .milliseconds(100), check: .passed)
    #expect(late.error == .doubtful)
    let last = await run([Self.status(21005), Self.status(21005), Self.status(21003)], check: .passed)
    #expect(last.error == .doubtful)
  }

  @Test func `answers that a submission can provoke are asked for again without a token`() async {
    for code in [21002, 21003] {
      let run = await run([Self.status(code), .body(Sample.body())], retryBudget: .spent(), check: .passed)
      #expect(run.answer != nil, "\(code)")
    }
    let refused = await run([.body("", status: 413), .body("", status: 413)], retryBudget: .spent(), check: .passed)
    #expect(refused.error == .unavailable(.receiptRefused(httpStatus: 413)))
    let both = await run(
      [Self.status(21002), Self.status(21003), Self.status(21003)], retryBudget: .spent(), check: .passed)
    #expect(both.error == .notAuthentic)
    // And not more than once.
    let malformed = await run([Self.status(21002), Self.status(21002)], check: .passed)
    #expect(malformed.error == .unavailable(appleStatus: 21002, .trouble))
    #expect(malformed.error?.mayBeProvoked == true)
  }

  @Test func `where nobody waits trouble is not retried, and a refusal still asked about twice`() async {
    let budget = RetryBudget()
    let before = budget.retriesLeft
    for step in [Self.status(21005), Self.status(21009), .body("", status: 503), .error(.reset), .body("<html>")] {
      let run = await run([step], retryBudget: budget, retriesTrouble: false)
      #expect(run.time.pauses.isEmpty)
    }
    let refused = await run([Self.status(21003), Self.status(21003)], retryBudget: budget, retriesTrouble: false)
    #expect(refused.error == .notAuthentic)
    #expect(budget.retriesLeft == before)
  }

  @Test(arguments: [
    (AppStoreError.unavailable(.receiptRefused(httpStatus: 413)), true),
    (.unavailable(.receiptRefused(httpStatus: 400)), true),
    (.unavailable(.http(429)), false),
    (.unavailable(.http(503)), false),
    (.unavailable(appleStatus: 21005, .trouble), false),
    (.unavailable(appleStatus: 21009, .trouble), false),
    (.unavailable(.noAnswer(.timedOut)), false),
    (.sharedSecretRejected, false), (.unexpected(appleStatus: 21000), false), (.overloaded, false), (.cancelled, false),
    // The Server API is asked about a transaction ID, and its 4xx are nobody's bytes.
    (.unavailable(httpStatus: 404, .http(404)), false),
    (.unavailable(appleStatus: 4_040_002, httpStatus: 404, .trouble), false),
    (.invalidAnswer("x"), false), (.notFound, false), (.keyRejected, false),
  ])
  func `only what the bytes that were sent can bring about may be provoked`(
    _ error: AppStoreError, _ mayBe: Bool
  ) {
    #expect(error.mayBeProvoked == mayBe)
  }

  @Test func `each store has its own attempts`() async {
    let run = await run(
      [Self.status(21005), Self.status(21005), Self.status(21007)] + Array(repeating: Self.status(21005), count: 3))
    #expect(run.stores == "pppsss")
    #expect(run.error == .unavailable(appleStatus: 21005, .trouble))
  }

  // MARK: What is no answer

  @Test(arguments: [
    "", " ", "<html>Service Unavailable</html>", "{", #"{"status":0"#, "[]", "0", "null", "{}",
    #"{"status":"zero"}"#, #"{"status":0.5}"#, #"{"status":0}"#, #"{"status":0,"receipt":null}"#,
    #"{"status":0,"status":0}"#, #"{"status":21010,"status":0}"#, #"{"status":21010}x"#, #"{"status":21010,}"#,
    Sample.body(latest: #""nothing""#), Sample.body(latest: "[{}]"),
    Sample.body().replacingOnce("1719792000000", with: "l719792000000"),
  ])
  func `a body that is no answer is trouble, never a verdict`(_ body: String) async {
    let run = await run(Array(repeating: .body(body), count: 3))
    guard case .unavailable(appleStatus: nil, httpStatus: nil, .malformedAnswer(let place)) = run.error else {
      Issue.record("\(run.outcome)")
      return
    }
    #expect(!place.isEmpty)
    #expect(run.time.pauses.count == 2)
  }

  @Test func `an integer beyond 64 bits spoils no answer that does not need it, and an ID is exact`() async {
    let large = "18446744073709551616"
    let body = Sample.body().replacing("500000000000001234", with: large)
      .replacing(#""480002000000113""#, with: large)
    let answered = await run([.body(body)])
    #expect(answered.answer?.history.purchases.map(\.webOrderLineItemID) == [large])
    let undated = Sample.body().replacing(#""1719792000000""#, with: large)
    for body in [undated, #"{"status":\#(large)}"#] {
      let run = await run(Array(repeating: .body(body), count: 3))
      #expect(run.answer == nil && run.error != nil)
    }
  }

  @Test(arguments: [204, 301, 302, 400, 403, 404, 500, 502, 503, 504])
  func `another HTTP status is trouble whatever its body says`(_ status: Int) async {
    // 4xx may be about what was sent: more than two calls are not worth it.
    let calls = (400...499).contains(status) ? 2 : 3
    let run = await run(Array(repeating: .body(#"{"status":21010}"#, status: status), count: calls))
    let reason = calls == 2 ? Unavailability.receiptRefused(httpStatus: status) : .http(status)
    #expect(run.error == .unavailable(reason))
    #expect(run.stores == String(repeating: "p", count: calls))
  }

  @Test(arguments: [
    (TransportError.resolve, 3), (.connect, 3), (.reset, 3), (.protocolViolation("x"), 3), (.other(code: 92), 3),
    (.tls("expired"), 1), (.timedOut, 1), (.tooLarge(limit: 8), 1), (.invalidRequest("x"), 1), (.shutDown, 1),
  ])
  func `a failure of the transport is retried where that can help`(_ error: TransportError, _ calls: Int) async {
    let run = await run(Array(repeating: .error(error), count: calls))
    #expect(run.error == .unavailable(.noAnswer(error)))
    #expect(run.observed.map(\.outcome) == Array(repeating: .transport(error), count: calls))
  }

  @Test func `overload and cancellation are named as what they are`() async {
    #expect(await run([.error(.overloaded)]).error == .overloaded)
    #expect(await run([.error(.cancelled)]).error == .cancelled)
    #expect(await run([Self.status(21005), .error(.overloaded)]).error == .overloaded)
  }

  // MARK: Time

  @Test func `pauses double from 100 ms, jitter draws from the whole range`() async {
    let full = await run(Array(repeating: Self.status(21005), count: 3))
    #expect(full.time.pauses == [.milliseconds(100), .milliseconds(200)])
    let none = await run(Array(repeating: Self.status(21005), count: 3), jitter: 0)
    #expect(none.time.pauses == [.zero, .zero])
  }

  @Test func `pauses never exceed the cap`() {
    let policy = RetryPolicy()
    #expect((1...8).map(policy.ceiling) == [0, 100, 200, 400, 800, 1600, 2000, 2000].map { .milliseconds($0) })
    #expect(policy.ceiling(before: .max) == .seconds(2))
  }

  @Test func `a pause that would outlast the deadline is not begun`() async {
    let run = await run([Self.status(21005)], deadline: .milliseconds(100))
    #expect(run.error == .unavailable(appleStatus: 21005, .trouble))
    #expect(run.time.pauses.isEmpty)
  }

  @Test func `a stalled attempt takes the rest of the time and is not repeated`() async {
    let run = await run([Self.status(21005), .stall])
    #expect(run.error == .unavailable(.noAnswer(.timedOut)))
    #expect(run.time.now == run.time.start.advanced(by: .seconds(10)))
  }

  @Test func `nothing is sent after the deadline`() async {
    let run = await run([], deadline: .zero)
    #expect(run.error == .unavailable(.deadlinePassed))
    #expect(run.transport.calls.isEmpty)
  }

  @Test(arguments: [
    ("3", Duration.seconds(3)), ("0", .milliseconds(100)), ("Sat, 15 Jun 2024 12:00:02 GMT", .seconds(2)),
    ("Fri, 14 Jun 2024 12:00:02 GMT", .milliseconds(100)), ("-5", .milliseconds(100)), ("soon", .milliseconds(100)),
  ])
  func `429 is not repeated before Retry-After`(_ value: String, _ pause: Duration) async {
    let limited = ScriptedTransport.Step.body("", status: 429, headers: [TransportHeader("retry-after", value)])
    let run = await run([limited, .body(Sample.body())])
    #expect(run.answer != nil)
    #expect(run.time.pauses == [pause])
  }

  @Test(arguments: ["10", "86400", "99999999999999999", "Sat, 15 Jun 2124 12:00:00 GMT"])
  func `429 with a Retry-After past the deadline ends at once`(_ value: String) async {
    let run = await run([.body("", status: 429, headers: [TransportHeader("Retry-After", value)])])
    guard case .unavailable(nil, nil, .rateLimited(let retryAfter?)) = run.error else {
      Issue.record("\(run.outcome)")
      return
    }
    #expect((.seconds(10)...(.seconds(86_400))).contains(retryAfter))
    #expect(run.time.pauses.isEmpty)
  }

  @Test func `429 without Retry-After is retried like other trouble`() async {
    let run = await run(Array(repeating: .body("", status: 429), count: 3))
    #expect(run.error == .unavailable(.rateLimited(retryAfter: nil)))
    #expect(run.time.pauses == [.milliseconds(100), .milliseconds(200)])
  }

  @Test func `a spent retry budget allows the first attempt and the hop to the other store`() async {
    let hop = await run([Self.status(21007), .body(Sample.body())], retryBudget: .spent())
    #expect(hop.answer != nil)
    let trouble = await run([Self.status(21005)], retryBudget: .spent())
    #expect(trouble.error == .unavailable(appleStatus: 21005, .trouble))
  }

  // MARK: Cancellation

  /// Answers nothing until the task is cancelled.
  private struct SilentTransport: Transport {
    let called: AsyncStream<Void>.Continuation

    func send(
      _ request: TransportRequest, deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> TransportResponse {
      called.yield()
      let never = AsyncStream<Void> { _ in }
      for await _ in never {}
      throw .cancelled
    }
  }

  @Test(.timeLimit(.minutes(10))) func `cancelling the task ends a call in flight`() async {
    let (calls, called) = AsyncStream<Void>.makeStream()
    let client = VerifyReceiptClient(transport: SilentTransport(called: called), configuration: .test)
    let task = Task {
      await #expect(throws: AppStoreError.self) {
        try await client.verify("AA==", deadline: .now.advanced(by: .seconds(600)))
      }
    }
    var iterator = calls.makeAsyncIterator()
    await iterator.next()
    task.cancel()
    #expect(await task.value == .cancelled)
  }

  @Test(.timeLimit(.minutes(10))) func `cancelling the task ends a pause between attempts`() async {
    let time = TestTime()
    let transport = ScriptedTransport([Self.status(21005)], time: time)
    let (pauses, paused) = AsyncStream<Void>.makeStream()
    var timing = time.timing()
    timing.sleep = { _ in
      paused.yield()
      let never = AsyncStream<Void> { _ in }
      for await _ in never {}
      try Task.checkCancellation()
    }
    let client = VerifyReceiptClient(transport: transport, configuration: .test, timing: timing)
    let deadline = time.start.advanced(by: .seconds(10))
    let task = Task {
      await #expect(throws: AppStoreError.self) { try await client.verify("AA==", deadline: deadline) }
    }
    var iterator = pauses.makeAsyncIterator()
    await iterator.next()
    task.cancel()
    #expect(await task.value == .cancelled)
    #expect(transport.calls.count == 1)
  }

  @Test func `an error or an attempt shows no receipt and no secret`() async {
    let secret = "c4n4ry-s3cret"
    let body = Sample.body().replacingOnce("1719792000000", with: secret)
    let run = await run(Array(repeating: .body(body), count: 3))
    #expect(!"\(String(describing: run.error)) \(run.observed)".contains(secret))
    #expect(
      run.error
        == .unavailable(.malformedAnswer("receipt.in_app[0].expires_date_ms cannot be read"))
        || run.error
          == .unavailable(.malformedAnswer("latest_receipt_info[0].expires_date_ms cannot be read"))
    )
  }
}
