import Foundation
import HTTPTransport
import Testing
import TestSupport

extension HTTPTransportTests {
  @Suite struct TLS {
    /// A server that must not be trusted.
    enum Impostor: String, CaseIterable, Sendable {
      case expired, notYetValid, otherAddress, otherAuthority, oldTLS

      func identity(_ bench: Bench) throws -> TestCertificateAuthority.Identity {
        switch self {
        case .expired:
          // 2021-01-01.
          try bench.authority.serverIdentity(validUntil: Date(timeIntervalSince1970: 1_609_459_200))
        case .notYetValid:
          // 2048-01-01.
          try bench.authority.serverIdentity(validFrom: Date(timeIntervalSince1970: 2_461_449_600))
        case .otherAddress:
          try bench.authority.serverIdentity(names: ["other.example"], addresses: ["127.0.0.2"])
        case .otherAuthority:
          try TestCertificateAuthority().serverIdentity()
        case .oldTLS:
          bench.identity
        }
      }
    }

    @Test(arguments: Impostor.allCases)
    func `a server that cannot prove who it is gets no request`(_ impostor: Impostor) async throws {
      let bench = try Bench()
      let received = Turnstile(1)
      try await RawTLSServer.running(
        identity: try impostor.identity(bench),
        isOld: impostor == .oldTLS
      ) { connection in
        if await connection.readRequest() != nil { received.pass() }
      } during: { server in
        try await bench.withTransport { transport in
          let error = await transport.outcome(.get(server.origin + "/?token=canary")).error
          guard case .tls(let reason) = error else {
            Issue.record("expected .tls, got \(String(describing: error))")
            return
          }
          #expect(!reason.contains("canary"))
        }
        #expect(server.connectionsAccepted == 1)
      }
      #expect(received.passed == 0)
    }

    @Test func `the system's authorities are not trusted beside a CA file, nor the CA file's beside the system's`()
      async throws
    {
      let bench = try Bench()
      try await RawTLSServer.answering(identity: bench.identity) { _ in
        TestAnswer()
      } during: { server in
        let transport = try CurlTransport(configuration: .init(caFile: nil))
        defer { transport.shutdown() }
        guard case .tls = await transport.outcome(.get(server.origin)).error else {
          Issue.record("the test's authority is none of the system's")
          return
        }
      }
    }

    @Test func `a server is known by its name`() async throws {
      let bench = try Bench()
      let identity = try bench.authority.serverIdentity(names: ["store.example"], addresses: [])
      try await RawTLSServer.answering(identity: identity) {
        TestAnswer(text: $0.header("Host") ?? "")
      } during: { server in
        let entries = ["store.example:\(server.port):127.0.0.1", "other.example:\(server.port):127.0.0.1"]
        try await bench.withTransport({ $0.resolve = entries }) { transport in
          let host = "store.example:\(server.port)"
          #expect(await transport.outcome(.get("https://\(host)/")).text == host)
          guard case .tls = await transport.outcome(.get("https://other.example:\(server.port)/")).error else {
            Issue.record("another name was accepted")
            return
          }
        }
      }
    }

    @Test func `a CA file that is missing or empty stops the start`() throws {
      #expect(throws: CurlTransport.SetupError.unusableCAFile("/nonexistent")) {
        try CurlTransport(configuration: .init(caFile: "/nonexistent"))
      }
      #expect(throws: CurlTransport.SetupError.unusableCAFile("/dev/null")) {
        try CurlTransport(configuration: .init(caFile: "/dev/null"))
      }
    }
  }
}
