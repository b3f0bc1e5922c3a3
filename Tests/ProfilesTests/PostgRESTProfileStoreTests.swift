import Entitlements
import HTTPTransport
import Profiles
import Synchronization
import TestSupport
import Testing

@Suite("Updates by PostgREST")
struct PostgRESTProfileStoreTests {
  private func store(
    _ transport: StubTransport, withVersion: Bool = true,
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) -> PostgRESTProfileStore {
    PostgRESTProfileStore(sampleConfiguration(withVersion: withVersion), transport: transport, now: now)
  }

  // MARK: - With a version column

  @Test func `a row in the answer is an update applied`() async throws {
    let transport = planned(rows(version: "100"))
    #expect(await store(transport).apply(sampleUpdate()) == .applied)
    #expect(transport.requests.map(\.method) == [.patch])
  }

  @Test func `no row, and none to be read, is no such profile`() async throws {
    let transport = planned(noRows, try RecordedAnswer.titled("read none, array"))
    #expect(await store(transport).apply(sampleUpdate()) == .noSuchProfile)
    #expect(transport.requests.map(\.method) == [.patch, .get])
    #expect(transport.answersLeft == 0)
  }

  @Test func `PostgREST 6 to 10 say of no row that it is not found`() async throws {
    let notFound = answer(404, "[]")
    let transport = planned(notFound, noRows)
    #expect(await store(transport).apply(sampleUpdate()) == .noSuchProfile)
    #expect(transport.requests.map(\.method) == [.patch, .get])
    #expect(await store(planned(notFound), withVersion: false).apply(sampleUpdate()) == .noSuchProfile)
    #expect(await store(planned(notFound, rows(version: "101"))).apply(sampleUpdate()) == .superseded(by: 101))
    #expect(await store(planned(notFound, rows(version: "0"))).check() == .ok)
    // Any other 404 is no answer of a table.
    for body in ["", "{}", "[{}]", "<html></html>"] {
      #expect(await store(planned(answer(404, body))).apply(sampleUpdate()).kind != .noSuchProfile, "\(body)")
    }
  }

  @Test func `a newer row keeps its state`() async throws {
    let transport = planned(try RecordedAnswer.titled("CAS stale"), rows(version: "101", tier: "free"))
    #expect(await store(transport).apply(sampleUpdate()) == .superseded(by: 101))
  }

  @Test func `a row with our own version was written by us, and the answer was lost`() async throws {
    let transport = planned(noRows, rows(version: "100"))
    #expect(await store(transport).apply(sampleUpdate()) == .applied)
  }

  @Test(arguments: [("free", "active"), ("pro", "expired")])
  func `a row with our own version and other values was not written by us`(tier: String, status: String) async throws {
    let transport = planned(noRows, rows(version: "100", tier: tier, status: status))
    #expect(await store(transport).apply(sampleUpdate()) == .superseded(by: 100))
  }

  @Test func `a row that is older after all is written once more`() async throws {
    let transport = planned(noRows, rows(version: "99"), rows(version: "100"))
    #expect(await store(transport).apply(sampleUpdate()) == .applied)
    #expect(transport.requests.map(\.method) == [.patch, .get, .patch])
    #expect(transport.requests.first?.url == transport.requests.last?.url)
  }

  @Test func `a row that stays older and is never written is trouble, not a loop`() async throws {
    let transport = planned(noRows, rows(version: "99"), noRows, rows(version: "99"))
    let outcome = await store(transport).apply(sampleUpdate())
    #expect(outcome.kind == .unavailable)
    #expect(outcome.trouble?.code == "race")
    #expect(transport.answersLeft == 0)
  }

  @Test func `a failure of the second look is the outcome`() async throws {
    let transport = planned(noRows, .failure(.timedOut))
    #expect(await store(transport).apply(sampleUpdate()).trouble?.code == "timed_out")
  }

  @Test func `a version that is null is never lower, and said so`() async throws {
    let transport = planned(noRows, rows(version: "null"))
    let outcome = await store(transport).apply(sampleUpdate())
    #expect(outcome.kind == .refused)
    #expect(outcome.trouble?.code == "version_is_null")
  }

  @Test(arguments: ["\"99\"", "99.5", "true", "[]", "{}"])
  func `a version that is no whole number is a matter of configuration`(version: String) async throws {
    let transport = planned(noRows, rows(version: version))
    let outcome = await store(transport).apply(sampleUpdate())
    #expect(outcome.kind == .misconfigured)
    #expect(outcome.trouble?.code == "version_type")
  }

  @Test(arguments: [Int64.min, -1, 0, 1_796_083_200_123, .max])
  func `a version is exact to 64 bits`(version: Int64) async throws {
    let transport = planned(rows(version: "\(version)"))
    #expect(await store(transport).apply(sampleUpdate(version: version)) == .applied)
  }

  @Test func `two rows of one user are refused`() async throws {
    let row = #"{"subscription_tier":"pro","subscription_status":"active"}"#
    let transport = planned(answer(200, "[\(row),\(row)]"))
    let outcome = await store(transport, withVersion: false).apply(sampleUpdate())
    #expect(outcome.kind == .refused)
    #expect(outcome.trouble?.code == "several_rows")
  }

  // MARK: - Values that the columns cannot hold

  private static let notAUUID = problem(400, "22P02", message: #"invalid input syntax for type uuid: \"x\""#)
  private static let outOfRange = problem(400, "22003", message: "value is out of range for type integer")

  @Test(arguments: ["22P02", "22003", "22021", "22P05"])
  func `an ID that the column cannot hold is nobody's`(code: String) async throws {
    let transport = planned(problem(400, code), problem(400, code))
    let outcome = await store(transport).apply(sampleUpdate(user: "x"))
    #expect(outcome.kind == .impossibleUserID)
    #expect(outcome.trouble?.code == code)
    #expect(outcome.trouble?.sentence.contains("user ID") == true)
    #expect(transport.requests.map(\.method) == [.patch, .get])
  }

  @Test func `a refused row with a valid ID is refused for another value`() async throws {
    for found in [noRows, rows(version: "99")] {
      let transport = planned(Self.notAUUID, found)
      let outcome = await store(transport).apply(sampleUpdate())
      #expect(outcome.kind == .refused)
      #expect(outcome.trouble?.code == "22P02")
      #expect(outcome.trouble?.sentence.contains("transaction ID") == true)
    }
  }

  @Test func `a version that is out of range is a matter of configuration, and its column is named`() async throws {
    let transport = planned(Self.outOfRange, rows(version: "99"))
    let outcome = await store(transport).apply(sampleUpdate())
    #expect(outcome.kind == .misconfigured)
    #expect(outcome.trouble?.code == "22003")
    #expect(outcome.trouble?.sentence.contains("profile_store.columns.version") == true)
  }

  @Test func `a failure to look at the ID is the outcome`() async throws {
    let outcome = await store(planned(Self.notAUUID, .failure(.timedOut))).apply(sampleUpdate())
    #expect(outcome.trouble?.code == "timed_out")
  }

  // MARK: - Without

  @Test func `without a version, no row is no such profile at once`() async throws {
    let transport = planned(noRows)
    #expect(await store(transport, withVersion: false).apply(sampleUpdate()) == .noSuchProfile)
  }

  // MARK: - What the row says afterwards

  @Test(
    arguments: [
      ("free", "active", "100"), ("pro", "expired", "100"), ("pro", "active", "101"), ("pro", "active", "null"),
    ])
  func `a store that changes what was written has not applied it`(tier: String, status: String, version: String)
    async throws
  {
    let transport = planned(rows(version: version, tier: tier, status: status))
    let outcome = await store(transport).apply(sampleUpdate())
    #expect(outcome.kind == .misconfigured)
    #expect(outcome.trouble?.code == "changed_by_store")
  }

  @Test func `blanks that fill a column of fixed length do not count`() async throws {
    let transport = planned(rows(version: "100", tier: "pro    ", status: "active  "))
    #expect(await store(transport).apply(sampleUpdate()) == .applied)
  }

  // MARK: - A migration under way

  @Test func `an unknown column is waited for, for a minute`() async throws {
    let unknown = try RecordedAnswer.titled("PATCH unknown column")
    let start = ContinuousClock.now
    let clock = Mutex(start)
    let transport = planned(unknown, unknown, unknown, rows(version: "100"), unknown)
    let store = store(transport) { clock.withLock { $0 } }
    let steps: [(seconds: Int, kind: OutcomeKind)] = [
      (0, .unavailable), (59, .unavailable), (60, .misconfigured), (61, .applied), (62, .unavailable),
    ]
    for step in steps {
      clock.withLock { $0 = start + .seconds(step.seconds) }
      #expect(await store.apply(sampleUpdate()).kind == step.kind, "after \(step.seconds) s")
    }
  }

  // MARK: - Keys

  static let publicKeys = [
    Secret("sb_publishable_0123"), token(payload: #"{"role":"anon"}"#), token(payload: #"{"role":"authenticated"}"#),
  ]

  @Test(arguments: publicKeys.indices)
  func `a key that everybody has is not even sent`(index: Int) async throws {
    let transport = planned()
    let store = PostgRESTProfileStore(sampleConfiguration(key: Self.publicKeys[index]), transport: transport)
    let outcome = await store.apply(sampleUpdate())
    #expect(outcome.kind == .misconfigured)
    #expect(outcome.trouble?.code == "public_key")
    guard case .misconfigured(let trouble) = await store.check() else {
      Issue.record("the check takes the key")
      return
    }
    #expect(trouble.code == "public_key")
    #expect(transport.requests.isEmpty)
  }

  @Test(
    arguments: [
      #"{"role":"service_role"}"#, #"{"role":"billing_writer"}"#, #"{"iss":"x"}"#, #"{"role":7}"#, "[]", "anon", "",
      #"{"role":"service_role","role":"anon"}"#,
    ])
  func `any other token is left to the server`(payload: String) async throws {
    let transport = planned(rows(version: "100"))
    let store = PostgRESTProfileStore(sampleConfiguration(key: token(payload: payload)), transport: transport)
    #expect(await store.apply(sampleUpdate()) == .applied)
  }

  @Test func `every request has the caller's deadline`() async throws {
    let transport = planned(noRows, rows(version: "99"), noRows, noRows)
    let deadline = ContinuousClock.now + .seconds(2)
    _ = await store(transport).apply(sampleUpdate(), deadline: deadline)
    #expect(transport.deadlines == [deadline, deadline, deadline, deadline])
  }
}

@Suite("The check of a PostgREST store")
struct PostgRESTCheckTests {
  private func check(
    key: Secret = secretKey, _ answers: Result<TransportResponse, TransportError>...
  ) async -> ProfileStoreCheck {
    let transport = StubTransport(answers: answers) { Issue.record("unplanned: \($0.method.rawValue)") }
    let result = await PostgRESTProfileStore(sampleConfiguration(key: key), transport: transport).check()
    #expect(transport.answersLeft == 0)
    for request in transport.requests where request.method == .patch {
      #expect(request.url.contains("id=is.null&id=not.is.null"), "a check must find no row")
    }
    return result
  }

  @Test func `a store that lets us write nothing and shows a row is ok`() async throws {
    #expect(await check(noRows, rows(version: "0")) == .ok)
  }

  @Test func `a project without profiles is ok for a key that bypasses row level security`() async throws {
    #expect(await check(key: secretKey, noRows, noRows) == .ok)
    #expect(await check(key: serviceToken, noRows, noRows) == .ok)
  }

  @Test func `a version column that takes no version is found before anybody is written`() async throws {
    #expect(await check(problem(400, "22003")).code == "misconfigured 22003")
    #expect(await check(noRows, rows(version: "\"0\"")).code == "misconfigured version_type")
  }

  /// With the wide grants of old projects, a write as anonymous is 200 and changes nothing.
  @Test(arguments: [#"{"role":"billing_writer"}"#, #"{"iss":"x"}"#])
  func `a key of unknown role that sees no row is not believed`(payload: String) async throws {
    let result = await check(key: token(payload: payload), noRows, try RecordedAnswer.titled("read none, array"))
    #expect(result.code == "misconfigured no_rows_visible")
    #expect(await check(key: token(payload: payload), noRows, rows(version: "0")) == .ok)
  }

  @Test(
    arguments: [
      ("anon writes", "misconfigured 42501"), ("user writes tier", "misconfigured 42501"),
      ("JWT bad sig", "misconfigured PGRST301"), ("JWT not a jwt", "misconfigured PGRST301"),
      ("JWT expired", "misconfigured PGRST303"), ("JWT unknown role", "misconfigured 22023"),
      ("no such table", "misconfigured PGRST205"), ("PATCH unknown column", "misconfigured PGRST204"),
      ("PATCH bad filter col", "misconfigured 42703"), ("no such schema", "misconfigured PGRST106"),
      ("strict bad pref", "misconfigured PGRST122"), ("raise 53300", "unavailable 53300"),
      ("raise 08006", "unavailable 08006"), ("raise 57014", "unavailable 57014"),
    ])
  func `each way to fail is told apart`(title: String, code: String) async throws {
    #expect(await check(try RecordedAnswer.titled(title)).code == code)
    // The same of the second request.
    #expect(await check(noRows, try RecordedAnswer.titled(title)).code == code)
  }

  @Test func `wrong key, missing grant and missing table have three sentences`() async throws {
    var sentences: Set<String> = []
    for title in ["JWT bad sig", "user writes tier", "no such table", "anon writes"] {
      sentences.insert(await check(try RecordedAnswer.titled(title)).trouble?.sentence ?? "")
    }
    #expect(sentences.count == 4)
  }

  @Test(
    arguments: [
      (.failure(.timedOut), "unavailable timed_out"), (.failure(.connect), "unavailable connect"),
      (answer(401), "misconfigured http_401"), (answer(404, "<html>"), "misconfigured http_404"),
      (answer(200, "<html>"), "unavailable unreadable_answer"), (answer(540), "unavailable http_540"),
    ] as [(Result<TransportResponse, TransportError>, String)])
  func `a store that is away is not misconfigured`(answer: Result<TransportResponse, TransportError>, code: String)
    async throws
  {
    #expect(await check(answer).code == code)
  }

  @Test func `a server that does not heed conditions is found out`() async throws {
    #expect(await check(rows(version: "0")).code == "misconfigured filter_ignored")
  }
}

extension ProfileStoreCheck {
  var trouble: ProfileStoreTrouble? {
    switch self {
    case .ok: nil
    case .misconfigured(let trouble), .unavailable(let trouble): trouble
    }
  }

  fileprivate var code: String {
    switch self {
    case .ok: "ok"
    case .misconfigured(let trouble): "misconfigured \(trouble.code)"
    case .unavailable(let trouble): "unavailable \(trouble.code)"
    }
  }
}
