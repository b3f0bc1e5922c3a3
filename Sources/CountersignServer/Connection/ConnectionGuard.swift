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
/// Each phase has one absolute deadline: a peer gains nothing by sending a byte now and then, or by pipelining requests without
/// reading the answers. A body must also keep a minimum pace (`BodyPace`); a slower one fails with `SlowBody`. A request that
/// is answered before its body has arrived (no credential, too large, too slow) is not read to its end: the answer says
/// `Connection: close`, and the connection closes after a moment in which the peer can read it.
final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  struct Limits: Sendable {
    /// From the connection, or the last answer, to the end of the next request's head.
    var idle: TimeAmount
    /// The same, while more than three quarters of the connections are in use.
    var idleWhenNearlyFull: TimeAmount = .seconds(3)
    /// From a request's head, or from the answer before it, to the end of its answer.
    var request: TimeAmount
    /// The longest pause within a body.
    var patience = BodyPace.usualPatience
    /// From an early answer to the close of the connection.
    var linger: TimeAmount = .seconds(2)
  }

  private let limits: Limits
  /// The counts of the listener; `nil` for a listener that does not count.
  private let counts: ConnectionCounts?
  private var place: ConnectionCounts.Place?
  /// The time at which the connection is closed.
  private var deadline: NIODeadline = .distantFuture
  /// The timer that checks the deadline. It fires at the deadline or earlier, and is then set again: moving it with each request
  /// and answer would cost more than everything else here.
  private var timer: (task: Scheduled<Void>, at: NIODeadline)?
  /// The newest request's body is still to come.
  private var isReadingRequest = false
  /// The pace of this body; `nil` while the body may still arrive with the head.
  private var pace: BodyPace?
  /// The reader of this body has received `SlowBody`; it is sent once.
  private var isTooSlow = false
  /// Requests whose answer is not complete; more than one where the peer pipelines them.
  private var unanswered = 0
  /// An early answer was sent; further input is dropped.
  private var isLingering = false

  init(limits: Limits, counts: ConnectionCounts? = nil) {
    self.limits = limits
    self.counts = counts
  }

  func handlerAdded(context: ChannelHandlerContext) {
    if context.channel.isActive { begin(context) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { end() }

  func channelActive(context: ChannelHandlerContext) {
    begin(context)
    context.fireChannelActive()
  }

  func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  private func begin(_ context: ChannelHandlerContext) {
    if let counts, place == nil {
      place = counts.begin(from: ClientAddress(context.channel.remoteAddress))
      // Closed before a byte is read, so that it costs neither TLS nor HTTP.
      if place == nil { return context.channel.close(promise: nil) }
    }
    schedule(idle, context)
  }

  private func end() {
    stopTimer()
    if let place { counts?.end(place) }
    place = nil
  }

  private var idle: TimeAmount {
    counts?.isNearlyFull == true ? min(limits.idle, limits.idleWhenNearlyFull) : limits.idle
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isLingering else { return }
    switch unwrapInboundIn(data) {
    case .head(var head):
      isReadingRequest = true
      unanswered += 1
      if unanswered == 1 { schedule(limits.request, context) }
      // A list in any case of letters (RFC 9110, section 7.6.1); the server behind this handler compares one word only.
      let options = head.headerFields[.connection]?.lowercased().split(separator: ",") ?? []
      if options.contains(where: { $0.filter { $0 != " " && $0 != "\t" } == "close" }) {
        head.headerFields[.connection] = "close"
      }
      context.fireChannelRead(wrapInboundOut(.head(head)))
      return
    case .body(let bytes): pace?.note(bytes.readableBytes, at: .now())
    case .end:
      isReadingRequest = false
      pace = nil
    }
    context.fireChannelRead(data)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    // Nearly every body arrives with its head and needs no timer.
    if isReadingRequest, !isLingering, !isTooSlow {
      if pace == nil { pace = BodyPace(patience: limits.patience) }
      pace?.pause(at: .now())
    }
    context.fireChannelReadComplete()
  }

  /// The reader asks for more. Until it does, the peer is not the slow one.
  func read(context: ChannelHandlerContext) {
    if pace != nil {
      pace?.wait(from: .now())
      arm(context)
    }
    context.read()
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
        pace = nil
        schedule(limits.linger, context)
      } else {
        schedule(unanswered == 0 ? idle : limits.request, context)
      }
    default:
      context.write(data, promise: promise)
    }
  }

  /// Whether the answer being written belongs to the request whose body is still to come.
  private var isAnsweringEarly: Bool { isReadingRequest && unanswered == 1 }

  /// Answers input that is not HTTP with a problem, and closes the connection.
  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // It has its answer; the server behind this handler would add a second.
    if error is HTTPParserError, isLingering { return }
    guard error is HTTPParserError, unanswered == 0, context.channel.isActive else {
      context.fireErrorCaught(error)
      return
    }
    isLingering = true
    let problem = Problem(.malformedRequest, "The request is not valid HTTP, or its headers are too large.")
    let body = problem.body(requestID: RequestID.random())
    let headers: HTTPFields = [
      .contentType: "application/problem+json", .contentLength: String(body.readableBytes), .connection: "close",
      .cacheControl: "no-store",
    ]
    let head = HTTPResponse(status: problem.code.status, headerFields: headers + CommonHeaders.ofDocuments)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(body)), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    schedule(limits.linger, context)
  }

  private func schedule(_ time: TimeAmount, _ context: ChannelHandlerContext) {
    deadline = .now() + time
    arm(context)
  }

  /// Sets the timer, unless it goes off in time anyway.
  private func arm(_ context: ChannelHandlerContext) {
    let next = pace?.deadline.map { min($0, deadline) } ?? deadline
    if let timer, timer.at <= next { return }
    timer?.task.cancel()
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let task = context.eventLoop.scheduleTask(deadline: next) {
      let (handler, context) = bound.value
      handler.look(context)
    }
    timer = (task, next)
  }

  private func look(_ context: ChannelHandlerContext) {
    timer = nil
    let now = NIODeadline.now()
    guard deadline > now else { return context.channel.close(promise: nil) }
    if pace?.isTooSlow(at: now) == true {
      pace = nil
      isTooSlow = true
      context.fireErrorCaught(SlowBody())
    }
    arm(context)
  }

  private func stopTimer() {
    timer?.task.cancel()
    timer = nil
  }
}
