import HTTPTransport
import HTTPTypes
import Hummingbird
import NIOCore
import Testing

@testable import Countersign
@testable import CountersignServer

/// The paths that each address serves, with and without an address for operators.
@Suite struct AdminAddressTests {
  @Test func `without an address of their own, operators are served at the public one`() async throws {
    try await RunningService.run(apple: .unreachable) { service async throws in
      #expect(service.adminPort == nil)
      for path in ["/livez", "/readyz", "/metrics"] {
        #expect(try await service.get(path, port: service.port).status == 200, "\(path)")
      }
    }
  }

  @Test
  func `the public address has liveness and the API, and the operators' address has no API, under its own names alone`()
    async throws
  {
    try await RunningService.run(apple: .unreachable, settings: Settings(server: ["admin": "{ port: 0 }"])) { service in
      let admin = try #require(service.adminPort)
      #expect(admin != service.port)
      for (path, open, operators) in [
        ("/livez", 200, 200), ("/readyz", 404, 200), ("/metrics", 404, 200), ("/v1/brake", 401, 404),
        ("/v1/profiles/user-1", 401, 404), ("/v1/validations", 401, 404), ("/nothing", 404, 404),
      ] {
        #expect(try await service.get(path, port: service.port).status == open, "\(path)")
        #expect(try await service.get(path, port: admin).status == operators, "\(path)")
      }
      #expect(try await service.profile().status == 200)
      // Requests at both are counted.
      let text = try await service.get("/metrics", port: admin).text
      let line = #"countersign_http_requests_total{route="/livez",method="GET",code="200"} 2"#
      #expect(text.contains(line))

      // A page of another name is led to the operators' address by DNS, and its browser sends that name.
      func answer(_ host: String, port: Int) async throws -> String {
        try await RawClient.exchange(
          port: port, ["GET /livez HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n"])
      }
      for host in [
        "127.0.0.1:\(admin)", "127.0.0.1", "localhost:\(admin)", "LOCALHOST", "[::1]:\(admin)", "10.0.0.7:9464",
      ] {
        #expect(try await answer(host, port: admin).hasPrefix("HTTP/1.1 200 "), "\(host)")
      }
      for host in [
        "evil.example", "evil.example:\(admin)", "localhost.evil.example", "127.0.0.1.evil.example", "[evil]",
      ] {
        let refused = try await answer(host, port: admin)
        #expect(refused.hasPrefix("HTTP/1.1 421 ") && refused.contains(#""code":"misdirected_request""#), "\(refused)")
        #expect(try await answer(host, port: service.port).hasPrefix("HTTP/1.1 200 "), "\(host)")
      }
    }
  }

  @Test func `a name that operators are served under is the configured one`() throws {
    for (authority, isOwn) in [("countersign:9464", true), ("countersign", true), ("countersign.evil", false)] {
      var isRefused = false
      do throws(Problem) { try RequestFront.requireOwn(authority, "Countersign") } catch {
        isRefused = error.code == .misdirectedRequest
      }
      #expect(isRefused != isOwn, "\(authority)")
    }
  }

  @Test func `a host that does not resolve is named`() async throws {
    // Too long to be asked of a name server.
    let host = String(repeating: "a", count: 300)
    let error = await #expect(throws: ListeningError.self) {
      try await RunningService.run(apple: .unreachable, settings: Settings(server: ["host": host])) { _ in }
    }
    #expect(
      error?.description == "server.host: \(host) does not resolve; write an IPv6 address without brackets.")
  }

  @Test func `a port for operators that is taken is named`() async throws {
    try await RunningService.run(apple: .unreachable) { taken in
      let error = await #expect(throws: ListeningError.self) {
        try await RunningService.run(
          apple: .unreachable, settings: Settings(server: ["admin": "{ port: \(taken.port) }"])
        ) { _ in }
      }
      #expect(
        error?.description
          == "server.admin.port: something listens on 127.0.0.1:\(taken.port) already; stop it, or set another port.")
    }
  }
}
