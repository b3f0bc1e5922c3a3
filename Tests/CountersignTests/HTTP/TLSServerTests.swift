import Foundation
import HTTPTransport
import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS
import Synchronization
import TestSupport
import Testing

@testable import Countersign

/// The service with a certificate of its own.
@Suite struct TLSServerTests {
  /// The files that the service reads, in a directory that goes with the test.
  private struct Files: Sendable {
    let directory: TemporaryDirectory
    let certificate: String
    let key: String

    init(_ identity: TestCertificateAuthority.Identity, intermediates: String = "") throws {
      directory = try TemporaryDirectory()
      certificate = try directory.write("server.pem", identity.certificatePEM + "\n" + intermediates)
      key = try directory.write("server.key", identity.privateKeyPEM)
    }

    var settings: Settings {
      Settings(server: ["tls": "{ certificate_file: \"\(certificate)\", key_file: \"\(key)\" }"])
    }

    func replace(with identity: TestCertificateAuthority.Identity) throws {
      _ = try directory.write("server.key", identity.privateKeyPEM)
      _ = try directory.write("server.pem", identity.certificatePEM)
    }
  }

  private static func get(_ path: String, port: Int, caFile: String) async throws -> TransportResponse {
    var configuration = CurlTransport.Configuration(caFile: caFile)
    configuration.allowedSchemes = [.https]
    let client = try CurlTransport(configuration: configuration)
    defer { client.shutdown() }
    return try await client.send(
      TransportRequest(method: .get, url: "https://localhost:\(port)\(path)", responseBodyLimit: 1 << 20),
      deadline: .now.advanced(by: .seconds(60)))
  }

  /// A handshake as a client of NIO sees it.
  private struct Handshake {
    var version: TLSVersion?
    var protocolName: String?
    /// As it was sent, the server's own first.
    var chain: [NIOSSLCertificate]
  }

  private static func handshake(
    port: Int, maximum: TLSVersion? = nil, suites: String? = nil
  ) async throws -> Handshake {
    var configuration = TLSConfiguration.makeClientConfiguration()
    if let suites { configuration.cipherSuites = suites }
    configuration.applicationProtocols = ["h2", "http/1.1"]
    configuration.minimumTLSVersion = .tlsv1
    configuration.maximumTLSVersion = maximum
    let context = try NIOSSLContext(configuration: configuration)
    let chain = Mutex<[NIOSSLCertificate]>([])
    let observer = HandshakeObserver(done: MultiThreadedEventLoopGroup.singleton.next().makePromise())
    let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          // Only looks at what is shown; that it can be trusted is for the tests with another client.
          let tls = try NIOSSLClientHandler(
            context: context, serverHostname: "localhost",
            customVerificationCallback: { shown, promise in
              chain.withLock { $0 = shown }
              promise.succeed(.certificateVerified)
            })
          try channel.pipeline.syncOperations.addHandler(tls)
          try channel.pipeline.syncOperations.addHandler(observer)
        }
      }
      .connect(host: "127.0.0.1", port: port).get()
    let name = try await observer.done.futureResult.get()
    let version = try await channel.pipeline.handler(type: NIOSSLClientHandler.self).flatMapThrowing(\.tlsVersion).get()
    try? await channel.close()
    return chain.withLock { Handshake(version: version, protocolName: name, chain: $0) }
  }

  @Test func `requests are answered in TLS, and nothing is in plain HTTP`() async throws {
    let authority = try TestCertificateAuthority()
    let files = try Files(authority.serverIdentity())
    try await RunningService.run(apple: .unreachable, settings: files.settings) { service in
      let answer = try await Self.get("/livez", port: service.port, caFile: authority.caFile)
      #expect(answer.status == 200)
      #expect(String(decoding: answer.body, as: UTF8.self) == #"{"status":"ok"}"# + "\n")
      for path in ["/support", "/nothing"] {
        let headers = try await Self.get(path, port: service.port, caFile: authority.caFile).headers
        #expect(
          headers.filter { $0.name.lowercased() == "strict-transport-security" }.map(\.value)
            == ["max-age=31536000; includeSubDomains"])
      }
      let plain = try await service.exchange("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
      #expect(!plain.contains("HTTP/1.1"))
    }
  }

  @Test func `a client that trusts another authority gets nothing`() async throws {
    let files = try Files(TestCertificateAuthority().serverIdentity())
    let other = try TestCertificateAuthority(commonName: "Another Root")
    try await RunningService.run(apple: .unreachable, settings: files.settings) { service in
      let error = await #expect(throws: TransportError.self) {
        try await Self.get("/livez", port: service.port, caFile: other.caFile)
      }
      guard case .tls? = error else { throw RunningService.Failure("\(String(describing: error))") }
    }
  }

  @Test func `HTTP 1.1 is agreed on, in TLS 1.2 and 1.3, and older TLS is refused`() async throws {
    let authority = try TestCertificateAuthority()
    let files = try Files(authority.serverIdentity(), intermediates: authority.rootPEM)
    try await RunningService.run(apple: .unreachable, settings: files.settings) { service in
      let newest = try await Self.handshake(port: service.port)
      #expect(newest.version == .tlsv13)
      #expect(newest.protocolName == "http/1.1")
      // The chain is sent as the file has it, each once.
      #expect(newest.chain.count == 2)
      let older = try await Self.handshake(port: service.port, maximum: .tlsv12)
      #expect(older.version == .tlsv12)
      await #expect(throws: (any Error).self) {
        try await Self.handshake(port: service.port, maximum: .tlsv11)
      }
    }
  }

  @Test func `only TLS 1.2 suites with forward secrecy and authenticated encryption are agreed on`()
    async throws
  {
    let files = try Files(TestCertificateAuthority().serverIdentity())
    try await RunningService.run(apple: .unreachable, settings: files.settings) { service in
      for suite in [
        "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305",
      ] {
        let agreed = try await Self.handshake(port: service.port, maximum: .tlsv12, suites: suite)
        #expect(agreed.version == .tlsv12, "\(suite)")
      }
      for suite in [
        "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES128-SHA", "AES128-SHA", "AES128-GCM-SHA256",
      ] {
        await #expect(throws: (any Error).self, "\(suite)") {
          try await Self.handshake(port: service.port, maximum: .tlsv12, suites: suite)
        }
      }
    }
  }

  @Test func `a renewed certificate is shown without a restart, and a bad one is not`() async throws {
    let authority = try TestCertificateAuthority()
    let files = try Files(authority.serverIdentity())
    try await RunningService.run(apple: .unreachable, settings: files.settings) { service in
      let before = try await Self.handshake(port: service.port).chain.first
      // A certificate whose key is not there: the one before stays.
      _ = try files.directory.write("server.pem", authority.serverIdentity().certificatePEM)
      try await eventually { service.log.text.contains("the server's new certificate cannot be used") }
      #expect(try await Self.handshake(port: service.port).chain.first == before)

      let end = Date(timeIntervalSince1970: 2_400_000_000)
      try files.replace(with: authority.serverIdentity(validUntil: end))
      try await eventually { service.log.text.contains("the server's certificate was renewed") }
      let after = try await Self.handshake(port: service.port).chain.first
      #expect(after != before)
      #expect(after?.notValidAfter == 2_400_000_000)
      let metrics = try await Self.get("/metrics", port: service.port, caFile: authority.caFile)
      let page = try Exposition(String(decoding: metrics.body, as: UTF8.self))
      #expect(page["countersign_tls_certificate_expiry_timestamp_seconds"] == 2_400_000_000)
      #expect(!service.log.text.contains("PRIVATE KEY"))
    }
  }

  @Test(arguments: ["", "\u{16}\u{3}\u{1}"])
  func `a client that does not finish the handshake is cut off`(hello: String) async throws {
    let authority = try TestCertificateAuthority()
    let files = try Files(authority.serverIdentity())
    var settings = files.settings
    // Time enough for the handshake below on a busy machine.
    settings.server["idle_timeout"] = "2s"
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      let start = ContinuousClock.now
      // Returns when the service has closed the connection; without a limit that would be never.
      let answer = try await service.exchange(hello)
      // An alert of TLS at most.
      #expect(!answer.contains("HTTP"))
      #expect(start.duration(to: .now) < .seconds(60))
      #expect(try await Self.get("/livez", port: service.port, caFile: authority.caFile).status == 200)
    }
  }

  @Test func `a handshake and then silence is cut off too`() async throws {
    let authority = try TestCertificateAuthority()
    let files = try Files(authority.serverIdentity())
    var settings = files.settings
    settings.server["idle_timeout"] = "300ms"
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      var configuration = TLSConfiguration.makeClientConfiguration()
      configuration.trustRoots = .file(authority.caFile)
      let context = try NIOSSLContext(configuration: configuration)
      let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(
              NIOSSLClientHandler(context: context, serverHostname: "localhost"))
          }
        }
        .connect(host: "127.0.0.1", port: service.port).get()
      try await channel.closeFuture.get()
    }
  }

  @Test func `a body that is too large is refused in TLS as well`() async throws {
    let authority = try TestCertificateAuthority()
    let files = try Files(authority.serverIdentity())
    try await RunningService.run(apple: .unreachable, settings: files.settings) { service in
      let client = try CurlTransport(configuration: CurlTransport.Configuration(caFile: authority.caFile))
      defer { client.shutdown() }
      let answer = try await client.send(
        TransportRequest(
          method: .post, url: "https://localhost:\(service.port)/v1/validations",
          headers: [
            TransportHeader("Authorization", "Bearer \(RunningService.serviceKey)"),
            TransportHeader("Content-Type", "application/json"),
          ], body: Array(repeating: UInt8(ascii: "a"), count: 5_000_000), responseBodyLimit: 1 << 20),
        deadline: .now.advanced(by: .seconds(60)))
      #expect(answer.status == 413)
    }
  }
}

/// Tells what was agreed on, when the handshake is over.
private final class HandshakeObserver: ChannelInboundHandler, Sendable {
  typealias InboundIn = ByteBuffer

  let done: EventLoopPromise<String?>

  init(done: EventLoopPromise<String?>) { self.done = done }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case .handshakeCompleted(let name)? = event as? TLSUserEvent { done.succeed(name) }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    done.fail(error)
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    done.fail(ChannelError.eof)
    context.fireChannelInactive()
  }
}
