import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import Resilience

/// Answers the requests of a connection, one after the other, on its event loop.
///
///     head, body, end ──▶ parts ──▶ request ──▶ RequestFront ──▶ answer ──▶ next request
///           ▲                │         └── body, as it is read
///           └── reads on while few parts wait
///
/// A request is a task that begins here and now, as soon as it is complete or nothing more has come: what does not wait is answered
/// before this handler returns. What it takes is freed with the task.
final class RequestHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = Never
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// The most parts that wait, and the number from which on more are read again.
  private static let (mostParts, fewParts) = (10, 2)
  /// The most requests of one turn of the event loop; the rest takes turns with other connections.
  private static let mostAtOnce = 32

  private let front: RequestFront
  private let logger: Logger
  private let connectionEnd = ConnectionEnd()
  private let executor: LoopExecutor
  private var context: ChannelHandlerContext?
  private var peer: ClientAddress?

  /// The parts that have come and are not taken.
  private var parts = CircularBuffer<HTTPRequestPart>(initialCapacity: 4)
  /// The reason why no more comes.
  private var failure: (any Error)?
  private var isInputClosed = false
  private var isReadHeld = false
  /// The end of the present request's body is still to come.
  private var isBodyOpen = false
  /// The reader of a body that has not come.
  private var reader: CheckedContinuation<Void, Never>?
  /// A writer that waits for the peer.
  private var writer: CheckedContinuation<Void, Never>?

  private var isAnswering = false
  /// The task of the request that is being answered.
  private(set) var task: Task<Void, Never>?
  private var isClosed = false
  /// No further request is answered.
  private var isOver = false
  /// Whether answers wait to be flushed together.
  private var isGathering = false
  /// Requests of this turn of the event loop, and whether the rest has to wait for the next one.
  private var (count, isPaused) = (0, false)

  init(front: RequestFront, loop: any EventLoop, logger: Logger) {
    self.front = front
    self.logger = logger
    executor = LoopExecutor(loop)
  }

  // MARK: The connection

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    peer = ClientAddress(context.channel.remoteAddress)
  }

  func channelActive(context: ChannelHandlerContext) {
    peer = ClientAddress(context.channel.remoteAddress)
    context.fireChannelActive()
  }

  func channelInactive(context: ChannelHandlerContext) { close() }

  func handlerRemoved(context: ChannelHandlerContext) {
    close()
    self.context = nil
  }

  private func close() {
    (isClosed, isInputClosed, isOver) = (true, true, true)
    wake()
  }

  /// Ends the connection and its request, as the service ends now.
  func cancel() {
    task?.cancel()
    end()
    wake()
  }

  /// Closes the connection after the present answer.
  private func end() {
    connectionEnd.come()
    if !isAnswering, parts.isEmpty { context?.close(promise: nil) }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case is ChannelShouldQuiesceEvent: end()
    case ChannelEvent.inputClosed:
      isInputClosed = true
      wake()
      advance()
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    failure = failure ?? error
    wake()
    advance()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable {
      wake()
      advance()
    }
    context.fireChannelWritabilityChanged()
  }

  private func wake() {
    reader.take()?.resume()
    writer.take()?.resume()
  }

  // MARK: Reading

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let part = unwrapInboundIn(data)
    parts.append(part)
    if !isGathering { count = 0 }
    isGathering = true
    reader.take()?.resume()
    if case .end = part { advance() }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    isGathering = false
    advance()
  }

  func read(context: ChannelHandlerContext) {
    isReadHeld = parts.count >= Self.mostParts
    if !isReadHeld { context.read() }
  }

  private func next() -> HTTPRequestPart? {
    let part = parts.popFirst()
    if isReadHeld, parts.count <= Self.fewParts {
      isReadHeld = false
      context?.read()
    }
    return part
  }

  /// The next part of the present request's body; `nil` at its end.
  fileprivate func bodyPart() async throws -> ByteBuffer? {
    while isBodyOpen {
      switch next() {
      case .body(let bytes): return bytes
      case .end: isBodyOpen = false
      case .head: throw HTTPParserError.invalidEOFState
      case nil:
        if let failure { throw failure }
        guard !isInputClosed, !Task.isCancelled else { throw HTTPParserError.invalidEOFState }
        await withCheckedContinuation { reader = $0 }
      }
    }
    return nil
  }

  // MARK: Answering

  /// Answers what is complete, or all that has come, and flushes.
  private func advance() {
    let isInner = isGathering
    isGathering = true
    while !isAnswering, !isPaused, !isOver, let context, answerNext(context) {}
    guard !isInner else { return }
    isGathering = false
    context?.flush()
  }

  /// - Returns: whether there was a request.
  private func answerNext(_ context: ChannelHandlerContext) -> Bool {
    // The rest of a body that nobody wanted.
    while isBodyOpen, let part = next() {
      if case .end = part { isBodyOpen = false }
    }
    guard !isBodyOpen, case .head(let head)? = parts.first else {
      finish(context)
      return false
    }
    guard context.channel.isWritable else { return false }
    guard count < Self.mostAtOnce else {
      isPaused = true
      let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
      context.eventLoop.execute { bound.value.goOn() }
      return false
    }
    count += 1
    _ = next()
    isBodyOpen = true
    begin(head, context)
    return true
  }

  private func goOn() {
    (count, isPaused) = (0, false)
    advance()
  }

  /// Closes the connection, if nothing is to come.
  private func finish(_ context: ChannelHandlerContext) {
    guard parts.isEmpty else { return context.close(promise: nil) }
    switch failure {
    case is HTTPParserError:
      if !isBodyOpen {
        write(HTTPResponse(status: .badRequest, headerFields: [.connection: "close", .contentLength: "0"]), context)
        writeEnd(context)
      }
      closeOutput(context)
    case nil where isInputClosed, is SlowBody: closeOutput(context)
    case nil: if connectionEnd.isNear { context.close(promise: nil) }
    default: context.close(promise: nil)
    }
  }

  private func closeOutput(_ context: ChannelHandlerContext) {
    isOver = true
    context.flush()
    context.close(mode: .output, promise: nil)
  }

  private func begin(_ head: HTTPRequest, _ context: ChannelHandlerContext) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    var body = RequestBody(buffer: ByteBuffer())
    if case .end? = parts.first {
      _ = next()
      isBodyOpen = false
    } else {
      body = RequestBody(asyncSequence: Bodies(bound: bound))
    }
    let request = Request(head: head, body: body)
    isAnswering = true
    let (front, peer, connectionEnd, logger) = (front, peer, connectionEnd, logger)
    let task = PreferredExecutor.$current.withValue(executor) {
      Task.immediate(executorPreference: executor) {
        let response = await front.answer(request, from: peer, connectionEnd, logger: logger)
        let (handler, context) = bound.value
        await handler.send(response, isLast: head.headerFields[.connection] == "close", bound, context)
      }
    }
    if isAnswering { self.task = task }
  }

  private func send(
    _ response: Response, isLast: Bool, _ bound: NIOLoopBound<(RequestHandler, ChannelHandlerContext)>,
    _ context: ChannelHandlerContext
  ) async {
    write(response.head, context)
    do {
      if response.body.contentLength == 0 {
        writeEnd(context)
      } else {
        try await response.body.write(Bodies(bound: bound))
      }
    } catch {
      // The peer sees an answer that breaks off.
      context.close(promise: nil)
    }
    (isAnswering, task) = (false, nil)
    if isLast {
      closeOutput(context)
    } else if !isGathering {
      advance()
    }
  }

  private func write(_ head: HTTPResponse, _ context: ChannelHandlerContext) {
    context.write(wrapOutboundOut(.head(head)), promise: nil)
  }

  fileprivate func writeEnd(_ context: ChannelHandlerContext) {
    context.write(wrapOutboundOut(.end(nil)), promise: nil)
    if !isGathering { context.flush() }
  }

  /// Writes a part of an answer, and waits while the peer takes none.
  fileprivate func write(_ bytes: ByteBuffer, _ context: ChannelHandlerContext) async throws {
    context.write(wrapOutboundOut(.body(bytes)), promise: nil)
    guard !context.channel.isWritable else { return }
    context.flush()
    while !context.channel.isWritable {
      guard !isClosed, !Task.isCancelled else { throw ChannelError.ioOnClosedChannel }
      await withCheckedContinuation { writer = $0 }
    }
  }
}

/// The two ends that a request has hold of: its body as it comes, and the body of its answer.
private struct Bodies: AsyncSequence, AsyncIteratorProtocol, ResponseBodyWriter, Sendable {
  let bound: NIOLoopBound<(RequestHandler, ChannelHandlerContext)>

  func makeAsyncIterator() -> Self { self }

  func next() async throws -> ByteBuffer? { try await bound.value.0.bodyPart() }

  func write(_ buffer: ByteBuffer) async throws {
    let (handler, context) = bound.value
    try await handler.write(buffer, context)
  }

  consuming func finish(_ trailingHeaders: HTTPFields?) async throws {
    let (handler, context) = bound.value
    handler.writeEnd(context)
  }
}
