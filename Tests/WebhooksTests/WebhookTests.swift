import HTTPTransport
import TestSupport
import Testing

@testable import Webhooks

/// Signatures, schedule and outcomes of Standard Webhooks.
@Suite struct WebhookTests {
  static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

  /// The test vector of the specification's own libraries.
  @Test func `a message is signed as the specification's libraries sign it`() throws {
    let secret = try #require(WebhookSecret(Self.secret))
    let body = Array(#"{"test": 2432232314}"#.utf8)
    let headers = try #require(
      WebhookHeaders(id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, body: body, secrets: [secret]))
    #expect(headers.signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    #expect(headers.id == "msg_p5jXN8AQM9LWM0D4loKWxJek" && headers.timestamp == 1_614_265_330)
  }

  @Test func `two secrets sign both, and none signs nothing`() throws {
    let one = try #require(WebhookSecret(Self.secret))
    let other = try #require(WebhookSecret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="))
    let headers = try #require(WebhookHeaders(id: "a", timestamp: 1, body: [1], secrets: [one, other]))
    let alone = try [one, other].map { try #require(WebhookHeaders(id: "a", timestamp: 1, body: [1], secrets: [$0])) }
    #expect(headers.signature == alone.map(\.signature).joined(separator: " "))
    #expect(alone[0].signature != alone[1].signature)
    #expect(WebhookHeaders(id: "a", timestamp: 1, body: [1], secrets: []) == nil)
  }

  @Test(arguments: [
    "", "whsec_", "whsec_####", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=",
    "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_\(String(repeating: "AAAA", count: 22))",
  ])
  func `a text that is no secret is refused`(text: String) { #expect(WebhookSecret(text) == nil) }

  @Test func `a secret is never printed`() throws {
    let secret = try #require(WebhookSecret(Self.secret))
    let endpoint = WebhookEndpoint(name: "a", url: "https://a.example/x", secrets: [secret])
    for text in ["\(secret)", String(reflecting: secret), "\(endpoint)", String(reflecting: endpoint)] {
      #expect(!text.contains("MfKQ") && !text.contains("49"), "\(text)")
    }
  }

  @Test func `the pauses are those of the specification, with a tenth more at most`() {
    let seconds = (1...10).map { WebhookSchedule.pause(after: $0) { _ in .zero }?.components.seconds }
    #expect(seconds == [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400, nil])
    #expect(WebhookSchedule.pause(after: 2) { $0 } == .seconds(330))
    #expect(WebhookSchedule.pause(after: 2) { $0 * 50 } == .seconds(330))
    #expect(WebhookSchedule.pause(after: 1, retryAfter: .seconds(60)) { _ in .zero } == .seconds(60))
    #expect(WebhookSchedule.pause(after: 2, retryAfter: .seconds(60)) { _ in .zero } == .seconds(300))
    #expect(WebhookSchedule.pause(after: 1, retryAfter: .seconds(1 << 40)) { _ in .zero } == .seconds(86_400))
  }

  @Test func `forwarded notifications have Apple's own pauses`() {
    let hours = (1...6).map { attempts in
      WebhookSchedule.pause(after: attempts, in: .appStore) { _ in .zero }.map { $0.components.seconds / 3_600 }
    }
    #expect(hours == [1, 12, 24, 48, 72, nil])
    #expect(WebhookSchedule.pause(after: 1, in: .appStore) { $0 } == .seconds(3_960))
  }

  @Test func `a receiver names the events that it wants`() {
    func wants(_ events: [String], _ type: String) -> Bool {
      WebhookEndpoint(name: "a", url: "", secrets: [], events: events).wants(type)
    }
    #expect(wants([], "trial.started") && !wants([], "paywall_viewed"))
    #expect(wants(["*"], "trial.started") && wants(["*"], "paywall_viewed"))
    #expect(wants(["trial.*"], "trial.started") && !wants(["trial.*"], "subscription.started"))
    #expect(!wants(["trial.*"], "trials.started") && !wants(["trial.*"], "trial"))
    #expect(wants(["paywall_viewed", "limit.reached"], "limit.reached") && !wants(["limit.reached"], "trial.started"))
  }

  @Test func `a URL is shown without what may be a secret`() {
    func origin(_ url: String) -> String { WebhookEndpoint(name: "a", url: url, secrets: []).origin }
    #expect(origin("https://hooks.example/services/T0/secret?key=1") == "https://hooks.example")
    #expect(origin("https://hooks.example:8443?key=1") == "https://hooks.example:8443")
  }

  struct Answer: Sendable, CustomTestStringConvertible {
    var answer: Result<TransportResponse, TransportError>
    var outcome: WebhookOutcome
    var testDescription: String { "\(outcome)" }
    init(_ status: Int, headers: [TransportHeader] = [], _ outcome: WebhookOutcome) {
      (answer, self.outcome) = (.success(TransportResponse(status: status, headers: headers)), outcome)
    }
    init(_ error: TransportError, _ problem: String) {
      (answer, outcome) = (.failure(error), .failed(problem: problem, retryAfter: nil))
    }
  }

  @Test(arguments: [
    Answer(200, .delivered), Answer(204, .delivered), Answer(299, .delivered), Answer(410, .gone),
    Answer(301, .failed(problem: "http_301", retryAfter: nil)),
    Answer(500, .failed(problem: "http_500", retryAfter: nil)),
    Answer(
      503, headers: [TransportHeader("Retry-After", "120")], .failed(problem: "http_503", retryAfter: .seconds(120))),
    Answer(
      503, headers: [TransportHeader("Retry-After", "Thu, 01 Jan 1970 00:02:07 GMT")],
      .failed(problem: "http_503", retryAfter: .seconds(120))),
    Answer(
      503, headers: [TransportHeader("Retry-After", "Friday, 01-Jan-71 00:01:07 GMT")],
      .failed(problem: "http_503", retryAfter: .seconds(31_536_060))),
    Answer(
      503, headers: [TransportHeader("Retry-After", "Thu Jan  1 00:00:09 1970")],
      .failed(problem: "http_503", retryAfter: .seconds(2))),
    Answer(
      429, headers: [TransportHeader("Retry-After", "Thu, 01 Jan 1970 00:00:06 GMT")],
      .failed(problem: "http_429", retryAfter: .zero)),
    Answer(429, headers: [TransportHeader("Retry-After", "")], .failed(problem: "http_429", retryAfter: nil)),
    Answer(429, headers: [TransportHeader("Retry-After", "-5")], .failed(problem: "http_429", retryAfter: nil)),
    Answer(
      429, headers: [TransportHeader("Retry-After", "1718452860000")], .failed(problem: "http_429", retryAfter: nil)),
    Answer(
      429, headers: [TransportHeader("Retry-After", String(repeating: "9", count: 4_000))],
      .failed(problem: "http_429", retryAfter: nil)),
    Answer(429, headers: [TransportHeader("Retry-After", "soon")], .failed(problem: "http_429", retryAfter: nil)),
    Answer(.timedOut, "timed_out"), Answer(.connect, "connect"), Answer(.privateAddress, "private_address"),
    Answer(.tls("x"), "tls"), Answer(.reset, "reset"),
  ])
  func `any 2xx is success, 410 the end, and everything else a failure`(_ one: Answer) async throws {
    let secret = try #require(WebhookSecret(Self.secret))
    let transport = StubTransport(answers: [one.answer]) { _ in Issue.record("a second request") }
    let never = StubTransport(answers: []) { _ in Issue.record("the other transport") }
    let endpoint = WebhookEndpoint(name: "a", url: "https://a.example/hook", secrets: [secret])
    let sender = HTTPWebhookSender(
      transport: transport, privateTransport: never, keyring: WebhookKeyring([endpoint]))
    #expect(await sender.send(WebhookMessage(id: "evt_1_1", body: [123, 125]), to: endpoint, at: 7) == one.outcome)
    let request = try #require(transport.requests.first)
    #expect(!request.readsBody)
    #expect(request.url == endpoint.url && request.method == .post && request.body == [123, 125])
    let names = request.headers.map(\.name)
    #expect(names == ["Content-Type", "webhook-id", "webhook-timestamp", "webhook-signature"])
    #expect(request.headers[1].value == "evt_1_1" && request.headers[2].value == "7")
  }

  @Test func `secrets are replaced while the service runs`() async throws {
    let (one, other) = (
      try #require(WebhookSecret(Self.secret)),
      try #require(WebhookSecret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="))
    )
    var endpoint = WebhookEndpoint(name: "a", url: "https://a.example/hook", secrets: [one])
    let keyring = WebhookKeyring([endpoint])
    let started = endpoint
    endpoint.secrets = [other, one]
    keyring.replace(by: [endpoint])
    #expect(keyring.secrets(of: started) == [other, one])
    keyring.replace(by: [])
    #expect(keyring.secrets(of: started) == [other, one])
  }
}
