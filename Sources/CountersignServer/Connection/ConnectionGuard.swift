import HTTPTypes
import NIOCore

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
final class ConnectionGuard {
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
  /// Nothing of it comes before it is asked for.
  private(set) var expectsContinue = false
  /// The pace of this body; `nil` while the body may still arrive with the head.
  private var pace: BodyPace?
  /// The reader of this body has received `SlowBody`; it is sent once.
  private var isTooSlow = false
  /// Requests whose answer is not complete; more than one where the peer pipelines them.
  private(set) var unanswered = 0
  /// An early answer was sent; further input is dropped.
  private(set) var isLingering = false
  /// Ends the reading of a body.
  private var onSlowBody: () -> Void = {}

  init(limits: Limits, counts: ConnectionCounts? = nil) {
    self.limits = limits
    self.counts = counts
  }

  /// The connection is open.
  ///
  /// - Parameter onSlowBody: called when a body comes too slowly, once.
  func begin(from peer: ClientAddress?, _ context: ChannelHandlerContext, onSlowBody: @escaping () -> Void) {
    self.onSlowBody = onSlowBody
    if let counts, place == nil {
      place = counts.begin(from: peer)
      // Closed before a byte is read, so that it costs neither TLS nor HTTP.
      if place == nil { return context.channel.close(promise: nil) }
    }
    schedule(idle, context)
  }

  func end() {
    timer?.task.cancel()
    timer = nil
    if let place { counts?.end(place) }
    place = nil
  }

  private var idle: TimeAmount {
    counts?.isNearlyFull == true ? min(limits.idle, limits.idleWhenNearlyFull) : limits.idle
  }

  // MARK: What comes in

  func headCame(_ context: ChannelHandlerContext, expectsContinue: Bool) {
    isReadingRequest = true
    self.expectsContinue = expectsContinue
    unanswered += 1
    if unanswered == 1 { schedule(limits.request, context) }
  }

  func bodyCame(_ bytes: ByteBuffer) {
    expectsContinue = false
    pace?.note(bytes.readableBytes, at: .now())
  }

  func endCame() {
    (isReadingRequest, expectsContinue) = (false, false)
    pace = nil
  }

  /// The peer is told to send the body.
  func asksForBody(_ context: ChannelHandlerContext) {
    expectsContinue = false
    pace = BodyPace(patience: limits.patience)
    willRead(context)
  }

  /// All parts that came with one read are handed on.
  func readWasComplete() {
    // Nearly every body arrives with its head and needs no timer.
    guard isReadingRequest, !expectsContinue, !isLingering, !isTooSlow else { return }
    if pace == nil { pace = BodyPace(patience: limits.patience) }
    pace?.pause(at: .now())
  }

  /// The reader asks for more. Until it does, the peer is not the slow one.
  func willRead(_ context: ChannelHandlerContext) {
    guard pace != nil else { return }
    pace?.wait(from: .now())
    arm(context)
  }

  // MARK: What goes out

  /// Whether an answer belongs to the request whose body is still to come: the connection closes after it.
  var isAnsweringEarly: Bool { isReadingRequest && unanswered == 1 }

  /// An answer is written to its end.
  func answered(_ context: ChannelHandlerContext) {
    if isAnsweringEarly {
      linger(context)
    } else {
      unanswered = max(0, unanswered - 1)
      schedule(unanswered == 0 ? idle : limits.request, context)
    }
  }

  /// Drops what comes from now on, and closes the connection in a moment.
  func linger(_ context: ChannelHandlerContext) {
    isLingering = true
    pace = nil
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
      onSlowBody()
    }
    arm(context)
  }
}
