import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// A server on the loopback that does on each connection what a script says, over TLS or in the clear.
///
/// Nothing here knows better than the script: it may answer well, late, wrongly or never. Use `running` or `answering`,
/// which stop the server whatever happens.
package final class RawTLSServer: Sendable {
  /// The server's part on a connection; when it returns or throws, the connection is closed.
  package typealias Script = @Sendable (RawConnection) async throws -> Void

  package let port: Int
  /// `https://127.0.0.1:PORT`, or `http://…` without TLS.
  package let origin: String

  struct State {
    var accepted = 0
    var open: [Int: any Channel] = [:]
    var scripts: [Int: Task<Void, Never>] = [:]
    var requests: [TestRequest] = []
    var isStopped = false
  }

  private let listener: any Channel
  private let state: SharedState

  /// The state, apart from the server so that the acceptor can hold it before the server exists.
  final class SharedState: Sendable {
    let guarded = Mutex(State())
  }

  /// Connections accepted so far, whether or not their handshake succeeded.
  package var connectionsAccepted: Int { state.guarded.withLock { $0.accepted } }
  /// The requests that an `answering` server has read, oldest first.
  package var requests: [TestRequest] { state.guarded.withLock { $0.requests } }

  /// Starts a server on a free port of 127.0.0.1, runs `body`, stops the server.
  ///
  /// - Parameters:
  ///   - identity: the server's certificate; `nil` speaks plain HTTP.
  ///   - isOld: whether it speaks TLS 1.0 and 1.1, and not 1.2 and 1.3.
  ///   - mute: the numbers of the connections whose handshake is never answered; their scripts see the client's hello.
  package static func running<Result: Sendable>(
    identity: TestCertificateAuthority.Identity?,
    isOld: Bool = false,
    mute: Set<Int> = [],
    script: @escaping Script,
    during body: (RawTLSServer) async throws -> Result
  ) async throws -> Result {
    try await start(identity: identity, isOld: isOld, mute: mute, script: script).stopped(after: body)
  }

  /// Starts a server that answers every HTTP/1.1 request by a closure and keeps connections alive; runs `body`; stops it.
  package static func answering<Result: Sendable>(
    identity: TestCertificateAuthority.Identity?,
    answer: @escaping @Sendable (TestRequest) async throws -> TestAnswer,
    during body: (RawTLSServer) async throws -> Result
  ) async throws -> Result {
    let state = SharedState()
    let server = try await start(identity: identity, state: state) { connection in
      while let request = await connection.readRequest() {
        state.guarded.withLock { $0.requests.append(request) }
        let answer = try await answer(request)
        try await connection.write(answer)
        if answer.closes { return }
      }
    }
    return try await server.stopped(after: body)
  }

  /// Closes the listener and every connection, and waits for the scripts to end. May be called twice.
  package func stop() async {
    let (channels, scripts) = state.guarded.withLock { state in
      state.isStopped = true
      return (Array(state.open.values), Array(state.scripts.values))
    }
    try? await listener.close()
    for channel in channels { try? await channel.triggerUserOutboundEvent(SocketEnd.fin) }
    for script in scripts { script.cancel() }
    for script in scripts { await script.value }
  }

  private init(listener: any Channel, port: Int, scheme: String, state: SharedState) {
    self.listener = listener
    self.port = port
    self.origin = "\(scheme)://127.0.0.1:\(port)"
    self.state = state
  }

  private func stopped<Result: Sendable>(after body: (RawTLSServer) async throws -> Result) async throws -> Result {
    do {
      let result = try await body(self)
      await stop()
      return result
    } catch {
      await stop()
      throw error
    }
  }

  /// As `running`, for those who call `stop()` themselves. Port 0 is a free one.
  static func start(
    identity: TestCertificateAuthority.Identity?, port wanted: Int = 0, isOld: Bool = false, mute: Set<Int> = [],
    state: SharedState = SharedState(), script: @escaping Script
  ) async throws -> RawTLSServer {
    let tls = try identity.map { try context($0, isOld: isOld) }
    let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let (stream, feed) = AsyncStream<[UInt8]>.makeStream()
          let number = state.guarded.withLock { state in
            state.accepted += 1
            return state.accepted
          }
          try channel.pipeline.syncOperations.addHandler(SocketEnder())
          if let tls, !mute.contains(number) {
            try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls))
          }
          try channel.pipeline.syncOperations.addHandler(StreamFeeder(feed))
          run(script, as: number, on: channel, reading: stream, state: state)
        }
      }
      .bind(host: "127.0.0.1", port: wanted).get()
    guard let port = listener.localAddress?.port else { throw ChannelError.unknownLocalAddress }
    return RawTLSServer(listener: listener, port: port, scheme: tls == nil ? "http" : "https", state: state)
  }

  private static func run(
    _ script: @escaping Script, as number: Int, on channel: any Channel, reading stream: AsyncStream<[UInt8]>,
    state: SharedState
  ) {
    state.guarded.withLock { guarded in
      guarded.open[number] = channel
      guarded.scripts[number] = Task {
        // A script that throws has lost its client; what the client makes of that is the test's subject.
        try? await script(RawConnection(number: number, channel: channel, incoming: stream))
        try? await channel.close()
        state.guarded.withLock { state in
          state.open[number] = nil
          state.scripts[number] = nil
        }
      }
      if guarded.isStopped { channel.close(promise: nil) }
    }
  }

  private static func context(_ identity: TestCertificateAuthority.Identity, isOld: Bool) throws -> NIOSSLContext {
    let certificates = try NIOSSLCertificate.fromPEMBytes(Array(identity.certificatePEM.utf8))
    let key = try NIOSSLPrivateKey(bytes: Array(identity.privateKeyPEM.utf8), format: .pem)
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: certificates.map { .certificate($0) }, privateKey: .privateKey(key))
    configuration.minimumTLSVersion = isOld ? .tlsv1 : .tlsv12
    configuration.maximumTLSVersion = isOld ? .tlsv11 : .tlsv13
    return try NIOSSLContext(configuration: configuration)
  }
}
