import Foundation
import HTTPTransport
import Testing
import TestSupport

@testable import CountersignServer

/// Reads that are answered from memory: nothing in them waits, so that their task ends where it began.
@Suite struct KnownReadTests {
  static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

  static func run(
    _ settings: Settings = Settings(
      server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret, "audience": "authenticated"]),
    now: @escaping @Sendable () -> Date = { noon }, body: @Sendable (RunningService) async throws -> Void
  ) async throws {
    try await RunningService.run(apple: .unreachable, settings: settings, now: now) { service in
      let grant = #"{"tier":"pro","for":"1d","note":"a test"}"#
      #expect(try await service.send(.post, "/v1/profiles/\(user)/grants", body: grant).status == 201)
      // Read once, they are in memory.
      for path in ["", "/access"] {
        #expect(try await service.send(.get, "/v1/profiles/\(user)\(path)").status == 200)
      }
      try await body(service)
    }
  }

  @Test func `a user who asks too often is refused`() async throws {
    let settings = Settings(
      server: ["user_rate_limit": "3"], jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
    try await Self.run(settings) { service in
      let token = try TokenMint.user(Self.user, at: noon)
      var answers: [Answer] = []
      // The bucket fills at three a second.
      for _ in 0..<64 where answers.last?.status != 429 {
        answers.append(try await service.send(.get, "/v1/profiles/me", key: token))
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

  @Test func `an address that asks too often is refused`() async throws {
    let settings = Settings(
      server: ["user_rate_limit": "0", "address_rate_limit": "3", "trusted_proxies": "[127.0.0.1]"],
      jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
    try await Self.run(settings) { service in
      let token = try TokenMint.user(Self.user, at: noon)
      let path = "/v1/profiles/me"
      var answers: [Answer] = []
      // The bucket fills at three a second.
      for _ in 0..<64 where answers.last?.status != 429 {
        let from = TransportHeader("X-Forwarded-For", "203.0.113.7")
        answers.append(try await service.send(.get, path, key: token, headers: [from]))
      }
      let refused = try #require(answers.last)
      #expect(refused.status == 429)
      #expect(refused["code"] == "rate_limited" && refused.text.contains("from this address"), "\(refused.text)")
      let other = TransportHeader("X-Forwarded-For", "203.0.113.8")
      #expect(try await service.send(.get, path, key: token, headers: [other]).status == 200)
    }
  }

  /// A token that no key of ours signed is refused with 401 otherwise.
  @Test func `for an address that asks too often no credential is looked at`() async throws {
    try await Self.run(
      Settings(
        server: ["address_rate_limit": "1", "trusted_proxies": "[127.0.0.1]"], jwt: ["secret": TokenMint.secret])
    ) { service in
      let from = TransportHeader("X-Forwarded-For", "203.0.113.7")
      var statuses: [Int] = []
      // The bucket fills at one a second.
      for _ in 0..<64 where statuses.last != 429 {
        statuses.append(try await service.send(.get, "/v1/profiles/me", key: "nobody's", headers: [from]).status)
      }
      #expect(statuses.first == 401 && statuses.last == 429, "\(statuses)")
    }
  }

  @Test func `a request that HTTP forbids is refused`() async throws {
    try await Self.run { service in
      let text = try await service.exchange(
        "GET /v1/profiles/\(Self.user) HTTP/1.1\r\nHost: a\r\nHost: b\r\n"
          + "Authorization: Bearer \(RunningService.serviceKey)\r\n\r\n"
          + "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      #expect(text.hasPrefix("HTTP/1.1 400"), "\(text)")
      #expect(text.contains("malformed_request"), "\(text)")
    }
  }

  @Test(arguments: ["https://app.example.com", "https://evil.example.com"])
  func `pages of the app's own origins may read, and no others`(origin: String) async throws {
    var settings = Settings(server: ["page_origins": #"["https://app.example.com"]"#])
    settings.dialects = ["openiap"]
    try await Self.run(settings) { service in
      let path = "/v1/profiles/\(Self.user)"
      let answer = try await service.send(.get, path, headers: [TransportHeader("Origin", origin)])
      #expect(answer.status == 200)
      #expect(answer.headers.contains { $0.name.lowercased() == "vary" && $0.value == "Origin" })
      #expect(
        answer.header("Access-Control-Allow-Origin") == (origin.contains("evil") ? nil : "https://app.example.com"))
    }
  }

  @Test func `a read has a log line and a count`() async throws {
    try await Self.run { service in
      let path = "/v1/profiles/\(Self.user)/access"
      _ = try await service.send(.get, path)
      let line = try #require(service.log.lines.last { $0.contains(#""message":"request""#) })
      for member in [
        #""method":"GET""#, #""route":"/v1/profiles/{user_id}/access""#, #""status":200"#, #""milliseconds":"#,
        #""request_id":""#,
      ] {
        #expect(line.contains(member), "\(line)")
      }
      let counted = try await service.send(.get, "/metrics", key: nil).text.split(separator: "\n").first {
        $0.hasPrefix("countersign_http_requests_total{") && $0.contains("/access") && $0.contains("\"200\"")
      }
      // The first fills the memory.
      #expect(counted?.hasSuffix(" 2") == true, "\(counted ?? "none")")
    }
  }

  @Test func `requests in one packet are answered in order`() async throws {
    try await Self.run { service in
      func get(_ path: String, _ more: String = "") -> String {
        "GET \(path) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(RunningService.serviceKey)\r\n\(more)\r\n"
      }
      let read = "/v1/profiles/\(Self.user)"
      let paths = [read, "/v1/profiles/user-2", read, read + "/access", "/livez", "/v1/plans", read]
      let text = try await service.exchange(
        paths.enumerated().map { get($1, "X-Request-Id: number-\($0)\r\n") }.joined()
          + get("/livez", "Connection: close, TE\r\n"))
      let order = text.matches(of: /(?i)x-request-id: number-(\d)/).map { Int($0.1) }
      #expect(order == Array(0..<paths.count), "\(text)")
      #expect(text.ranges(of: "HTTP/1.1 200 OK").count == paths.count + 1)
    }
  }

  @Test(arguments: [
    (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
    (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"), (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
  ])
  func `dates are written as HTTP has them`(second: Int, text: String) {
    #expect(HTTPDate.text(of: second) == text)
  }
}
