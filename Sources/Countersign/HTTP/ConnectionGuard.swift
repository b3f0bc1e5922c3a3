import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOHTTPTypes

/// Bounds how long a connection may take over anything: idling, sending a request, taking its answer.
///
///     connected ──idle──▶ head read ──request──▶ request and answer complete ──idle──▶ …
///         │ idle timeout      │ request deadline
///         ▼                   ▼
///       closed              closed
///
/// Each phase has one absolute deadline, so that a peer who sends a byte now and then, or one request behind the other
/// without taking the answers, gains nothing by it. A request that was answered before its body had arrived (no
/// credential, too large) is not read to its end: the answer says `Connection: close`, and the connection ends once the
/// peer has had a moment to read it.
final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  struct Limits: Sendable {
    /// From the connection, or from the last answer, to the next request's whole head.
    var idle: TimeAmount
    /// From a request's head, or from the answer before it, to the end of its answer.
    var request: TimeAmount
    /// After an early answer, until the connection is closed.
    var linger: TimeAmount = .seconds(2)
  }

  private let limits: Limits
  /// When the connection is closed.
  private var deadline: NIODeadline = .distantFuture
  /// Looks at the deadline. It goes off at the deadline or before, and then is set anew: moving it with each request and
  /// each answer would cost more than all else that is done here.
  private var timer: (task: Scheduled<Void>, at: NIODeadline)?
  /// The newest request's body is still to come.
  private var isReadingRequest = false
  /// Requests whose answer is not complete; more than one where the peer pipelines them.
  private var unanswered = 0
  /// An early answer was given: what still comes in is dropped.
  private var isLingering = false

  init(limits: Limits) { self.limits = limits }

  func handlerAdded(context: ChannelHandlerContext) {
    if context.channel.isActive { schedule(limits.idle, context) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { stopTimer() }

  func channelActive(context: ChannelHandlerContext) {
    schedule(limits.idle, context)
    context.fireChannelActive()
  }

  func channelInactive(context: ChannelHandlerContext) {
    stopTimer()
    context.fireChannelInactive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isLingering else { return }
    switch unwrapInboundIn(data) {
    case .head(var head):
      isReadingRequest = true
      unanswered += 1
      if unanswered == 1 { schedule(limits.request, context) }
      // A list, in any case (RFC 9110, section 7.6.1); the server behind this looks for the one word only.
      let options = head.headerFields[.connection]?.lowercased().split(separator: ",") ?? []
      if options.contains(where: { $0.filter { $0 != " " && $0 != "\t" } == "close" }) {
        head.headerFields[.connection] = "close"
      }
      context.fireChannelRead(wrapInboundOut(.head(head)))
      return
    case .body: break
    case .end: isReadingRequest = false
    }
    context.fireChannelRead(data)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(var head) where isAnsweringEarly && head.status.kind != .informational:
      head.headerFields[.connection] = "close"
      context.write(wrapOutboundOut(.head(head)), promise: promise)
    case .end:
      let isEarly = isAnsweringEarly
      unanswered = max(0, unanswered - 1)
      context.write(data, promise: promise)
      if isEarly {
        isLingering = true
        schedule(limits.linger, context)
      } else {
        schedule(unanswered == 0 ? limits.idle : limits.request, context)
      }
    default:
      context.write(data, promise: promise)
    }
  }

  /// The answer being written is to the request whose body is still to come.
  private var isAnsweringEarly: Bool { isReadingRequest && unanswered == 1 }

  /// What is not HTTP gets a problem and the end of the connection.
  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard error is HTTPParserError, unanswered == 0, !isLingering, context.channel.isActive else {
      context.fireErrorCaught(error)
      return
    }
    isLingering = true
    let problem = Problem(.malformedRequest, "The request is not valid HTTP, or its headers are too large.")
    let body = problem.body(requestID: RequestIDMiddleware.new())
    let head = HTTPResponse(
      status: problem.code.status,
      headerFields: [
        .contentType: "application/problem+json", .contentLength: String(body.readableBytes), .connection: "close",
      ])
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(body)), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    schedule(limits.linger, context)
  }

  private func schedule(_ time: TimeAmount, _ context: ChannelHandlerContext) {
    deadline = .now() + time
    if let timer, timer.at <= deadline { return }
    timer?.task.cancel()
    setTimer(context)
  }

  private func setTimer(_ context: ChannelHandlerContext) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let task = context.eventLoop.scheduleTask(deadline: deadline) {
      let (handler, context) = bound.value
      handler.look(context)
    }
    timer = (task, deadline)
  }

  private func look(_ context: ChannelHandlerContext) {
    timer = nil
    guard deadline <= .now() else { return setTimer(context) }
    context.channel.close(promise: nil)
  }

  private func stopTimer() {
    timer?.task.cancel()
    timer = nil
  }
}
