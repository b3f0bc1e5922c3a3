import HTTPTypes
package import NIOCore
import NIOHTTP1
package import NIOHTTPTypes

/// Bounds how long a connection may take over anything: idling, sending a request, taking its answer.
///
///     connected ──idle──▶ head read ──request──▶ request and answer complete ──idle──▶ …
///         │ idle timeout      │ request deadline
///         ▼                   ▼
///       closed              closed
///
/// Each phase has one absolute deadline, so that a peer who sends a byte now and then, or one request behind the other
/// without taking the answers, gains nothing by it. A body has to keep a pace besides (`BodyPace`): one that does not ends
/// with `SlowBody` for whoever reads it. A request that was answered before its body had arrived (no credential, too large,
/// too slow) is not read to its end: the answer says `Connection: close`, and the connection ends once the peer has had a
/// moment to read it.
package final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
  package typealias InboundIn = HTTPRequestPart
  package typealias InboundOut = HTTPRequestPart
  package typealias OutboundIn = HTTPResponsePart
  package typealias OutboundOut = HTTPResponsePart

  package struct Limits: Sendable {
    /// From the connection, or from the last answer, to the next request's whole head.
    package var idle: TimeAmount
    /// The same while nearly as many connections are held as may be.
    var idleWhenNearlyFull: TimeAmount = .seconds(3)
    /// From a request's head, or from the answer before it, to the end of its answer.
    package var request: TimeAmount
    /// How long nothing of a body may come at most.
    package var patience = BodyPace.usualPatience
    /// After an early answer, until the connection is closed.
    var linger: TimeAmount = .seconds(2)

    package init(
      idle: TimeAmount, idleWhenNearlyFull: TimeAmount = .seconds(3), request: TimeAmount,
      patience: TimeAmount = BodyPace.usualPatience, linger: TimeAmount = .seconds(2)
    ) {
      self.idle = idle
      self.idleWhenNearlyFull = idleWhenNearlyFull
      self.request = request
      self.patience = patience
      self.linger = linger
    }
  }

  private let limits: Limits
  /// Those of the address that is listened on; `nil` where nobody counts.
  private let counts: ConnectionCounts?
  private var place: ConnectionCounts.Place?
  /// When the connection is closed.
  private var deadline: NIODeadline = .distantFuture
  /// Looks at the deadline. It goes off at the deadline or before, and then is set anew: moving it with each request and
  /// each answer would cost more than all else that is done here.
  private var timer: (task: Scheduled<Void>, at: NIODeadline)?
  /// The newest request's body is still to come.
  private var isReadingRequest = false
  /// That of this body; `nil` until it turns out that the body does not come with the head.
  private var pace: BodyPace?
  /// Whoever reads this body was told that it is too slow, which is told once.
  private var isTooSlow = false
  /// Requests whose answer is not complete; more than one where the peer pipelines them.
  private var unanswered = 0
  /// An early answer was given: what still comes in is dropped.
  private var isLingering = false

  package init(limits: Limits, counts: ConnectionCounts? = nil) {
    self.limits = limits
    self.counts = counts
  }

  package func handlerAdded(context: ChannelHandlerContext) {
    if context.channel.isActive { begin(context) }
  }

  package func handlerRemoved(context: ChannelHandlerContext) { end() }

  package func channelActive(context: ChannelHandlerContext) {
    begin(context)
    context.fireChannelActive()
  }

  package func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  private func begin(_ context: ChannelHandlerContext) {
    if let counts, place == nil {
      place = counts.begin(from: ClientAddress(context.channel.remoteAddress))
      // Before a byte is read: neither TLS nor HTTP costs anything for it.
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

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
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
    case .body(let bytes): pace?.note(bytes.readableBytes, at: .now())
    case .end:
      isReadingRequest = false
      pace = nil
    }
    context.fireChannelRead(data)
  }

  package func channelReadComplete(context: ChannelHandlerContext) {
    // Nearly every body comes with its head, and is timed by nobody.
    if isReadingRequest, !isLingering, !isTooSlow {
      if pace == nil { pace = BodyPace(patience: limits.patience) }
      pace?.pause(at: .now())
    }
    context.fireChannelReadComplete()
  }

  /// Whoever reads the requests asks for more. Until it does, the peer is not the one who is slow.
  package func read(context: ChannelHandlerContext) {
    if pace != nil {
      pace?.wait(from: .now())
      arm(context)
    }
    context.read()
  }

  package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
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

  /// The answer being written is to the request whose body is still to come.
  private var isAnsweringEarly: Bool { isReadingRequest && unanswered == 1 }

  /// What is not HTTP gets a problem and the end of the connection.
  package func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // It has its answer; the server behind this would add another.
    if error is HTTPParserError, isLingering { return }
    guard error is HTTPParserError, unanswered == 0, context.channel.isActive else {
      context.fireErrorCaught(error)
      return
    }
    isLingering = true
    let problem = Problem(.malformedRequest, "The request is not valid HTTP, or its headers are too large.")
    let body = problem.body(requestID: RequestID.random())
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
