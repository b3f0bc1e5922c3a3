import HTTPTransport
import Testing
import TestSupport

@testable import Countersign

/// The headers for browsers that every answer has, of whatever kind it is.
@Suite struct CommonHeadersTests {
  private static let own = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"

  private func expectAll(_ headers: [TransportHeader], _ what: String) {
    func values(_ name: String) -> [String] {
      headers.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }
    #expect(values("X-Content-Type-Options") == ["nosniff"], "\(what)")
    #expect(values("Referrer-Policy") == ["no-referrer"], "\(what)")
    #expect(values("Content-Security-Policy").count == 1, "\(what)")
    #expect(values("Content-Security-Policy").first?.contains("frame-ancestors 'none'") == true, "\(what)")
    #expect(values("Cache-Control").count == 1, "\(what)")
    #expect(values("Strict-Transport-Security") == [], "\(what)")
  }

  @Test func `pages, documents, problems and metrics all have them, once`() async throws {
    try await KnownReadTests.run(Settings(server: ["admin": "{ port: 0 }"], jwt: ["secret": TokenMint.secret])) {
      service in
      let read = "/v1/profiles/\(KnownReadTests.user)"
      let tag = try #require(try await service.send(.get, read).header("ETag"))
      for (path, status, caching, policy) in [
        ("/", 200, "no-cache", Self.own), ("/livez", 200, "no-store", Self.own),
        ("/openapi.yaml", 200, "no-cache", Self.own),
        ("/support", 200, "no-cache", "default-src 'none'; script-src 'self'"),
        ("/nothing", 404, "no-store", Self.own), (read, 200, "private, no-cache", Self.own),
        ("/v1/plans", 200, "public, max-age=300", Self.own), ("/v1/events", 200, "no-store", Self.own),
      ] {
        let answer = try await service.send(.get, path)
        #expect(answer.status == status && answer.header("Cache-Control") == caching, "\(path)")
        #expect(answer.header("Content-Security-Policy")?.hasPrefix(policy) == true, "\(path)")
        expectAll(answer.headers, path)
      }
      let known = try await service.send(.get, read, headers: [TransportHeader("If-None-Match", tag)])
      #expect(known.status == 304)
      expectAll(known.headers, read)
      expectAll(try await service.send(.get, read, key: "nobody's").headers, read)
      let admin = try #require(service.adminPort)
      for path in ["/metrics", "/readyz", "/nothing"] {
        expectAll(try await service.get(path, port: admin).headers, path)
      }
    }
  }

  @Test func `the answer to a text that is no HTTP has them, too`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      let text = try await service.exchange("nonsense\r\n\r\n")
      #expect(text.hasPrefix("HTTP/1.1 400 "))
      expectAll(
        text.matches(of: /\r\n([A-Za-z-]+): ([^\r\n]*)/).map { TransportHeader(String($0.1), String($0.2)) }, text)
    }
  }
}
