import Foundation
import HTTPTransport
import Testing
import TestSupport

extension HTTPTransportTests {
  @Suite struct Reach {
    @Test func `a redirect is an answer, not an order`() async throws {
      let bench = try Bench()
      try await RawTLSServer.answering(identity: bench.identity) { _ in
        TestAnswer()
      } during: { trap in
        try await RawTLSServer.answering(identity: bench.identity) { _ in
          TestAnswer(status: 302, headers: [("Location", trap.origin + "/trap")])
        } during: { server in
          try await bench.withTransport { transport in
            let response = try await transport.send(.get(server.origin))
            #expect(response.status == 302)
            #expect(response.header("location") == trap.origin + "/trap")
          }
        }
        #expect(trap.connectionsAccepted == 0)
      }
    }

    @Test func `a port where nobody listens is a failure to connect`() async throws {
      let port = try ReservedPort()
      defer { withExtendedLifetime(port) {} }
      try await Bench().withTransport { transport in
        #expect(await transport.outcome(.get("https://127.0.0.1:\(port.number)/")).error == .connect)
      }
    }

    @Test func `a name that does not resolve is told apart from a host that does not answer`() async throws {
      try await Bench().withTransport { transport in
        // A label has at most 63 characters (RFC 1035, section 2.3.4): no look-up leaves the machine.
        let label = String(repeating: "a", count: 64)
        #expect(await transport.outcome(.get("https://\(label).invalid/")).error == .resolve)
      }
    }

    @Test func `a handshake that stalls ends at the connect timeout, as a failure to connect`() async throws {
      let bench = try Bench()
      // Plain TCP: the client's hello is read and never answered.
      try await RawTLSServer.running(identity: nil) {
        await $0.waitForClose()
      } during: { server in
        try await bench.withTransport({ $0.connectTimeout = .milliseconds(200) }) { transport in
          #expect(await transport.outcome(.get("https://127.0.0.1:\(server.port)/")).error == .connect)
        }
      }
    }

    @Test func `plain HTTP works where it is allowed, and only there`() async throws {
      let bench = try Bench()
      try await RawTLSServer.answering(identity: nil) {
        TestAnswer(text: $0.text)
      } during: { server in
        try await bench.withTransport { transport in
          #expect(
            await transport.outcome(.get(server.origin)).error == .invalidRequest("the URL's scheme is not allowed"))
        }
        #expect(server.connectionsAccepted == 0)
        try await bench.withTransport({ $0.allowedSchemes = [.http, .https] }) { transport in
          #expect(await transport.outcome(.post(server.origin, "hello")).text == "hello")
        }
      }
    }

    /// In a process of its own, as libcurl reads its environment when it starts.
    @Test func `proxies and a key log in the environment are not obeyed`() async {
      await #expect(processExitsWith: .success) {
        let keyLog = FileManager.default.temporaryDirectory.appending(path: "keylog-\(UUID().uuidString)").path
        let bench = try Bench()
        try await RawTLSServer.running(identity: nil) {
          _ = await $0.read()
        } during: { trap in
          func set(_ names: [String], _ value: String) { for name in names { setenv(name, value, 1) } }
          let proxies = ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
          set(proxies, trap.origin)
          set(["SSLKEYLOGFILE"], keyLog)
          set(["SSL_CERT_FILE", "CURL_CA_BUNDLE"], "/dev/null")
          try await RawTLSServer.answering(identity: bench.identity) { _ in
            TestAnswer(text: "fine")
          } during: { server in
            try await bench.withTransport { transport in
              // The start has cleared the environment; set it once more to show that the options hold by themselves.
              set(proxies, trap.origin)
              #expect(await transport.outcome(.get(server.origin)).text == "fine")
            }
            #expect(server.connectionsAccepted == 1)
          }
          #expect(trap.connectionsAccepted == 0)
        }
        #expect(!FileManager.default.fileExists(atPath: keyLog))
      }
    }
  }
}
