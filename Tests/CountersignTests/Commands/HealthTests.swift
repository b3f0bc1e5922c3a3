import CountersignServer
import TestSupport
import Testing

@testable import Countersign

@Suite struct HealthTests {
  @Test func `the address is the operators' where there is one, else the service's, and none where the port is any`() {
    var server = ServerSettings()
    (server.host, server.port) = ("0.0.0.0", 9_000)
    #expect(server.localURL == "http://127.0.0.1:9000")
    server.host = "::"
    #expect(server.localURL == "http://[::1]:9000")
    server.tls = ServerSettings.TLS(certificateFile: "server.pem", keyFile: "server.key")
    #expect(server.localURL == "https://[::1]:9000")
    server.admin = ServerSettings.Admin(host: "127.0.0.1", port: 9_001)
    #expect(server.localURL == "http://127.0.0.1:9001")
    server.admin = ServerSettings.Admin(host: "127.0.0.1", port: 0)
    #expect(server.localURL == nil)
  }

  @Test func `a running service is alive, in TLS too, and neither nobody nor another program is`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      #expect(await Health.trouble(at: "http://127.0.0.1:\(service.port)") == nil)
      #expect(await Health.trouble(at: "https://127.0.0.1:\(service.port)") != nil)
    }
    let directory = try TemporaryDirectory()
    let identity = try TestCertificateAuthority().serverIdentity()
    let tls = try [
      "certificate_file": directory.write("server.pem", identity.certificatePEM),
      "key_file": directory.write("server.key", identity.privateKeyPEM),
    ]
    let settings = Settings(server: ["tls": "{ \(tls.map { "\($0): \($1)" }.joined(separator: ", ")) }"])
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      #expect(await Health.trouble(at: "https://127.0.0.1:\(service.port)") == nil)
    }
    let free = try ReservedPort()
    #expect(await Health.trouble(at: "http://127.0.0.1:\(free.number)") != nil)
    try await WebhookReceiver.running { other in
      other.answer(404)
      #expect(await Health.trouble(at: "http://127.0.0.1:\(other.port)") == "HTTP 404")
    }
  }
}
