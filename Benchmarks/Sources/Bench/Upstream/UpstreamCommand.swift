import ArgumentParser
import Foundation
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization

/// `bench upstream`: verifyReceipt behind TLS, and a profile store without, as cheap as they can be made.
struct UpstreamCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "upstream", abstract: "Answer as Apple and as a profile store would, at once or after a delay.")

  @Option var certificate: String
  @Option var key: String
  @Option(help: "Rows in each list of an answer.") var periods = 6
  @Option(help: "Bytes of latest_receipt.") var receiptBytes = 5_760
  @Option(help: "Milliseconds before each answer of verifyReceipt.") var delay: Int64 = 0
  @Option(help: "http/1.1 or h2; both when not given.") var only: String?
  @Option(help: "Streams of HTTP/2 at once on one connection.") var streams = 100

  func run() async throws {
    let handlerFactory = UpstreamHandler.Factory(
      template: AnswerTemplate(periods: periods, receiptBytes: receiptBytes, now: Date()),
      delay: .milliseconds(delay))
    var tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
      privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
    tls.applicationProtocols = only.map { [$0] } ?? NIOHTTP2SupportedALPNProtocols
    let context = try NIOSSLContext(configuration: tls)
    var connection = NIOHTTP2Handler.ConnectionConfiguration()
    connection.initialSettings = [
      HTTP2Setting(parameter: .maxConcurrentStreams, value: streams),
      HTTP2Setting(parameter: .maxHeaderListSize, value: 16_384),
    ]
    // NIO gives up on who sends more than some 200 frames of control in half a minute; stores in use do not.
    connection.maximumConnectionGlitches = .max
    connection.controlFrameRateLimit.maximumCount = .max
    let connectionConfiguration = connection
    var stream = NIOHTTP2Handler.StreamConfiguration()
    stream.streamErrorRateLimit.maximumCount = .max
    stream.streamResetFrameRateLimit.maximumCount = .max
    let streamConfiguration = stream

    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let secure = try await ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 4096)
      .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
        }.flatMap {
          channel.configureCommonHTTPServerPipeline(
            connectionConfiguration: connectionConfiguration, streamConfiguration: streamConfiguration
          ) { channel in
            handlerFactory.install(on: channel)
          }
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    let plain = try await ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 4096)
      .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.pipeline.configureHTTPServerPipeline().flatMap { handlerFactory.install(on: channel) }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    print(
      "{\"tls\":\(secure.localAddress?.port ?? 0),\"plain\":\(plain.localAddress?.port ?? 0),\"bytes\":\(handlerFactory.template.count)}"
    )
    fflush(nil)
    try await secure.closeFuture.get()
  }
}

/// Answers whole requests: a receipt by its subscription, an update by the row as it was sent, `GET /calls` by the number
/// of receipts so far.
final class UpstreamHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  final class Factory: Sendable {
    let template: AnswerTemplate
    let delay: TimeAmount
    let calls = Atomic<Int>(0)

    init(template: AnswerTemplate, delay: TimeAmount) {
      self.template = template
      self.delay = delay
    }

    func install(on channel: any Channel) -> EventLoopFuture<Void> {
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(UpstreamHandler(factory: self))
      }
    }
  }

  private let factory: Factory
  private var head: HTTPRequestHead?
  private var body = ByteBuffer()

  init(factory: Factory) { self.factory = factory }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      self.head = head
      body.clear()
    case .body(var part):
      if body.readableBytes == 0 { body = part } else { body.writeBuffer(&part) }
    case .end:
      guard let head else { return }
      self.head = nil
      respond(to: head, context)
    }
  }

  private func respond(to head: HTTPRequestHead, _ context: ChannelHandlerContext) {
    let answer: ByteBuffer
    switch head.method {
    case .POST:
      factory.calls.add(1, ordering: .relaxed)
      answer = factory.template.answer(to: body.readableBytesView)
    case .PATCH:
      var row = ByteBuffer(string: "[")
      row.writeBuffer(&body)
      row.writeString("]")
      answer = row
    default:
      answer = ByteBuffer(string: "\(factory.calls.load(ordering: .relaxed))")
    }
    guard head.method == .POST, factory.delay > .zero else { return write(answer, context) }
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.eventLoop.scheduleTask(in: factory.delay) {
      let (handler, context) = bound.value
      handler.write(answer, context)
    }
  }

  private func write(_ answer: ByteBuffer, _ context: ChannelHandlerContext) {
    guard context.channel.isActive else { return }
    let headers: HTTPHeaders = ["content-type": "application/json", "content-length": "\(answer.readableBytes)"]
    context.write(wrapOutboundOut(.head(.init(version: .http1_1, status: .ok, headers: headers))), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(answer))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
