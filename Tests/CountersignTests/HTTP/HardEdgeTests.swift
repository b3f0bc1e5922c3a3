import Foundation
import HTTPTransport
import NIOCore
import Testing

/// The requests and octets that reach the service before any of its own work is done.
@Suite struct HardEdgeTests {
  private func run(
    _ settings: Settings = Settings(), body: @Sendable (RunningService) async throws -> Void
  ) async throws {
    try await RunningService.run(apple: .unreachable, settings: settings, body: body)
  }

  private static func post(_ headers: [String], body: String = "") -> String {
    (["POST /v1/validations HTTP/1.1"] + headers).joined(separator: "\r\n") + "\r\n\r\n" + body
  }

  /// JSON of a caller.
  private static func json(_ more: String, body: String = "") -> String {
    post(["Host: a", authorization, "Content-Type: application/json", more], body: body)
  }

  private static let authorization = "Authorization: Bearer \(RunningService.serviceKey)"

  @Test func `a chunked body that grows too large is cut off`() async throws {
    try await run(Settings(server: ["max_body": "1024"])) { service in
      let chunk = "400\r\n" + String(repeating: "a", count: 1024) + "\r\n"
      let answer = try await service.exchange(
        Self.json("Transfer-Encoding: chunked")
          + chunk + chunk)
      #expect(answer.hasPrefix("HTTP/1.1 413 "))
    }
  }

  @Test func `bodies over the common budget are refused as overload`() async throws {
    let settings = Settings(server: ["max_body": "1MiB", "max_bytes_in_flight": "1MiB"])
    try await RunningService.run(apple: .unreachable, settings: settings, bodyPatience: .minutes(10)) { service in
      let holder = try await HeldConnection(port: service.port)
      try await holder.send(
        Self.json("Content-Length: 1048000"))
      let small = ["user_id": "u", "receipt_data": String(repeating: "a", count: 2000)]
      // Announced is not sent.
      for _ in 0..<30 { #expect(try await service.post(small).status == 400) }
      // The bytes of an answered post may return a moment after its answer, and would turn the holder away.
      try await eventually { try await service.gauge("countersign_http_body_bytes") == 0 }
      try await holder.send(String(repeating: "a", count: 1_047_999))
      // The bytes hold the budget as soon as they were read.
      try await eventually { try await service.gauge("countersign_http_body_bytes") == 1_047_999 }
      let answer = try await service.post(small)
      #expect(answer.status == 503)
      #expect(answer["code"] == "overloaded")
      #expect(answer.header("Retry-After") == "1")
      // Support's work does not wait for it.
      let asked = try await service.send(
        .post, "/v1/profiles/u/revalidation", key: RunningService.supportKey, body: #"{"note":"why"}"#)
      #expect(asked.status == 200)
      await holder.close()
    }
  }

  @Test func `notifications that are held back keep no caller waiting, and take what they send`() async throws {
    let settings = Settings(server: ["max_body": "1MiB", "max_bytes_in_flight": "1MiB"])
    try await RunningService.run(apple: .unreachable, settings: settings, bodyPatience: .minutes(10)) { service in
      let holder = try await HeldConnection(port: service.port)
      try await holder.send(
        Self.post(["Host: a", "Content-Length: 524288"])
          .replacing("/v1/validations", with: "/v1/notifications/app-store"))
      // Announced is not sent.
      let body = String(repeating: "a", count: 2000)
      for _ in 0..<30 { #expect(try await service.notify(body).status == 200) }
      // Nor does what is sent count where callers are read.
      try await holder.send(String(repeating: "a", count: 524_287))
      for _ in 0..<30 {
        #expect(try await service.post(["user_id": "u", "receipt_data": body]).status == 400)
      }
      await holder.close()
    }
  }

  @Test func `each body has a limit by what it is for, and is refused before it is read`() async throws {
    try await run { service in
      for (path, limit) in [
        ("/v1/validations", 4 << 20), ("/v1/notifications/app-store", 512 << 10), ("/v1/revalidations", 4 << 10),
        ("/v1/profiles/u/revalidation", 64 << 10), ("/v1/transactions/1/transfer", 64 << 10),
      ] {
        for key in [RunningService.serviceKey, RunningService.supportKey] {
          // Not one byte of the body is ever sent.
          let answer = try await service.exchange(
            Self.post([
              "Host: a", "Authorization: Bearer \(key)", "Content-Type: application/json",
              "Content-Length: \(limit + 1)",
            ]).replacing("/v1/validations", with: path))
          #expect(answer.hasPrefix("HTTP/1.1 413 ") || answer.hasPrefix("HTTP/1.1 403 "), "\(answer)")
          guard answer.hasPrefix("HTTP/1.1 413 ") else { continue }
          #expect(answer.contains("at most \(limit) bytes") && answer.contains(#""code":"payload_too_large""#))
          #expect(answer.lowercased().contains("connection: close"))
        }
      }
      let unknown = try await service.exchange(
        Self.post(["Host: a", "Content-Type: application/json", "Content-Length: 1000"]))
      #expect(unknown.hasPrefix("HTTP/1.1 401 "))
      #expect(unknown.lowercased().contains("www-authenticate: bearer"))
    }
  }

  @Test func `a body that stops coming is answered 408, which is worth another try`() async throws {
    try await RunningService.run(apple: .unreachable, bodyPatience: .milliseconds(100)) { service in
      let slow = Self.json("Content-Length: 1000", body: "{")
      for path in ["/v1/validations", "/v1/notifications/app-store"] {
        let answer = try await service.exchange(slow.replacing("/v1/validations", with: path))
        #expect(answer.hasPrefix("HTTP/1.1 408 "), "\(answer)")
        #expect(answer.contains(#""code":"request_timeout""#) && answer.contains(#""retryable":true"#))
        #expect(answer.lowercased().contains("connection: close") && answer.lowercased().contains("x-request-id: "))
        #expect(answer.components(separatedBy: "HTTP/1.1 ").count == 2)
      }
      // Behind a request that is answered it gets its own.
      let both = try await service.exchange("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n" + slow)
      let statuses = both.components(separatedBy: "HTTP/1.1 ").dropFirst().map { $0.prefix(3) }
      #expect(statuses == ["200", "408"])
    }
  }

  @Test func `a path is found only as it is registered`() async throws {
    try await run { service in
      for path in [
        "//metrics", "/metrics/", "/metrics//", "//v1/brake", "/v1//brake", "/v1/brake/", "/livez/", "//", "/support//",
        "http://a//metrics", "/metrics/?x=1",
      ] {
        let answer = try await service.exchange(
          "GET \(path) HTTP/1.1\r\nHost: a\r\n\(Self.authorization)\r\nConnection: close\r\n\r\n")
        #expect(answer.hasPrefix("HTTP/1.1 404 ") && answer.contains(#""code":"not_found""#), "\(path): \(answer)")
      }
    }
  }

  @Test func `a request that is not clean HTTP, with one host, gets a problem and the end of the connection`()
    async throws
  {
    try await run { service in
      for request in [
        "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
        "GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 17_000) + "\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: a\r\n" + String(repeating: "X: y\r\n", count: 65) + "\r\n",
        "POST /v1/validations HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST /v1/validations HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost : a\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET /livez\r\n\r\n",
        "GET /livez HTTP/0.9\r\nHost: a\r\n\r\n",
        "GET /livez HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET /livez HTTP/2.0\r\nHost: a\r\n\r\nGET /livez HTTP/2.0\r\nHost: a\r\n\r\n",
      ] {
        let answer = try await service.exchange(request)
        #expect(answer.hasPrefix("HTTP/1.1 400 "), "\(request.prefix(80))")
        #expect(answer.contains(#""code":"malformed_request""#))
        #expect(answer.components(separatedBy: "HTTP/1.1 ").count == 2)
      }
      // A broken chunk is the client's fault as well.
      for chunk in ["zz\r\n", "5\r\nabcdeXX"] {
        let answer = try await service.exchange(
          Self.json("Transfer-Encoding: chunked")
            + chunk)
        #expect(answer.hasPrefix("HTTP/1.1 400 "), "\(answer)")
      }
    }
  }

  @Test func `a connection that sends no whole head is closed`() async throws {
    try await run(Settings(server: ["idle_timeout": "200ms"])) { service async throws in
      for start in ["", "GET /livez HTTP/1.1\r\nHos"] {
        #expect(try await service.exchange(start).isEmpty)
      }
    }
  }

  @Test func `a body that never arrives does not hold the connection`() async throws {
    try await run(Settings(server: ["request_deadline": "300ms"], appStore: ["deadline": "100ms"])) { service in
      let answer = try await service.exchange(Self.json("Content-Length: 1000", body: "{"))
      #expect(answer.isEmpty)
    }
  }
}

extension Apple {
  /// Nobody listens there.
  static let unreachable = Apple(
    productionURL: "https://127.0.0.1:1/verifyReceipt", sandboxURL: "https://127.0.0.1:1/verifyReceipt",
    caFile: "/etc/ssl/certs/ca-certificates.crt")
}
