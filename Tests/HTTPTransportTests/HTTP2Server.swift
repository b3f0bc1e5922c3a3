import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

/// A server that speaks HTTP/2 over TLS, and answers each request with what a closure makes of its path and body; for
/// `nil` it closes the connection.
final class HTTP2Server: Sendable {
  typealias Answer = @Sendable (_ path: String, _ body: String) async -> String?

  let origin: String
  private let listener: any Channel
  private let counts: Counts

  private final class Counts: Sendable {
    let connections = Mutex<[any Channel]>([])
    let firstReset = Event()
  }

  var connectionsAccepted: Int { counts.connections.withLock { $0.count } }
  /// Fires when a client has given up a stream.
  var streamReset: Event { counts.firstReset }

  private init(listener: any Channel, origin: String, counts: Counts) {
    self.listener = listener
    self.origin = origin
    self.counts = counts
  }

  static func running<Result: Sendable>(
    identity: TestCertificateAuthority.Identity, answer: @escaping Answer,
    during body: (HTTP2Server) async throws -> Result
  ) async throws -> Result {
    let certificates = try NIOSSLCertificate.fromPEMBytes(Array(identity.certificatePEM.utf8))
    let key = try NIOSSLPrivateKey(bytes: Array(identity.privateKeyPEM.utf8), format: .pem)
    var tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: certificates.map { .certificate($0) }, privateKey: .privateKey(key))
    tls.applicationProtocols = ["h2"]
    let context = try NIOSSLContext(configuration: tls)
    let counts = Counts()
    let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        counts.connections.withLock { $0.append(channel) }
        return channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
          _ = try channel.pipeline.syncOperations.configureHTTP2Pipeline(
            mode: .server, connectionConfiguration: .init(), streamConfiguration: .init()
          ) { stream in
            stream.eventLoop.makeCompletedFuture {
              try stream.pipeline.syncOperations.addHandler(HTTP2FramePayloadToHTTP1ServerCodec())
              try stream.pipeline.syncOperations.addHandler(
                StreamAnswerer(answer) { counts.firstReset.fire() })
            }
          }
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    let server = HTTP2Server(
      listener: listener, origin: "https://127.0.0.1:\(listener.localAddress?.port ?? 0)", counts: counts)
    do {
      let result = try await body(server)
      await server.stop()
      return result
    } catch {
      await server.stop()
      throw error
    }
  }

  private func stop() async {
    try? await listener.close()
    for channel in counts.connections.withLock({ $0 }) { try? await channel.close() }
  }
}

/// One stream: reads a request, answers it.
private final class StreamAnswerer: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let answer: HTTP2Server.Answer
  private let onReset: @Sendable () -> Void
  private var path = ""
  private var body = ""

  init(_ answer: @escaping HTTP2Server.Answer, onReset: @escaping @Sendable () -> Void) {
    self.answer = answer
    self.onReset = onReset
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch Self.unwrapInboundIn(data) {
    case .head(let head): path = head.uri
    case .body(let bytes): body += String(buffer: bytes)
    case .end: respond(context.channel)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    onReset()
    context.close(promise: nil)
  }

  private func respond(_ channel: any Channel) {
    let (path, body, answer) = (path, body, answer)
    Task {
      guard let text = await answer(path, body) else {
        channel.parent?.close(promise: nil)
        return
      }
      channel.write(HTTPServerResponsePart.head(HTTPResponseHead(version: .http2, status: .ok)), promise: nil)
      channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: text))), promise: nil)
      channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
    }
  }
}
