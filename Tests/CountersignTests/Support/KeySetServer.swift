import NIOCore
import NIOPosix
import Synchronization

/// Publishes a key set by plain HTTP on this machine.
final class KeySetServer: Sendable {
  private let body: Mutex<String>
  private let channel = Mutex<(any Channel)?>(nil)

  private init(_ body: String) { self.body = Mutex(body) }

  func publish(_ body: String) { self.body.withLock { $0 = body } }

  /// Where the set is.
  var url: String {
    "http://127.0.0.1:\(channel.withLock { $0?.localAddress?.port ?? 0 })/auth/v1/.well-known/jwks.json"
  }

  static func running<Result: Sendable>(
    _ body: String, during test: @Sendable (KeySetServer) async throws -> Result
  ) async throws -> Result {
    let server = KeySetServer(body)
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(Responder { server.body.withLock { $0 } })
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    server.channel.withLock { $0 = channel }
    do {
      let result = try await test(server)
      try await channel.close()
      return result
    } catch {
      try? await channel.close()
      throw error
    }
  }

  /// Answers whatever was asked, once the head is there, and closes.
  private final class Responder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let body: @Sendable () -> String
    private var head = ""

    init(_ body: @escaping @Sendable () -> String) { self.body = body }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      head += String(buffer: unwrapInboundIn(data))
      guard head.hasSuffix("\r\n\r\n") else { return }
      let text = body()
      let answer =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(text.utf8.count)\r\n"
        + "Connection: close\r\n\r\n\(text)"
      let channel = context.channel
      context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer))).whenComplete { _ in
        channel.close(promise: nil)
      }
    }
  }
}
