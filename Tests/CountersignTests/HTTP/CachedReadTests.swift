import Foundation
import HTTPTransport
import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import Synchronization
import Testing
import TestSupport

@testable import Countersign
@testable import CountersignServer
@testable import Resilience

/// Reads that are answered from memory, without the router. With a ledger that replicas share, none is.
@Suite struct CachedReadTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800)
  static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  /// A query, which none of these answers depends on, takes a request to the router.
  static let toRouter = "?for=router"

  static func run(
    _ settings: Settings = Settings(
      server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret, "audience": "authenticated"]),
    now: @escaping @Sendable () -> Date = { clock }, body: @Sendable (RunningService) async throws -> Void
  ) async throws {
    try await RunningService.run(apple: .unreachable, settings: settings, now: now) { service in
      let grant = #"{"tier":"pro","for":"1d","note":"a test"}"#
      #expect(try await service.send(.post, "/v1/profiles/\(user)/grants", body: grant).status == 201)
      // Read once, they are in memory.
      for path in ["", "/access"] {
        #expect(try await service.send(.get, "/v1/profiles/\(user)\(path)\(toRouter)").status == 200)
      }
      try await body(service)
    }
  }

  static func head(
    _ path: String, method: HTTPRequest.Method = .get, key: String = RunningService.serviceKey, _ more: HTTPFields = [:]
  ) -> HTTPRequest {
    HTTPRequest(
      method: method, scheme: "http", authority: "a", path: path,
      headerFields: [.authorization: "Bearer \(key)"] + more)
  }

  static func answers(_ service: RunningService, _ head: HTTPRequest) -> Bool {
    service.reads.mayAnswer(head) && service.reads.answer(to: head, on: EmbeddedChannel()) != nil
  }

  @Test(.ofTheFile) func `a read in memory is answered without the router, and nothing else is`() async throws {
    let now = Mutex(Self.clock)
    try await Self.run(now: { now.withLock { $0 } }) { service in
      let path = "/v1/profiles/\(Self.user)"
      let token = try TokenMint.user(Self.user, at: Self.clock)
      for path in [path, path + "/access", path.replacing("-", with: "%2D")] {
        #expect(Self.answers(service, Self.head(path)), "\(path)")
        #expect(Self.answers(service, Self.head(path, key: RunningService.supportKey)), "\(path)")
        #expect(Self.answers(service, Self.head(path, key: token)), "\(path)")
      }
      #expect(Self.answers(service, Self.head("/v1/profiles/me", key: token)))
      #expect(Self.answers(service, Self.head("/v1/profiles/me/access", key: token)))
      for other in [
        path + "?", path + "/", path + "/access?time_zone=UTC", path + "/history", path + "/access/access",
        "/v1/profiles//\(Self.user)", "//v1/profiles/\(Self.user)", "/v1/profiles/", "/v1/profiles/me",
        "/v1/profiles/user-2", "/v1/profiles/%zz", path + "#", "*",
      ] {
        #expect(!Self.answers(service, Self.head(other)), "\(other)")
      }
      for method in [.head, .post, .put, .delete, .options] as [HTTPRequest.Method] {
        #expect(!Self.answers(service, Self.head(path, method: method)), "\(method)")
      }
      for header in [HTTPField.Name.contentLength, .transferEncoding, .connection, .expect, .upgrade] {
        #expect(!Self.answers(service, Self.head(path, [header: "0"])), "\(header)")
      }
      for (key, path) in [
        ("nobody", path), (RunningService.publicKey, path), (token + "x", path),
        (try TokenMint.user("another", at: Self.clock), path),
        (try TokenMint.user(Self.user, at: Self.clock - 7200), path),
      ] {
        #expect(!Self.answers(service, Self.head(path, key: key)))
      }
      var overTLS = service.reads
      overTLS.speaksTLS = true
      let answer = overTLS.answer(to: Self.head(path), on: EmbeddedChannel())
      #expect(answer?.head.headerFields[.strictTransportSecurity] == "max-age=31536000; includeSubDomains")
      // What was read stands no longer: here by time, then by a change.
      now.withLock { $0 += 2 * 86_400 }
      #expect(!Self.answers(service, Self.head(path)))
      now.withLock { $0 = Self.clock }
      #expect(Self.answers(service, Self.head(path)))
      _ = try await service.send(
        .post, "/v1/profiles/\(Self.user)/grants", body: #"{"tier":"premium","for":"1d","note":"a test"}"#)
      #expect(!Self.answers(service, Self.head(path)))
    }
  }

  @Test func `answers are the router's: for every credential, path and tag`() async throws {
    try await Self.run { service in
      let tag = try #require(try await service.send(.get, "/v1/profiles/\(Self.user)").header("ETag"))
      let paths = ["/v1/profiles/\(Self.user)", "/v1/profiles/me", "/v1/profiles/\(Self.user)/access"]
      var statuses: Set<Int> = []
      for credential in try RouteTableTests.credentials() {
        for path in paths {
          for known in [nil, tag, "W/\(tag)", "*"] {
            let headers =
              [
                credential.header.map { TransportHeader("Authorization", $0) },
                known.map { .init("If-None-Match", $0) },
              ]
              .compactMap { $0 }
            try await statuses.insert(Self.compare(service, path, headers))
          }
        }
      }
      #expect(statuses == [200, 304, 401, 403])
      let key = TransportHeader("Authorization", "Bearer \(RunningService.serviceKey)")
      for id in ["a-request.of_ours", "not harmless", String(repeating: "x", count: 129)] {
        _ = try await Self.compare(service, paths[0], [key, TransportHeader("X-Request-Id", id)])
      }
    }
  }

  @Test(arguments: ["https://app.example.com", "https://evil.example.com"])
  func `pages are told the same`(origin: String) async throws {
    var settings = Settings(server: ["page_origins": #"["https://app.example.com"]"#])
    settings.dialects = ["openiap"]
    try await Self.run(settings) { service in
      let key = TransportHeader("Authorization", "Bearer \(RunningService.serviceKey)")
      let path = "/v1/profiles/\(Self.user)"
      for headers in [[key], [key, TransportHeader("Origin", origin)]] {
        #expect(try await Self.compare(service, path, headers) == 200)
      }
      let answer = try await service.send(.get, path, headers: [TransportHeader("Origin", origin)])
      #expect(answer.header("Vary")?.contains("Origin") == true || answer.headers.contains { $0.value == "Origin" })
      #expect(
        answer.header("Access-Control-Allow-Origin") == (origin.contains("evil") ? nil : "https://app.example.com"))
    }
  }

  @Test(arguments: ["", toRouter]) func `a user who asks too often is refused`(query: String) async throws {
    let settings = Settings(
      server: ["user_rate_limit": "3"], jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
    try await Self.run(settings) { service in
      let token = try TokenMint.user(Self.user, at: Self.clock)
      var answers: [Answer] = []
      // The bucket fills at three a second.
      for _ in 0..<64 where answers.last?.status != 429 {
        answers.append(try await service.send(.get, "/v1/profiles/me\(query)", key: token))
      }
      #expect(answers.count > 3)
      let refused = try #require(answers.last)
      #expect(refused.status == 429)
      #expect(refused["code"] == "rate_limited")
      #expect(refused["request_id"] == refused.header("X-Request-Id"))
      #expect(refused.header("Retry-After") == "1")
      #expect(refused.header("Content-Type") == "application/problem+json")
    }
  }

  @Test(.ofTheFile, arguments: ["", toRouter])
  func `an address that asks too often is refused`(query: String) async throws {
    let settings = Settings(
      server: ["user_rate_limit": "0", "address_rate_limit": "3", "trusted_proxies": "[127.0.0.1]"],
      jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
    try await Self.run(settings) { service in
      let token = try TokenMint.user(Self.user, at: Self.clock)
      let path = "/v1/profiles/me"
      let channel = EmbeddedChannel()
      try await channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 80)).get()
      let client = HTTPField.Name("X-Forwarded-For")
      let head = Self.head(path, key: token, client.map { [$0: "203.0.113.7"] } ?? [:])
      #expect(service.reads.answer(to: head, on: channel) != nil)
      var answers: [Answer] = []
      // The bucket fills at three a second.
      for _ in 0..<64 where answers.last?.status != 429 {
        let from = TransportHeader("X-Forwarded-For", "203.0.113.7")
        answers.append(try await service.send(.get, path + query, key: token, headers: [from]))
      }
      let refused = try #require(answers.last)
      #expect(refused.status == 429)
      #expect(refused["code"] == "rate_limited" && refused.text.contains("from this address"), "\(refused.text)")
      let other = TransportHeader("X-Forwarded-For", "203.0.113.8")
      #expect(try await service.send(.get, path + query, key: token, headers: [other]).status == 200)
    }
  }

  /// By the router, which does not look at the credential then.
  @Test(.ofTheFile) func `for an address that asks too often no credential is looked at`() async throws {
    let settings = Settings(
      server: ["user_rate_limit": "0", "address_rate_limit": "1", "trusted_proxies": "[127.0.0.1]"],
      jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
    try await Self.run(settings) { service in
      let channel = EmbeddedChannel()
      try await channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 80)).get()
      let token = try TokenMint.user(Self.user, at: Self.clock)
      let client = try #require(HTTPField.Name("X-Forwarded-For"))
      var reads = service.reads
      let start = ContinuousClock.now
      reads.authentication.limits.address.limiter = RateLimiter(rate: 1) { start }
      func head(from address: String) -> HTTPRequest {
        Self.head("/v1/profiles/me", key: token, [client: address])
      }
      let limits = reads.authentication.limits
      let peer = ClientAddress(channel.remoteAddress)
      let address = try #require(limits.client(naming: [client: "203.0.113.7"], peer: peer))
      #expect(reads.answer(to: head(from: "203.0.113.7"), on: channel)?.head.status == .ok)
      #expect(limits.address.limiter.admit(address.client) == nil)
      #expect(reads.answer(to: head(from: "203.0.113.7"), on: channel) == nil)
      #expect(reads.answer(to: head(from: "203.0.113.8"), on: channel)?.head.status == .ok)
    }
  }

  @Test func `a request that HTTP forbids is refused`() async throws {
    try await Self.run { service in
      for query in ["", Self.toRouter] {
        let text = try await RawClient.exchange(
          port: service.port,
          [
            "GET /v1/profiles/\(Self.user)\(query) HTTP/1.1\r\nHost: a\r\nHost: b\r\n"
              + "Authorization: Bearer \(RunningService.serviceKey)\r\n\r\n"
              + "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          ])
        #expect(text.hasPrefix("HTTP/1.1 400"), "\(text)")
        #expect(text.contains("malformed_request"), "\(text)")
      }
    }
  }

  @Test func `a log line and a count are the router's`() async throws {
    try await Self.run { service in
      func note() -> [String: String]? {
        service.log.lines.last { $0.contains(#""message":"request""#) }.flatMap { line in
          (try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])?.mapValues { "\($0)" }
            .filter { !["time", "timestamp", "milliseconds", "request_id"].contains($0.key) }
        }
      }
      let path = "/v1/profiles/\(Self.user)/access"
      _ = try await service.send(.get, path + Self.toRouter)
      let line = try #require(note())
      #expect(line["route"] == "/v1/profiles/{user_id}/access" && line["status"] == "200", "\(line)")
      _ = try await service.send(.get, path)
      #expect(note() == line)
      let counted = try await service.send(.get, "/metrics", key: nil).text.split(separator: "\n").first {
        $0.hasPrefix("countersign_http_requests_total{") && $0.contains("/access") && $0.contains("\"200\"")
      }
      // The first fills the memory.
      #expect(counted?.hasSuffix(" 3") == true, "\(counted ?? "none")")
    }
  }

  @Test func `requests in one packet are answered in order`() async throws {
    try await Self.run { service in
      func get(_ path: String, _ more: String = "") -> String {
        "GET \(path) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(RunningService.serviceKey)\r\n\(more)\r\n"
      }
      let read = "/v1/profiles/\(Self.user)"
      let paths = [read, "/v1/profiles/user-2", read, read + "/access", "/livez", "/v1/plans", read]
      let text = try await RawClient.exchange(
        port: service.port,
        [
          paths.enumerated().map { get($1, "X-Request-Id: number-\($0)\r\n") }.joined()
            + get("/livez", "Connection: close, TE\r\n")
        ])
      let order = text.matches(of: /(?i)x-request-id: number-(\d)/).map { Int($0.1) }
      #expect(order == Array(0..<paths.count), "\(text)")
      #expect(text.ranges(of: "HTTP/1.1 200 OK").count == paths.count + 1)
    }
  }

  @Test(.ofTheFile) func `while the router answers, what follows is the router's`() async throws {
    try await Self.run { service in
      let channel = EmbeddedChannel(handler: CachedReadHandler(reads: service.reads))
      let read = Self.head("/v1/profiles/\(Self.user)")
      func receive(_ parts: HTTPRequestPart...) throws {
        for part in parts { try channel.writeInbound(part) }
      }
      func passedOn() throws -> [String] {
        var parts: [String] = []
        while let part = try channel.readInbound(as: HTTPRequestPart.self) {
          switch part {
          case .head(let head): parts.append("head \(head.method)")
          case .body: parts.append("body")
          case .end: parts.append("end")
          }
        }
        return parts
      }
      func sent() throws -> [String] {
        var parts: [String] = []
        while let part = try channel.readOutbound(as: HTTPResponsePart.self) {
          switch part {
          case .head(let head): parts.append("\(head.status.code)")
          case .body(let body): parts.append("\(body.readableBytes > 10)")
          case .end: parts.append("end")
          }
        }
        return parts
      }
      try receive(.head(read), .end(nil))
      #expect(try passedOn() == [])
      #expect(try sent() == ["200", "true", "end"])

      try receive(.head(Self.head("/v1/events", method: .post)), .end(nil), .head(read), .end(nil))
      #expect(try passedOn() == ["head POST", "end", "head GET", "end"])
      #expect(try sent() == [])
      for _ in 0..<2 {
        try channel.writeOutbound(HTTPResponsePart.head(HTTPResponse(status: .ok)))
        try channel.writeOutbound(HTTPResponsePart.end(nil))
      }
      #expect(try sent() == ["200", "end", "200", "end"])
      try receive(.head(read), .end(nil))
      #expect(try sent() == ["200", "true", "end"])

      // A body, if only an empty one, is for the router.
      try receive(.head(read), .body(ByteBuffer()), .end(nil))
      #expect(try passedOn() == ["head GET", "body", "end"])
      try channel.writeOutbound(HTTPResponsePart.end(nil))
      #expect(try sent() == ["end"])

      // A peer that takes no answers is waited for, and that is for the router.
      channel.isWritable = false
      try receive(.head(read), .end(nil))
      #expect(try passedOn() == ["head GET", "end"])
      _ = try? channel.finish()
    }
  }

  @Test(.ofTheFile) func `one packet does not hold up other connections`() async throws {
    try await Self.run { service in
      let channel = EmbeddedChannel(handler: CachedReadHandler(reads: service.reads))
      let read = Self.head("/v1/profiles/\(Self.user)")
      func receive(_ count: Int) -> (here: Int, byRouter: Int) {
        for _ in 0..<count {
          for part in [HTTPRequestPart.head(read), .end(nil)] { channel.pipeline.fireChannelRead(part) }
        }
        channel.pipeline.fireChannelReadComplete()
        var counts = (here: 0, byRouter: 0)
        while let part = try? channel.readOutbound(as: HTTPResponsePart.self) {
          if case .end = part { counts.here += 1 }
        }
        while let part = try? channel.readInbound(as: HTTPRequestPart.self) {
          if case .end = part { counts.byRouter += 1 }
        }
        return counts
      }
      #expect(receive(40) == (here: 32, byRouter: 8))
      for _ in 0..<8 { try channel.writeOutbound(HTTPResponsePart.end(nil)) }
      while try channel.readOutbound(as: HTTPResponsePart.self) != nil {}
      #expect(receive(32) == (here: 32, byRouter: 0))
      _ = try? channel.finish()
    }
  }

  @Test(arguments: [
    (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
    (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"), (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
  ])
  func `dates are written as HTTP has them`(second: Int, text: String) {
    #expect(HTTPDate.text(of: second) == text)
  }

  /// Sends a request both ways.
  /// - Returns: the status.
  private static func compare(
    _ service: RunningService, _ path: String, _ headers: [TransportHeader]
  ) async throws -> Int {
    let answer = try await service.send(.get, path, key: nil, headers: headers)
    let expected = try await service.send(.get, path + toRouter, key: nil, headers: headers)
    let comment = Comment("\(path) \(headers.map(\.name)) \(answer.text) \(expected.text)")
    #expect(answer.status == expected.status, comment)
    #expect(plain(answer) == plain(expected), comment)
    #expect(answer.headers.filter { isPlain($0) } == expected.headers.filter { isPlain($0) }, comment)
    for name in ["Date", "X-Request-Id"] {
      #expect(answer.header(name)?.count == expected.header(name)?.count && answer.header(name) != nil, comment)
    }
    return answer.status
  }

  /// The body without the request's own ID.
  private static func plain(_ answer: Answer) -> String {
    answer.text.replacing(/"request_id":"[^"]*"/, with: "")
  }

  private static func isPlain(_ header: TransportHeader) -> Bool {
    !["date", "x-request-id"].contains(header.name.lowercased())
  }
}
