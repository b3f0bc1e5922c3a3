import NIOCore
import NIOPosix

/// A connection to the service that a test keeps, and that says and hears what the test likes.
final class HeldConnection: Sendable {
  private let channel: any Channel
  private let heard: AsyncStream<String>

  init(host: String = "127.0.0.1", port: Int) async throws {
    let (heard, feed) = AsyncStream<String>.makeStream()
    self.heard = heard
    channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Listener(feed)) }
      }
      .connect(host: host, port: port).get()
  }

  deinit { channel.close(promise: nil) }

  func send(_ text: String) async throws { try await channel.writeAndFlush(ByteBuffer(string: text)) }

  func send(_ bytes: ByteBuffer) async throws { try await channel.writeAndFlush(bytes) }

  /// The next text, as it came; `nil` when the service has closed the connection.
  func next() async -> String? {
    for await text in heard { return text }
    return nil
  }

  func close() async { try? await channel.close() }

  private final class Listener: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let feed: AsyncStream<String>.Continuation

    init(_ feed: AsyncStream<String>.Continuation) { self.feed = feed }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      feed.yield(String(buffer: Self.unwrapInboundIn(data)))
    }

    func channelInactive(context: ChannelHandlerContext) { feed.finish() }

    // A reset ends the hearing as a close does.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      feed.finish()
      context.close(promise: nil)
    }
  }
}
