import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Answers a read from the cache, on the connection's event loop and without a task.
///
///     GET without a body ──▶ nothing else in progress, allowed, in the cache ──▶ answered here
///                    └─────▶ anything else ──▶ the router
///
/// The router sees a request that is not answered here as if this handler were not there.
final class CachedReadHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  private let reads: CachedReads
  /// The head of a read whose end is still to come.
  private var head: HTTPRequest?
  /// Requests that the router has not answered yet.
  private var unanswered = 0
  /// Requests answered here whose answers are not flushed.
  private var answered = 0

  /// The most requests of one read from the socket. The router takes the rest, in turn with other connections.
  private static let mostAtOnce = 32

  init(reads: CachedReads) {
    self.reads = reads
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    // Answers keep the order of their requests; a peer that reads none is left to the router, which waits for it.
    case .head(let head) where mayTake && context.channel.isWritable && reads.mayAnswer(head):
      self.head = head
      return
    case .head:
      unanswered += 1
    case .body:
      passOn(context)
    case .end:
      if let head {
        if let (response, body) = reads.answer(to: head, on: context.channel) {
          self.head = nil
          context.write(wrapOutboundOut(.head(response)), promise: nil)
          if let body { context.write(wrapOutboundOut(.body(body)), promise: nil) }
          context.write(wrapOutboundOut(.end(nil)), promise: nil)
          answered += 1
          return
        }
        passOn(context)
      }
    }
    context.fireChannelRead(data)
  }

  private var mayTake: Bool { unanswered == 0 && answered < Self.mostAtOnce }

  private func passOn(_ context: ChannelHandlerContext) {
    guard let head else { return }
    self.head = nil
    unanswered += 1
    context.fireChannelRead(wrapInboundOut(.head(head)))
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if answered > 0 {
      answered = 0
      context.flush()
    }
    context.fireChannelReadComplete()
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .end = unwrapOutboundIn(data) { unanswered = max(0, unanswered - 1) }
    context.write(data, promise: promise)
  }
}
