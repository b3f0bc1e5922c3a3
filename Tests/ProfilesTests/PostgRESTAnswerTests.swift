import HTTPTransport
import Profiles
import TestSupport
import Testing

@Suite("Answers of PostgREST and of gateways")
struct PostgRESTAnswerTests {
  /// - Parameter isAboutValue: whether a look follows that shows the user ID to be fine.
  private func outcome(
    of answer: Result<TransportResponse, TransportError>, isAboutValue: Bool = false
  ) async throws -> ProfileWriteOutcome {
    let transport = isAboutValue ? planned(answer, noRows) : planned(answer)
    let store = PostgRESTProfileStore(sampleConfiguration(withVersion: false), transport: transport)
    let outcome = await store.apply(sampleUpdate())
    #expect(transport.answersLeft == 0)
    return outcome
  }

  private static let codesOfValues: Set = ["22P02", "22P05", "22003"]

  /// The meaning of a recorded answer when it comes to a write.
  static let recorded: [(title: String, kind: OutcomeKind, code: String?)] = [
    ("PATCH no match representation", .noSuchProfile, nil),
    ("CAS stale", .noSuchProfile, nil),
    ("PATCH minimal", .unavailable, "http_204"),
    ("PATCH no match object", .refused, "PGRST116"),
    ("max-affected violated", .refused, "PGRST124"),
    ("strict bad pref", .misconfigured, "PGRST122"),
    ("PATCH unknown column", .unavailable, "PGRST204"),
    ("PATCH bad filter col", .misconfigured, "42703"),
    ("PATCH bad uuid", .refused, "22P02"),
    ("PATCH check violation", .refused, "23514"),
    ("PATCH unique violation", .refused, "23505"),
    ("POST fk violation", .refused, "23503"),
    ("on_conflict not unique", .misconfigured, "42P10"),
    ("bulk hetero columns=", .refused, "23502"),
    ("bulk same key twice", .refused, "21000"),
    ("malformed json", .refused, "PGRST102"),
    ("no such table", .unavailable, "PGRST205"),
    ("no such schema", .misconfigured, "PGRST106"),
    ("user writes tier", .misconfigured, "42501"),
    ("anon writes", .misconfigured, "42501"),
    ("RPC GET on volatile", .unavailable, "25006"),
    ("JWT expired", .misconfigured, "PGRST303"),
    ("JWT bad sig", .misconfigured, "PGRST301"),
    ("JWT not a jwt", .misconfigured, "PGRST301"),
    ("JWT unknown role", .misconfigured, "22023"),
    ("empty bearer", .misconfigured, "PGRST301"),
    ("raise P0001", .refused, "P0001"),
    ("raise 57014", .unavailable, "57014"),
    ("raise 55P03", .unavailable, "55P03"),
    ("raise 53300", .unavailable, "53300"),
    ("raise 08006", .unavailable, "08006"),
    ("raise PT402", .refused, "PT402"),
    ("raise XX000", .refused, "XX000"),
    ("raise 42P17", .misconfigured, "42P17"),
    ("raise 22023", .refused, "22023"),
    ("page past end", .refused, "PGRST103"),
    ("plus in timestamp (unescaped)", .refused, "22007"),
  ]

  @Test(arguments: recorded.map(\.title))
  func `a recorded answer has its meaning`(title: String) async throws {
    let expected = try #require(Self.recorded.first { $0.title == title })
    let outcome = try await outcome(
      of: RecordedAnswer.titled(title), isAboutValue: expected.code.map(Self.codesOfValues.contains) ?? false)
    #expect(outcome.kind == expected.kind, "\(outcome)")
    #expect(outcome.trouble?.code == expected.code)
  }

  /// Its request did not ask for the status, which ours does.
  @Test func `a recorded success, with a status beside its tier, is an update applied`() async throws {
    var response = try RecordedAnswer.titled("CAS applied").get()
    let row = String(decoding: response.body, as: UTF8.self)
    response.body = Array(row.replacing("}", with: #","subscription_status":"active"}"#).utf8)
    let store = PostgRESTProfileStore(sampleConfiguration(), transport: planned(.success(response)))
    #expect(await store.apply(sampleUpdate()) == .applied)
    // Without the status nobody knows what the row says.
    #expect(try await outcome(of: RecordedAnswer.titled("CAS applied")).kind == .misconfigured)
  }

  @Test func `every recorded answer is among them`() {
    // A read, which is no answer to a write, and the success below.
    let apart: Set = ["read none, array", "CAS applied"]
    #expect(Set(Self.recorded.map(\.title)).union(apart) == Set(RecordedAnswer.all.keys))
  }

  /// Hand-written, not recorded: what stands in front of PostgREST answers in its own way, and some states of the
  /// database are hard to bring about.
  static let written: [(status: Int, body: String, kind: OutcomeKind, code: String)] = [
    (200, "<html>Welcome</html>", .unavailable, "unreadable_answer"),
    (200, "", .unavailable, "unreadable_answer"),
    (200, #"{"message":"ok"}"#, .unavailable, "unreadable_answer"),
    (200, "[1]", .unavailable, "unreadable_answer"),
    (200, #"[{"id":"a""#, .unavailable, "unreadable_answer"),
    (201, "[]", .unavailable, "http_201"),
    (301, "", .misconfigured, "http_301"),
    (400, "Bad Request", .refused, "http_400"),
    (401, "", .misconfigured, "http_401"),
    (401, #"{"message":"Invalid API key","hint":"Double check"}"#, .misconfigured, "http_401"),
    (402, #"{"message":"exceed_egress_quota"}"#, .unavailable, "http_402"),
    (403, "<html>blocked</html>", .misconfigured, "http_403"),
    (404, #"{"message":"no Route matched with those values"}"#, .misconfigured, "http_404"),
    (408, "", .unavailable, "http_408"),
    (414, "", .refused, "http_414"),
    (429, #"{"message":"API rate limit exceeded"}"#, .unavailable, "http_429"),
    (500, #"{"message":"An unexpected error occurred"}"#, .unavailable, "http_500"),
    (502, "<html>Bad gateway</html>", .unavailable, "http_502"),
    (503, #"{"message":"name resolution failed"}"#, .unavailable, "http_503"),
    (504, "", .unavailable, "http_504"),
    (520, "error code: 520", .unavailable, "http_520"),
    (522, "<!DOCTYPE html><title>522</title>", .unavailable, "http_522"),
    (527, "", .unavailable, "http_527"),
    (530, "error code: 1016", .unavailable, "http_530"),
    (540, #"{"message":"Project paused"}"#, .unavailable, "http_540"),
    (544, "", .unavailable, "http_544"),
    (599, "[]", .unavailable, "http_599"),
    (401, #"{"code":401,"message":"a number for a code"}"#, .misconfigured, "http_401"),
    (503, #"{"code":"some words of a user","message":"m"}"#, .unavailable, "http_503"),
    (400, #"[{"code":"23514"}]"#, .refused, "http_400"),
    (503, #"{"code":"PGRST000","message":"connection to db.internal failed"}"#, .unavailable, "PGRST000"),
    (503, #"{"code":"PGRST001","message":"m"}"#, .unavailable, "PGRST001"),
    (503, #"{"code":"PGRST002","message":"m"}"#, .unavailable, "PGRST002"),
    (504, #"{"code":"PGRST003","message":"m"}"#, .unavailable, "PGRST003"),
    (503, #"{"code":"57P01","message":"m"}"#, .unavailable, "57P01"),
    (500, #"{"code":"40001","message":"m"}"#, .unavailable, "40001"),
    (500, #"{"code":"40P01","message":"m"}"#, .unavailable, "40P01"),
    (503, #"{"code":"53100","message":"m"}"#, .unavailable, "53100"),
    (500, #"{"code":"PGRSTX00","message":"m"}"#, .unavailable, "PGRSTX00"),
    (404, #"{"code":"PGRST202","message":"m"}"#, .unavailable, "PGRST202"),
    (400, #"{"code":"22P05","message":"m"}"#, .refused, "22P05"),
    (400, #"{"code":"22001","message":"m"}"#, .refused, "22001"),
    (400, #"{"code":"22003","message":"m"}"#, .misconfigured, "22003"),
    (404, #"{"code":"42P01","message":"m"}"#, .misconfigured, "42P01"),
    (409, #"{"code":"PT409","message":"m"}"#, .refused, "PT409"),
    (429, #"{"code":"PT429","message":"m"}"#, .unavailable, "PT429"),
    (503, #"{"code":"PT503","message":"m"}"#, .unavailable, "PT503"),
    (500, #"{"code":"38001","message":"m"}"#, .refused, "38001"),
    (500, #"{"code":"ZZ123","message":"m"}"#, .unavailable, "ZZ123"),
    (400, #"{"code":"ZZ123","message":"m"}"#, .refused, "ZZ123"),
    // A code wins over its status.
    (503, #"{"code":"23514","message":"m"}"#, .refused, "23514"),
    (400, #"{"code":"57P01","message":"m"}"#, .unavailable, "57P01"),
  ]

  @Test(arguments: written.indices)
  func `an answer that was not recorded has its meaning too`(index: Int) async throws {
    let expected = Self.written[index]
    let outcome = try await outcome(
      of: answer(expected.status, expected.body), isAboutValue: Self.codesOfValues.contains(expected.code))
    #expect(outcome.kind == expected.kind, "\(outcome)")
    #expect(outcome.trouble?.code == expected.code)
  }

  @Test(arguments: 100...999)
  func `no status alone is taken for done`(status: Int) async throws {
    let outcome = try await outcome(of: answer(status))
    #expect(outcome.trouble != nil)
    if status >= 500 { #expect(outcome.kind == .unavailable) }
  }

  @Test(
    arguments: [
      (.resolve, "resolve"), (.connect, "connect"), (.tls("secret words"), "tls"), (.timedOut, "timed_out"),
      (.tooLarge(limit: 1), "too_large"), (.reset, "reset"), (.protocolViolation("x"), "protocol"),
      (.overloaded, "overloaded"), (.cancelled, "cancelled"), (.shutDown, "shut_down"), (.other(code: 43), "curl_43"),
    ] as [(TransportError, String)])
  func `no answer is an unknown outcome`(error: TransportError, code: String) async throws {
    let outcome = try await outcome(of: .failure(error))
    #expect(outcome.kind == .unavailable)
    #expect(outcome.trouble?.code == code)
    #expect(outcome.retryAfter == nil)
  }

  @Test func `a request that cannot be sent is a matter of configuration`() async throws {
    let outcome = try await outcome(of: .failure(.invalidRequest("the value of apikey has a control character")))
    #expect(outcome.kind == .misconfigured)
  }

  @Test func `a code is found in the header when the body is lost`() async throws {
    let lost = try await outcome(of: answer(503, "", ["Proxy-Status": "PostgREST; error=PGRST002"]))
    #expect(lost.trouble?.code == "PGRST002")
    let lower = try await outcome(of: answer(400, "?", ["proxy-status": "PostgREST; error=23514"]))
    #expect(lower.trouble?.code == "23514")
    #expect(lower.kind == .refused)
  }

  // MARK: - When to come again

  @Test(
    arguments: [
      ("0", 1), ("1", 1), ("30", 30), ("600", 600), ("601", 600), ("999999999", 600), ("4294967295", nil), ("-1", nil),
      ("1.5", nil), ("", nil), ("Sat, 21 Nov 2026 14:00:00 GMT", nil), (" 5", nil), ("+5", nil),
    ] as [(String, Int?)])
  func `the wait that the store asks for is kept within bounds`(header: String, seconds: Int?) async throws {
    let outcome = try await outcome(of: problem(503, "PGRST002", ["Retry-After": header]))
    #expect(outcome.retryAfter == seconds.map { .seconds($0) })
  }

  @Test(
    arguments: [
      ("Sat, 21 Nov 2026 14:00:00 GMT", 90), ("Saturday, 21-Nov-26 14:00:00 GMT", 90),
      ("Sat, 21 Nov 2026 13:58:00 GMT", 1), ("Sun, 22 Nov 2026 14:00:00 GMT", 600), ("tomorrow", nil),
    ] as [(String, Int?)])
  func `a date counts from the time of the answer`(header: String, seconds: Int?) async throws {
    let headers = ["Date": "Sat, 21 Nov 2026 13:58:30 GMT", "Retry-After": header]
    #expect(try await outcome(of: problem(503, "PGRST002", headers)).retryAfter == seconds.map { .seconds($0) })
  }

  @Test func `a restricted or paused project is left alone for longer`() async throws {
    #expect(try await outcome(of: answer(402)).retryAfter == .seconds(300))
    #expect(try await outcome(of: answer(540)).retryAfter == .seconds(300))
    #expect(try await outcome(of: answer(540, "", ["Retry-After": "9"])).retryAfter == .seconds(9))
    #expect(try await outcome(of: answer(500)).retryAfter == nil)
  }

  // MARK: - Sentences

  @Test func `a user who is no UUID is told apart from a bad tier`() async throws {
    let bad = try RecordedAnswer.titled("PATCH bad uuid")
    let store = PostgRESTProfileStore(sampleConfiguration(withVersion: false), transport: planned(bad, bad))
    let uuid = await store.apply(sampleUpdate())
    #expect(uuid.kind == .impossibleUserID)
    #expect(uuid.trouble?.sentence.contains("uuid") == true)
    let tier = try await outcome(
      of: problem(400, "22P02", message: "invalid input value for enum tier: x"), isAboutValue: true)
    #expect(tier.kind == .refused)
    #expect(tier.trouble?.sentence.contains("uuid") == false)
  }

  @Test func `no key and no grant have different sentences`() async throws {
    let anonymous = try await outcome(of: RecordedAnswer.titled("anon writes"))
    let ungranted = try await outcome(of: RecordedAnswer.titled("user writes tier"))
    #expect(anonymous.trouble?.sentence.contains("profile_store.key") == true)
    #expect(ungranted.trouble?.sentence.contains("grant") == true)
  }

  @Test func `a role that the lock of the samples turns away is not told to be granted anything`() async throws {
    let locked = try await outcome(
      of: answer(
        403,
        #"{"code":"42501","details":null,"hint":"subscription_is_read_only","message":"only the service role writes"}"#)
    )
    #expect(locked.kind == .misconfigured)
    #expect(locked.trouble?.sentence.contains("service_role alone") == true)
    #expect(locked.trouble?.sentence.contains("grant it") == false)
  }

  /// The messages are PostgreSQL's own: https://github.com/postgres/postgres/blob/master/src/backend/executor/execMain.c
  @Test(
    arguments: [
      (403, #"new row violates row-level security policy for table \"profiles\""#, "forbidden_by_store"),
      (403, "this account is frozen", "forbidden_by_store"), (403, "permission denied for table profiles", "42501"),
      (403, "permission denied for schema public", "42501"), (403, "permission denied to set role", "42501"),
      (401, "new row violates row-level security policy", "42501"),
    ])
  func `a policy's refusal may be of one row, and a missing grant is of every row`(
    status: Int, message: String, code: String
  ) async throws {
    let outcome = try await outcome(of: problem(status, "42501", message: message))
    #expect(outcome.kind == .misconfigured && outcome.trouble?.code == code)
    #expect(outcome.trouble?.mayBeOneRows == (code != "42501"))
    #expect(outcome.trouble?.sentence.contains(message) == false)
  }

  /// The store quotes rows, hosts and signatures in every field it has, and so may any header.
  @Test func `nothing that the store sent is told to anybody`() async throws {
    let canary = "canary7f3a"
    let codes =
      Self.recorded.compactMap(\.code) + Self.written.map(\.code) + ["", canary, "PGRST" + canary, "CANARY7F3A"]
    let statuses = [200, 201, 204, 206, 300, 400, 401, 402, 403, 404, 406, 409, 416, 429, 500, 503, 504, 520, 540]
    var reported: Set<String> = []
    for code in codes {
      for status in statuses {
        let body = """
          {"code":"\(code)","message":"type uuid: \\"\(canary)\\"","details":"Failing row contains (\(canary))",
          "hint":"\(canary)","\(canary)":"\(canary)"}
          """
        let headers = [
          "Proxy-Status": "PostgREST; error=\(canary)", "Retry-After": canary, "X-\(canary)": canary,
          "WWW-Authenticate": "Bearer error_description=\"\(canary)\"",
        ]
        for text in [body, "[\(body)]", "<html>\(canary)", "\(canary)"] {
          for withVersion in [true, false] {
            let configuration = sampleConfiguration(key: Secret("sb_secret_\(canary)"), withVersion: withVersion)
            let response = TransportResponse(
              status: status, headers: headers.map { TransportHeader($0.key, $0.value) }, body: Array(text.utf8))
            let transport = StubTransport { _ in response }
            let store = PostgRESTProfileStore(configuration, transport: transport)
            reported.insert("\(await store.apply(sampleUpdate()))")
            reported.insert("\(await store.check())")
          }
        }
      }
    }
    #expect(reported.count > 50)
    for text in reported { #expect(!text.lowercased().contains(canary), "\(text)") }
  }
}
