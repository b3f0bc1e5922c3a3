import Cryptography
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

@testable import AppStore
@testable import HTTPTransport
@testable import JSON
@testable import Resilience

/// The client on a scripted transport and a clock that only moves when it is waited on.
@Suite struct DeviceCheckTests {
  private typealias Step = ScriptedTransport.Step

  /// One client with its Apple.
  private struct Bench {
    let time = TestTime()
    let key: TestECKey
    let transport: ScriptedTransport
    let breaker: CircuitBreaker
    let client: DeviceCheck
    let attempts = Attempts()

    final class Attempts: Sendable {
      private let list = Mutex<[DeviceCheckAttempt]>([])
      var all: [DeviceCheckAttempt] { list.withLock { $0 } }
      func add(_ attempt: DeviceCheckAttempt) { list.withLock { $0.append(attempt) } }
    }

    init(_ steps: [Step], failuresToOpen: Int = 5) throws {
      key = try TestECKey()
      transport = ScriptedTransport(steps, time: time)
      var rules = CircuitBreaker.Configuration()
      rules.failures = failuresToOpen
      breaker = CircuitBreaker(configuration: rules, now: { [time] in time.now }, jitter: { $0 })
      var timing = time.timing()
      timing.date = { [time] in TestTime.date.addingTimeInterval((time.now - time.start) / .seconds(1)) }
      client = DeviceCheck(
        transport: transport,
        configuration: try DeviceCheck.Configuration(
          teamID: "8MN25XGXVQ", keyID: "2X9R4HXF34", key: ES256PrivateKey(pem: key.pem()),
          productionURL: "https://production.example/", developmentURL: "https://development.example"),
        timing: timing, breakers: [.production: breaker], observe: { [attempts] in attempts.add($0) })
    }

    func query(
      at server: DeviceCheck.Server = .production, within limit: Duration = .seconds(5)
    ) async throws(DeviceCheckError) -> DeviceBits? {
      try await client.query(DeviceCheckTests.token, at: server, deadline: time.now + limit)
    }

    /// The error of a query that may not succeed.
    func failure(within limit: Duration = .seconds(5)) async -> DeviceCheckError? {
      await #expect(throws: DeviceCheckError.self) { try await query(within: limit) }
    }

    func bearers() throws -> [String] {
      try transport.calls.map { call in
        let header = try #require(call.request.headers.first { $0.name == "Authorization" })
        try #require(header.value.hasPrefix("Bearer "))
        return String(header.value.dropFirst(7))
      }
    }
  }

  private static let canary = "Q0FOQVJZQ0FOQVJZ"
  private static let made = Result { () throws(DeviceToken.Invalid) in try DeviceToken(canary) }
  private static var token: DeviceToken {
    get throws(DeviceCheckError) {
      do { return try made.get() } catch { throw .tokenRefused }
    }
  }

  private static let answer = Step.body(#"{"bit0":true,"bit1":false,"last_update_time":"2024-05"}"#)

  // MARK: What is sent

  @Test func `a query asks production about the token, signed by the team's key`() async throws {
    let bench = try Bench([Self.answer])
    let bits = try await bench.query()
    #expect(bits == DeviceBits(bit0: true, bit1: false, lastUpdate: "2024-05"))
    let request = try #require(bench.transport.calls.first?.request)
    #expect(request.method == .post)
    #expect(request.url == "https://production.example/v1/query_two_bits")
    #expect(request.responseBodyLimit == 16 * 1_024)
    let body = try JSONDocument(request.body).root
    #expect(try body.text("device_token") == Self.canary)
    #expect(UUID(uuidString: try #require(try body.text("transaction_id"))) != nil)
    #expect(try body.integer("timestamp") == 1_718_452_800_000)
    #expect(body["bit0"] == nil)

    let parts = try #require(try bench.bearers().first).split(separator: ".").map(String.init)
    try #require(parts.count == 3)
    let header = try JSONDocument(#require(Base64URL.decode(parts[0].utf8))).root
    #expect(try header.text("alg") == "ES256")
    #expect(try header.text("kid") == "2X9R4HXF34")
    let claims = try JSONDocument(#require(Base64URL.decode(parts[1].utf8))).root
    #expect(try claims.text("iss") == "8MN25XGXVQ")
    #expect(try claims.integer("iat") == 1_718_452_770)
    #expect(claims["aud"] == nil)
    #expect(claims["exp"] == nil)
    let signature = try #require(Base64URL.decode(parts[2].utf8))
    #expect(try bench.key.hasMade(signature, over: Array("\(parts[0]).\(parts[1])".utf8)))
  }

  @Test func `an update sends both bits, to the development server only where that is asked for`() async throws {
    let bench = try Bench([.body(""), .body("")])
    try await bench.client.update(Self.token, bit0: true, bit1: false, deadline: bench.time.now + .seconds(5))
    try await bench.client.update(
      Self.token, bit0: false, bit1: true, at: .development, deadline: bench.time.now + .seconds(5))
    #expect(
      bench.transport.calls.map(\.url) == [
        "https://production.example/v1/update_two_bits", "https://development.example/v1/update_two_bits",
      ])
    let bodies = try bench.transport.calls.map { try JSONDocument($0.request.body) }
    #expect(try bodies.map { try $0.root.flag("bit0") } == [true, false])
    #expect(try bodies.map { try $0.root.flag("bit1") } == [false, true])
    #expect(Set(try bodies.map { try $0.root.text("transaction_id") }).count == 2)
  }

  @Test func `a token of ours is signed once and sent for most of 40 minutes`() async throws {
    let bench = try Bench(Array(repeating: Self.answer, count: 3))
    for wait in [2_300, 40] {
      _ = try await bench.query()
      bench.time.advance(to: bench.time.now + .seconds(wait))
    }
    _ = try await bench.query()
    let bearers = try bench.bearers()
    #expect(bearers[0] == bearers[1])
    #expect(bearers[1] != bearers[2])
  }

  // MARK: Answers

  @Test(arguments: ["Failed to find bit state", "Bit State Not Found", "bit state not found\n"])
  func `bits that were never set are told in plain text`(text: String) async throws {
    let bench = try Bench([.body(text)])
    #expect(try await bench.query() == nil)
    #expect(bench.client.state == .answering)
  }

  @Test func `the month of the last update may be missing`() async throws {
    let bench = try Bench([.body(#"{"bit0":false,"bit1":true}"#)])
    #expect(try await bench.query() == DeviceBits(bit0: false, bit1: true))
  }

  @Test func `400 refuses the token, and is asked once`() async throws {
    let bench = try Bench([.body("Missing or incorrectly formatted device token payload", status: 400)])
    #expect(await bench.failure() == .tokenRefused)
    #expect(bench.client.state == .answering)
  }

  @Test(arguments: [
    (401, "Unable to verify authorization token"), (401, ""), (400, "Missing or badly formatted authorization token"),
  ])
  func `a refusal of our token is asked again with a fresh one, and then refuses our key`(
    status: Int, text: String
  ) async throws {
    let refusal = Step.body(text, status: status)
    let bench = try Bench([Self.answer, refusal, refusal, refusal, Self.answer])
    _ = try await bench.query()
    #expect(await bench.failure() == .keyRefused)
    #expect(bench.client.state == .keyRefused)
    #expect(bench.time.pauses.isEmpty)
    let bearers = try bench.bearers()
    #expect(bearers[0] == bearers[1])
    #expect(bearers[1] != bearers[2])
    #expect(try await bench.query() != nil)
    #expect(bench.client.state == .answering)
    #expect(bench.attempts.all.map(\.failure) == [nil, .keyRefused, .keyRefused, .keyRefused, nil])
  }

  /// A step that means that Apple is away, and whether it is worth another attempt.
  struct AwayCase: Sendable, CustomTestStringConvertible {
    var step: ScriptedTransport.Step
    var away: DeviceCheckError.Away
    var isRepeated: Bool
    var testDescription: String { "\(away)" }
  }

  static let awayCases: [AwayCase] = [
    AwayCase(step: .body("", status: 500), away: .http(500, retryAfter: nil), isRepeated: true),
    AwayCase(
      step: .body("", status: 503, headers: [TransportHeader("Retry-After", "1")]),
      away: .http(503, retryAfter: .seconds(1)), isRepeated: true),
    AwayCase(
      step: .body("", status: 429, headers: [TransportHeader("Retry-After", "1")]),
      away: .http(429, retryAfter: .seconds(1)), isRepeated: false),
    AwayCase(step: .body("", status: 403), away: .http(403, retryAfter: nil), isRepeated: false),
    AwayCase(step: .body("", status: 302), away: .http(302, retryAfter: nil), isRepeated: false),
    AwayCase(step: .body("", status: 204), away: .http(204, retryAfter: nil), isRepeated: false),
    AwayCase(step: .error(.reset), away: .noAnswer(.reset), isRepeated: true),
    AwayCase(step: .error(.connect), away: .noAnswer(.connect), isRepeated: true),
    AwayCase(step: .error(.tls("bad")), away: .noAnswer(.tls("bad")), isRepeated: false),
    AwayCase(step: .error(.tooLarge(limit: 1)), away: .noAnswer(.tooLarge(limit: 1)), isRepeated: false),
    AwayCase(step: .stall, away: .noAnswer(.timedOut), isRepeated: false),
  ]

  @Test(arguments: awayCases)
  func `anything else means that Apple is away`(expected: AwayCase) async throws {
    let bench = try Bench(Array(repeating: expected.step, count: expected.isRepeated ? 2 : 1))
    #expect(await bench.failure() == .away(expected.away))
    #expect(bench.transport.remaining == 0)
    #expect(bench.client.state == .unavailable)
    #expect(bench.attempts.all.map(\.failure) == bench.transport.calls.map { _ in .away(expected.away) })
  }

  @Test(arguments: [
    "", "<html>", "status=0", "[]", "{}", #"{"bit0":true}"#, #"{"bit0":null,"bit1":true}"#,
    #"{"bit0":2,"bit1":false}"#, #"{"bit0":true,"bit1":false,"bit1":true}"#, #"{"bit0":true,"bit1":false"#,
    #"{"bit0":true,"bit1":false,"last_update_time":{}}"#, "Failed to find bit state of this device",
  ])
  func `a text that is no answer is never taken for bits`(text: String) async throws {
    let bench = try Bench([.body(text), .body(text)])
    guard case .away(.malformedAnswer(let place)) = await bench.failure() else {
      Issue.record("an answer was read in it")
      return
    }
    #expect(!place.isEmpty)
  }

  // MARK: The repetition

  @Test func `a failure is repeated once as it was, after a pause`() async throws {
    let bench = try Bench([.body("", status: 500), Self.answer])
    #expect(try await bench.query()?.bit0 == true)
    #expect(bench.time.pauses == [.milliseconds(100)])
    let calls = bench.transport.calls
    #expect(calls[0].request.body == calls[1].request.body)
    #expect(bench.client.state == .answering)
  }

  @Test func `the pause is as long as Apple asks for`() async throws {
    let bench = try Bench([.body("", status: 503, headers: [TransportHeader("Retry-After", "2")]), Self.answer])
    #expect(try await bench.query()?.bit0 == true)
    #expect(bench.time.pauses == [.seconds(2)])
  }

  @Test func `nothing is repeated beyond the deadline`() async throws {
    let bench = try Bench([.body("", status: 503, headers: [TransportHeader("Retry-After", "5")])])
    #expect(await bench.failure(within: .seconds(5)) == .away(.http(503, retryAfter: .seconds(5))))
    #expect(bench.time.pauses.isEmpty)
  }

  @Test func `without time there is no call, and nothing is known of Apple`() async throws {
    let bench = try Bench([])
    #expect(await bench.failure(within: .zero) == .away(.deadlinePassed))
    #expect(bench.client.state == .unknown)
    #expect(bench.attempts.all.isEmpty)
  }

  @Test func `our own limit says nothing of Apple`() async throws {
    let bench = try Bench([.error(.overloaded)])
    #expect(await bench.failure() == .away(.noAnswer(.overloaded)))
    #expect(bench.client.state == .unknown)
  }

  @Test func `a cancelled task makes no call`() async throws {
    let bench = try Bench([])
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await bench.failure()
    }
    #expect(await task.value == .cancelled)
  }

  @Test func `a server that fails is left alone, and the other is asked`() async throws {
    let bench = try Bench([.body("", status: 500), Self.answer], failuresToOpen: 1)
    // The first failure opens the breaker: there is no second attempt.
    #expect(await bench.failure() == .away(.http(500, retryAfter: nil)))
    guard case .away(.circuitOpen(let retryIn)) = await bench.failure() else {
      Issue.record("the server was called")
      return
    }
    #expect(retryIn > .zero)
    #expect(try await bench.query(at: .development)?.bit0 == true)
    #expect(bench.attempts.all.map(\.server) == [.production, .development])
  }

  @Test func `refused tokens leave the breaker closed`() async throws {
    let bench = try Bench(Array(repeating: .body("", status: 400), count: 3), failuresToOpen: 1)
    for _ in 0..<3 { #expect(await bench.failure() == .tokenRefused) }
    #expect(bench.breaker.state == .closed)
  }

  // MARK: Tokens and IDs

  @Test(arguments: [
    ("", DeviceToken.Invalid.empty), ("a b", .notBase64), ("AAA", .notBase64), ("AA-_", .notBase64),
    ("QUJD\nQUJD", .notBase64), ("\u{0}", .notBase64),
    (String(repeating: "AAAA", count: 2_049), .tooLong),
  ])
  func `a text that is no token is refused in a sentence`(text: String, expected: DeviceToken.Invalid) {
    let error = #expect(throws: expected) { try DeviceToken(text) }
    #expect(error.map { "\($0)".hasSuffix(".") } == true)
  }

  @Test func `tokens of 8 KiB are taken`() throws {
    #expect(throws: Never.self) { try DeviceToken(String(repeating: "AAAA", count: 2_048)) }
  }

  @Test func `no error and no text shows a token`() async throws {
    let echo = "\(Self.canary) Bearer eyJ"
    for status in [200, 400, 401, 500] {
      let bench = try Bench(Array(repeating: .body(echo, status: status), count: 2))
      let error = try #require(await bench.failure())
      var text = ""
      dump(error, to: &text)
      dump(bench.attempts.all, to: &text)
      dump(try Self.token, to: &text)
      #expect(!text.contains(Self.canary) && !text.contains("eyJ"))
    }
  }

  @Test(arguments: ["", "8MN25XGXVQ.com.example", "ключ", "\"", String(repeating: "A", count: 65)])
  func `an ID is letters and digits`(id: String) throws {
    let key = try ES256PrivateKey(pem: TestECKey().pem())
    #expect(throws: DeviceCheck.Configuration.Fault.teamID) {
      try DeviceCheck.Configuration(teamID: id, keyID: "2X9R4HXF34", key: key)
    }
    #expect(throws: DeviceCheck.Configuration.Fault.keyID) {
      try DeviceCheck.Configuration(teamID: "8MN25XGXVQ", keyID: id, key: key)
    }
  }

  @Test func `the servers are Apple's unless others are given`() throws {
    let configuration = try DeviceCheck.Configuration(
      teamID: "8MN25XGXVQ", keyID: "2X9R4HXF34", key: ES256PrivateKey(pem: TestECKey().pem()))
    #expect(
      configuration.url(of: .query, at: .production) == "https://api.devicecheck.apple.com/v1/query_two_bits")
    #expect(
      configuration.url(of: .update, at: .development)
        == "https://api.development.devicecheck.apple.com/v1/update_two_bits")
  }

  // MARK: The wire

  @Test(.timeLimit(.minutes(10)))
  func `bits are set and asked for over TLS`() async throws {
    let authority = try TestCertificateAuthority()
    let seen = try await RawTLSServer.answering(identity: try authority.serverIdentity()) { request in
      request.target == "/v1/query_two_bits" ? .json(#"{"bit0":true,"bit1":true}"#) : TestAnswer(status: 200, text: "")
    } during: { server in
      let transport = try CurlTransport(configuration: .init(caFile: authority.caFile))
      defer { transport.shutdown() }
      let client = DeviceCheck(
        transport: transport,
        configuration: try DeviceCheck.Configuration(
          teamID: "8MN25XGXVQ", keyID: "2X9R4HXF34", key: ES256PrivateKey(pem: TestECKey().pem()),
          productionURL: server.origin))
      try await client.update(Self.token, bit0: true, bit1: true, deadline: .now + .seconds(60))
      let bits = try await client.query(Self.token, deadline: .now + .seconds(60))
      #expect(bits == DeviceBits(bit0: true, bit1: true))
      return server.requests
    }
    #expect(seen.map(\.target) == ["/v1/update_two_bits", "/v1/query_two_bits"])
    #expect(seen.allSatisfy { $0.method == "POST" && $0.header("Content-Type") == "application/json" })
    #expect(seen.allSatisfy { $0.header("Authorization")?.hasPrefix("Bearer ey") == true })
  }
}
