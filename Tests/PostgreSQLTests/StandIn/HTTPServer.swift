import NIOCore
import NIOHTTP1
import NIOPosix

/// A server on a free port of 127.0.0.1 that answers each request with a function.
final class HTTPServer: Sendable {
  let port: Int
  private let channel: any Channel

  private init(channel: any Channel, port: Int) {
    self.channel = channel
    self.port = port
  }

  static func start(_ answer: @escaping @Sendable (APIRequest) async -> APIAnswer) async throws -> HTTPServer {
    let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .serverChannelOption(.backlog, value: 256)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandler(Handler(answer: answer))
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    guard let port = channel.localAddress?.port else { throw ChannelError.unknownLocalAddress }
    return HTTPServer(channel: channel, port: port)
  }

  func stop() async throws { try await channel.close() }
}

private final class Handler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let answer: @Sendable (APIRequest) async -> APIAnswer
  private var request: APIRequest?
  private var body = ByteBuffer()

  init(answer: @escaping @Sendable (APIRequest) async -> APIAnswer) { self.answer = answer }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      request = APIRequest(
        method: head.method.rawValue, target: head.uri, headers: head.headers.map { ($0.name, $0.value) }, body: "")
      body.clear()
    case .body(var buffer): body.writeBuffer(&buffer)
    case .end:
      guard var request else { return }
      self.request = nil
      request.body = String(buffer: body)
      let channel = context.channel
      let answer = answer
      let whole = request
      context.eventLoop.makeFutureWithTask { await Handler.parts(of: answer(whole)) }.whenSuccess { parts in
        for part in parts { channel.write(part, promise: nil) }
        channel.flush()
      }
    }
  }

  private static func parts(of answer: APIAnswer) -> [HTTPServerResponsePart] {
    var headers = HTTPHeaders(answer.headers)
    if answer.status != 204 { headers.add(name: "Content-Length", value: "\(answer.body?.utf8.count ?? 0)") }
    let head = HTTPResponseHead(
      version: .http1_1, status: HTTPResponseStatus(statusCode: answer.status), headers: headers)
    let body = answer.body.map { [HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: $0)))] } ?? []
    return [.head(head)] + body + [.end(nil)]
  }
}
