import CountersignAPI
import Foundation
import Testing

@testable import CountersignClient

/// A service that is slow, away or busy, and what is asked of it besides purchases.
@Suite struct ServiceTests {
  private let bench = Bench()

  @Test func `many callers share one request`() async throws {
    let client = bench.client()
    bench.service.hold("token")
    let calls = (0..<100).map { _ in Task { try await client.refresh() } }
    #expect(await eventually { bench.service.heldCount == 1 })
    for _ in 0..<1000 { await Task.yield() }
    bench.service.release()
    for call in calls { #expect(try await call.value.access?.tier == "free") }
    #expect(bench.service.requests.count == 1)
  }

  @Test func `a variant is what the service says, and what the user saw is reported`() async throws {
    let client = bench.client()
    #expect(try await client.variant(of: "headline") == "family")
    #expect(try await client.variant(of: "unheard_of") == nil)
    try await client.noteExposure(to: "savings", of: "headline")
    #expect(try await client.variant(of: "headline") == "savings")
    #expect(bench.service.events.map(\.type) == ["experiment_exposed"])
    #expect(bench.service.events.first?.properties == ["experiment": "headline", "variant": "savings"])

    bench.service.fail("access", .unreachable)
    await #expect(throws: CountersignError.later(retryAfter: nil)) { try await client.variant(of: "headline") }
    bench.service.fail("events", .page(200))
    await #expect(throws: CountersignError.later(retryAfter: nil)) {
      try await client.noteExposure(to: "savings", of: "headline")
    }
    await client.signOut()
    await #expect(throws: CountersignError.signedOut) { try await client.variant(of: "headline") }
    await #expect(throws: CountersignError.signedOut) {
      try await client.noteExposure(to: "savings", of: "headline")
    }
  }

  @Test func `each request says which client it is of`() async throws {
    let client = bench.client()
    try await client.refresh()
    _ = try await client.profile()
    #expect(
      bench.service.requests.map { $0.headers["Countersign-Client"] }
        == bench.service.requests.map { _ in "swift/\(CountersignClient.version)" })
    #expect(bench.service.requests.count == 3)
  }

  @Test func `a started client posts again after the time that the service named`() async throws {
    bench.store.leaveUnfinished(bench.sale())
    bench.service.fail("validations", .problem(429, "rate_limited", retryable: true, retryAfter: "30"))
    let client = bench.client()
    await client.start()
    #expect(bench.errors.withLock { $0 } == [.later(retryAfter: 30)])
    let end = bench.clock.now + 30
    #expect(await eventually { bench.clock.isSleeping(until: end) })
    bench.clock.advance(by: 30)
    #expect(await eventually { client.state.access?.tier == "pro" })
    #expect(bench.store.openCount == 0)
    await client.signOut()
  }

  @Test(arguments: ["0", "-5", "Thu, 15 Jan 2026 11:59:00 GMT"])
  func `a time that is over already is not one to come at once`(_ header: String) async throws {
    bench.store.leaveUnfinished(bench.sale())
    bench.service.fail("validations", .problem(503, "overloaded", retryable: true, retryAfter: header))
    let client = bench.client()
    await client.start()
    // The next attempt, and the next look at the clock.
    #expect(await eventually { bench.clock.slept.count >= 2 })
    #expect((3.75...6.25).contains(try #require(bench.clock.slept.min())))
    #expect(bench.service.requests("POST /v1/validations").count == 1)
    await client.signOut()
  }

  @Test func `without a time it comes again after 5 seconds, doubled up to 10 minutes`() async throws {
    bench.service.fail("token", .unreachable, times: 9)
    let client = bench.client()
    await client.start()
    for (index, expected) in [5, 10, 20, 40, 80, 160, 320, 600, 600].enumerated() as EnumeratedSequence<[Double]> {
      #expect(await eventually { bench.clock.slept.count == index + 1 })
      let slept = bench.clock.slept[index]
      #expect((0.75 * expected...1.25 * expected).contains(slept))
      let end = bench.clock.now + slept
      #expect(await eventually { bench.clock.isSleeping(until: end) })
      bench.clock.advance(by: slept)
    }
    #expect(await eventually { client.state.access?.tier == "free" })
    // A success begins anew.
    bench.service.fail("token", .unreachable)
    #expect(await failure { try await client.refresh() } == .later(retryAfter: nil))
    #expect(await eventually { (bench.clock.nextWait ?? 3600) < 7 })
    await client.signOut()
  }

  @Test func `where only posts fail, the state is asked for and the posts come less and less often`() async throws {
    bench.store.leaveUnfinished(bench.sale())
    bench.service.fail("validations", .problem(503, "ledger_unavailable", retryable: true), times: 3)
    let client = bench.client()
    await client.start()
    #expect(client.state.access?.tier == "free")
    for expected in [5, 10, 20] as [Double] {
      #expect(await eventually { bench.clock.nextWait.map { $0 < 30 } ?? false })
      let wait = try #require(bench.clock.nextWait)
      #expect((0.75 * expected...1.25 * expected).contains(wait))
      bench.clock.advance(by: wait)
    }
    #expect(await eventually { client.state.access?.tier == "pro" })
    await client.signOut()
  }

  @Test func `a post that is on its way is not to come again because the state has come`() async throws {
    bench.store.leaveUnfinished(bench.sale())
    let client = bench.client()
    bench.service.hold("validations")
    let start = Task { await client.start() }
    #expect(await eventually { bench.service.heldCount == 1 })
    _ = try await client.refresh()
    #expect(await eventually { bench.clock.nextWait != nil })
    for _ in 0..<1000 { await Task.yield() }
    // Nothing but the next look at the clock.
    #expect(bench.clock.nextWait == 60)
    bench.service.release()
    await start.value
    #expect(client.state.access?.tier == "pro")
    await client.signOut()
  }

  @Test func `a started client asks again when the state becomes old, and tells when it is unknown`() async throws {
    let client = bench.client()
    await client.start()
    bench.service.set(tier: "pro", for: nil)
    #expect(await eventually { bench.clock.nextWait == 60 })
    bench.clock.advance(by: 3600)
    #expect(await eventually { client.state.access?.tier == "pro" })
    // Now the network goes away for good.
    bench.service.fail("token", .problem(401, "unauthenticated", retryable: false), times: 20)
    #expect(await eventually { bench.clock.nextWait == 60 })
    bench.clock.advance(by: 3600)
    #expect(await eventually { bench.errors.withLock { $0 } == [.signedOut] })
    guard case .old = client.state else { return #expect(Bool(false), "The state goes by the clock.") }
    #expect(await eventually { bench.clock.nextWait == 60 })
    var states = client.access.makeAsyncIterator()
    #expect(await states.next()?.access?.tier == "pro")
    bench.clock.advance(by: 7 * 86_400)
    #expect(await states.next() == .unknown)
    await client.signOut()
  }

  @Test func `a period that the service has not ended yet is asked about again, less and less often`() async throws {
    // A token's dates are whole seconds: its `exp` lies half a second before the end.
    bench.service.set(tier: "pro", for: 60.5)
    let client = bench.client()
    await client.start()
    let end = bench.clock.now + 60
    #expect(await eventually { bench.clock.isSleeping(until: end) })
    bench.clock.advance(by: 60)
    for expected in [5, 10] as [Double] {
      #expect(await eventually { bench.clock.nextWait.map { $0 < 20 } ?? false })
      #expect(client.state == .unknown)
      let wait = try #require(bench.clock.nextWait)
      #expect((0.75 * expected...1.25 * expected).contains(wait))
      if expected == 10 { bench.service.set(tier: "free", for: nil) }
      bench.clock.advance(by: wait)
    }
    #expect(await eventually { client.state.access?.tier == "free" })
    await client.signOut()
  }

  @Test(arguments: [-86_400, -600, 7200, 8 * 86_400] as [TimeInterval])
  func `a device whose clock is wrong knows what it was told, asks again after an hour, and knows it offline`(
    lead: TimeInterval
  ) async throws {
    let bench = Bench()
    bench.service.set(lead: lead)
    bench.service.set(tier: "pro", for: nil)
    let client = bench.client()
    await client.start()
    guard case .known = client.state else { return #expect(Bool(false), "It was said just now.") }
    #expect(client.isAllowed("filters"))
    for _ in 0..<1000 { await Task.yield() }
    #expect(bench.service.requests("GET /v1/profiles/me/token").count == 1)
    #expect(await eventually { bench.clock.nextWait == 60 })
    bench.clock.advance(by: 3600)
    #expect(await eventually { bench.service.requests("GET /v1/profiles/me/token").count == 2 })
    await client.signOut()
    try await bench.client().refresh()
    #expect(bench.client().isAllowed("filters"))
    bench.clock.jump(by: 7 * 86_400 - 1)
    guard case .old = bench.client().state else { return #expect(Bool(false), "It is old.") }
    bench.clock.jump(by: 1)
    #expect(bench.client().state == .unknown)
    // Set back further than to the answer, it counts no longer than on a device whose clock is right.
    bench.clock.jump(by: -7 * 86_400 - 301)
    #expect(bench.client().state == .unknown)
  }

  @Test(arguments: [600, 8 * 86_400, -8 * 86_400] as [TimeInterval])
  func `a clock that is set right after an answer counts as set, and the service is asked within a minute`(
    lead: TimeInterval
  ) async throws {
    let bench = Bench()
    bench.service.set(lead: lead)
    let client = bench.client()
    await client.start()
    #expect(await eventually { bench.clock.nextWait == 60 })
    bench.clock.set(right: lead)
    bench.service.set(lead: 0)
    #expect(client.state == .unknown)
    bench.clock.advance(by: 60)
    #expect(await eventually { client.state.access != nil })
    #expect(bench.service.requests("GET /v1/profiles/me/token").count == 2)
    await client.signOut()
  }

  @Test(
    arguments: [
      ("5", 5), ("-1", 0), ("1e9", 86_400), ("Thu, 15 Jan 2026 12:01:00 GMT", 60), ("soon", nil),
    ] as [(String, TimeInterval?)])
  func `Retry-After is read as seconds or as a date, within bounds`(_ header: String, _ seconds: TimeInterval?)
    async throws
  {
    bench.service.fail("token", .problem(503, "overloaded", retryable: true, retryAfter: header))
    #expect(await failure { try await bench.client().refresh() } == .later(retryAfter: seconds))
  }

  @Test func `a provider of tokens that is away signs nobody out`() async throws {
    var options = CountersignClient.Options()
    options.storage = bench.storage
    options.transport = bench.service
    let client = CountersignClient(
      baseURL: URL(fileURLWithPath: "/"), user: Bench.user, token: { throw URLError(.notConnectedToInternet) },
      options: options)
    #expect(await failure { try await client.refresh() } == .later(retryAfter: nil))
    #expect(bench.service.requests.isEmpty)
  }

  @Test func `a service without signed access says so`() async throws {
    bench.service.fail("token", .problem(404, "not_found", retryable: false))
    let refused = CountersignError.refused(code: "not_found", detail: "For developers.")
    #expect(await failure { try await bench.client().refresh() } == refused)
  }

  // MARK: Usage

  @Test func `consume keeps its key over retries, and counts once`() async throws {
    let bench = Bench(isAutomatic: true)
    let client = bench.client()
    bench.service.fail("questions", .answerLost)
    bench.service.fail("questions", .problem(503, "overloaded", retryable: true, retryAfter: "3"))
    #expect(try await client.consume("questions", amount: 2).remaining == 8)
    let keys = bench.service.requests("POST /v1/profiles/me/usage/questions").map { $0.headers["Idempotency-Key"] }
    #expect(keys.count == 3 && Set(keys).count == 1)
    #expect(bench.service.used == 2)
    #expect(bench.clock.slept == [1, 3])
  }

  @Test func `consume gives up after three attempts, and a repeated key still counts once`() async throws {
    let bench = Bench(isAutomatic: true)
    let client = bench.client()
    bench.service.fail("questions", .answerLost, times: 3)
    #expect(await failure { try await client.consume("questions", key: "mine") } == .later(retryAfter: nil))
    try await client.consume("questions", key: "mine")
    #expect(bench.service.used == 1)
    bench.service.fail("questions", .problem(429, "rate_limited", retryable: true, retryAfter: "60"))
    #expect(await failure { try await client.consume("questions") } == .later(retryAfter: 60))
  }

  @Test(arguments: [
    ("Europe/Berlin", true), ("GMT", true), ("GMT+0530", false), ("EST5EDT", false), ("Japan", false),
  ])
  func `consume names a zone that the service knows, and no other`(zone: String, isNamed: Bool) async throws {
    let bench = Bench(isAutomatic: true)
    let known = try #require(TimeZone(identifier: zone))
    try await bench.client().consume("questions", timeZone: known)
    let body = try #require(bench.service.requests("POST /v1/profiles/me/usage/questions").last?.body)
    let posted = try JSONDecoder.countersign.decode(UsageRequest.self, from: Data(body.utf8))
    #expect(posted.timeZone == (isNamed ? zone : nil))
  }

  @Test func `consumption is known in memory at once`() async throws {
    let client = bench.client()
    try await client.refresh()
    try await client.consume("questions", amount: 9)
    #expect(client.state.access?.features["questions"] == .init(isAllowed: true, limit: 10, remaining: 1))
    let refused = CountersignError.refused(code: "limit_reached", detail: "For developers.")
    #expect(await failure { try await client.consume("questions", amount: 5) } == refused)
    #expect(client.isAllowed("questions"))
    try await client.consume("questions")
    #expect(!client.isAllowed("questions"))
    #expect(await failure { try await client.consume("questions") } == refused)
  }

  @Test func `consumption is published, so that what shows it is drawn again`() async throws {
    let client = bench.client()
    try await client.refresh()
    let seen = Locked<[AccessState]>([])
    let reader = Task { for await state in client.access { seen.withLock { $0.append(state) } } }
    #expect(await eventually { seen.withLock { $0.count } == 1 })
    try await client.consume("questions", amount: 10)
    #expect(await eventually { seen.withLock { $0.last?.access?.features["questions"]?.isAllowed } == false })
    reader.cancel()
  }

  @Test func `on the last of some days in a row nothing remains, and more is allowed`() async throws {
    bench.service.setLastDay()
    let client = bench.client()
    try await client.refresh()
    try await client.consume("questions", amount: 10)
    #expect(client.state.access?.features["questions"] == .init(isAllowed: true, limit: 10, remaining: 0))
    #expect(client.isAllowed("questions"))
  }

  // MARK: Trials

  @Test func `a trial unlocks at once, and the device keeps its ID`() async throws {
    let client = bench.client()
    let trial = try await client.startTrial("week")
    #expect(trial.state == .running && client.isAllowed("filters"))
    let device = try bench.storage.read("device").map { String(decoding: $0, as: UTF8.self) }
    #expect(device == trial.deviceID)
    #expect(try await bench.client().startTrial().deviceID == device)
    bench.service.fail("trials", .problem(409, "trial_used", retryable: false))
    let used = await failure { try await client.startTrial() }
    #expect(used?.localizedDescription == "The free trial was used already.")
  }

  @Test func `nothing that is secret is in the words of an error`() {
    let errors: [CountersignError] = [
      .cancelled, .pending, .later(retryAfter: 5), .signedOut, .refused(code: "any", detail: "receipt eyJhbGciOi"),
    ]
    for error in errors {
      #expect(!error.localizedDescription.contains("eyJ") && error.localizedDescription.hasSuffix("."))
    }
  }
}
