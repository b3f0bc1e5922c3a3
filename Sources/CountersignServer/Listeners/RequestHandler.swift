import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1
import Resilience

/// Answers the requests of a connection, one after the other, on its event loop.
///
///     head, body, end ──▶ parts ──▶ request ──▶ RequestFront ──▶ now ─────────────▶ answer ──▶ next request
///           ▲                │         │                     └─▶ later, in a task ──┘
///           └── reads on     └─────────┴── body, as it is read
///               while few parts wait
///
/// A request is worked on here and now, as soon as it is complete or nothing more has come. What does not wait is answered before
/// this handler returns, with one write; what waits is a task.
final class RequestHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = Never
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The most parts that wait, and the number from which on more are read again.
  private static let (mostParts, fewParts) = (10, 2)
  /// The most requests of one turn of the event loop; the rest takes turns with other connections.
  private static let mostAtOnce = 32
  /// A body of up to so many bytes is copied behind its head.
  private static let mostCopied = 16 * 1024

  /// A part of a request.
  private enum Part {
    case head(HTTPRequest, HTTPVersion)
    case body(ByteBuffer)
    case end
  }

  private let front: RequestFront
  private let guardian: ConnectionGuard
  private let logger: Logger
  private let connectionEnd = ConnectionEnd()
  private let executor: LoopExecutor
  private var context: ChannelHandlerContext?
  private var peer: ClientAddress?

  /// The parts that have come and are not taken.
  private var parts = CircularBuffer<Part>(initialCapacity: 4)
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
  /// The version of the request that is being answered.
  private var version = HTTPVersion.http1_1
  /// The request that is being answered asks for a tunnel, or another protocol (RFC 9110, section 7.8), after which NIO's decoder
  /// reads no more.
  private var asksForAnotherProtocol = false
  /// The answer's body is written in chunks.
  private var isChunked = false
  /// Whether answers wait to be flushed together.
  private var isGathering = false
  /// Requests of this turn of the event loop, and whether the rest has to wait for the next one.
  private var (count, isPaused) = (0, false)

  init(front: RequestFront, guardian: ConnectionGuard, loop: any EventLoop, logger: Logger) {
    self.front = front
    self.guardian = guardian
    self.logger = logger
    executor = LoopExecutor(loop)
  }

  // MARK: The connection

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    if context.channel.isActive { begin(context) }
  }

  func channelActive(context: ChannelHandlerContext) { begin(context) }

  private func begin(_ context: ChannelHandlerContext) {
    peer = ClientAddress(context.channel.remoteAddress)
    guardian.begin(from: peer, context) { [weak self] in self?.fail(SlowBody()) }
  }

  func channelInactive(context: ChannelHandlerContext) { close() }

  func handlerRemoved(context: ChannelHandlerContext) {
    close()
    self.context = nil
  }

  private func close() {
    guardian.end()
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
    guard error is HTTPParserError, guardian.unanswered == 0 || guardian.isLingering, context.channel.isActive else {
      return fail(error)
    }
    // An early answer is its answer, too.
    if !guardian.isLingering { refuseInput(context) }
  }

  /// Answers input that is not HTTP with a problem, and closes the connection.
  private func refuseInput(_ context: ChannelHandlerContext) {
    var answer = Problem(.malformedRequest, "The request is not valid HTTP, or its headers are too large.")
      .response(requestID: RequestID.random())
    answer.headers[.connection] = "close"
    answer.headers.append(contentsOf: CommonHeaders.ofDocuments)
    guardian.linger(context)
    write(answer, context)
    context.flush()
  }

  /// No more can be read.
  func fail(_ error: any Error) {
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
    guard !guardian.isLingering else { return }
    if !isGathering { count = 0 }
    isGathering = true
    switch unwrapInboundIn(data) {
    case .head(let head):
      do { parts.append(.head(try HTTPRequest(of: head), head.version)) } catch { return fail(error) }
      guardian.headCame(context, expectsContinue: head.expectsContinue)
    case .body(let bytes):
      parts.append(.body(bytes))
      guardian.bodyCame(bytes)
    case .end:
      parts.append(.end)
      guardian.endCame()
      reader.take()?.resume()
      return advance()
    }
    reader.take()?.resume()
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    guardian.readWasComplete()
    isGathering = false
    advance()
  }

  func read(context: ChannelHandlerContext) {
    isReadHeld = parts.count >= Self.mostParts
    if !isReadHeld { readOn(context) }
  }

  private func readOn(_ context: ChannelHandlerContext) {
    guardian.willRead(context)
    context.read()
  }

  private func next() -> Part? {
    let part = parts.popFirst()
    if isReadHeld, parts.count <= Self.fewParts {
      isReadHeld = false
      if let context { readOn(context) }
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
        if guardian.expectsContinue, let context {
          askForBody(context)
        } else {
          await withCheckedContinuation { reader = $0 }
        }
      }
    }
    return nil
  }

  /// Asks for a body that the peer holds back until then.
  private func askForBody(_ context: ChannelHandlerContext) {
    guardian.asksForBody(context)
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")), promise: nil)
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
    guard !isBodyOpen, case .head(let head, let version)? = parts.first else {
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
    self.version = version
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
        write(Response(status: .badRequest, headers: [.connection: "close"]), context)
      }
      closeOutput(context)
    case nil where isInputClosed, is SlowBody: closeOutput(context)
    case nil where connectionEnd.isNear:
      context.flush()
      context.close(promise: nil)
    case nil: break
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
    asksForAnotherProtocol = head.method == .connect || head.headerFields[.upgrade] != nil
    let isLast = version != .http1_1 || asksForAnotherProtocol || head.headerFields.endsConnection
    let reply = front.answer(request, from: peer, connectionEnd, logger: logger)
    if case .now(let response) = reply, send(response, isLast, context) { return }
    let task = PreferredExecutor.$current.withValue(executor) {
      Task.immediate(executorPreference: executor) {
        let response =
          switch reply {
          case .now(let response): response
          case .later(let work): await work()
          }
        let (handler, context) = bound.value
        if !handler.send(response, isLast, context) {
          await handler.send(response, isLast, Bodies(bound: bound), context)
        }
      }
    }
    if isAnswering { self.task = task }
  }

  /// Sends an answer of a few bytes.
  ///
  /// - Returns: whether it was one.
  private func send(_ response: Response, _ isLast: Bool, _ context: ChannelHandlerContext) -> Bool {
    guard case .bytes(let body) = response.body, body.readableBytes <= Self.mostCopied else { return false }
    write(response, context)
    end(isLast, context)
    return true
  }

  /// Sends an answer whose body is large, or is written as it is read.
  private func send(_ response: Response, _ isLast: Bool, _ writer: Bodies, _ context: ChannelHandlerContext) async {
    write(response, context)
    do {
      switch response.body {
      case .bytes(let bytes): try await write(bytes, context)
      case .stream(let stream): try await stream(writer)
      }
      if isChunked { context.write(wrapOutboundOut(ByteBuffer(staticString: "0\r\n\r\n")), promise: nil) }
    } catch {
      // The peer sees an answer that breaks off.
      context.close(promise: nil)
    }
    end(isLast, context)
  }

  /// Goes on after an answer.
  private func end(_ isLast: Bool, _ context: ChannelHandlerContext) {
    if !isClosed { guardian.answered(context) }
    (isAnswering, task) = (false, nil)
    if isLast {
      closeOutput(context)
    } else if !isGathering {
      context.flush()
      advance()
    }
  }

  /// Writes the head of an answer, with a body of a few bytes behind it.
  private func write(_ response: Response, _ context: ChannelHandlerContext) {
    var response = response
    if guardian.isAnsweringEarly || asksForAnotherProtocol { response.headers[.connection] = "close" }
    var bytes = context.channel.allocator.buffer(capacity: 1024)
    isChunked = bytes.write(headOf: response, inChunks: version == .http1_1)
    if case .bytes(let body) = response.body, body.readableBytes <= Self.mostCopied { bytes.writeImmutableBuffer(body) }
    context.write(wrapOutboundOut(bytes), promise: nil)
  }

  /// Writes a part of an answer, and waits while the peer takes none.
  fileprivate func write(_ part: ByteBuffer, _ context: ChannelHandlerContext) async throws {
    guard part.readableBytes > 0 else { return }
    if isChunked {
      let length = ByteBuffer(string: "\(String(part.readableBytes, radix: 16))\r\n")
      for bytes in [length, part, ByteBuffer(staticString: "\r\n")] {
        context.write(wrapOutboundOut(bytes), promise: nil)
      }
    } else {
      context.write(wrapOutboundOut(part), promise: nil)
    }
    guard !context.channel.isWritable else { return }
    context.flush()
    while !context.channel.isWritable {
      guard !isClosed, !Task.isCancelled else { throw ChannelError.ioOnClosedChannel }
      await withCheckedContinuation { writer = $0 }
    }
  }
}

/// The two ends that a request has hold of: its body as it comes, and the body of its answer.
private struct Bodies: AsyncSequence, AsyncIteratorProtocol, BodyWriter {
  let bound: NIOLoopBound<(RequestHandler, ChannelHandlerContext)>

  func makeAsyncIterator() -> Self { self }

  func next() async throws -> ByteBuffer? { try await bound.value.0.bodyPart() }

  func write(_ bytes: ByteBuffer) async throws {
    let (handler, context) = bound.value
    try await handler.write(bytes, context)
  }
}

extension HTTPRequest {
  /// A head as it came. The first Host becomes the authority.
  init(of head: HTTPRequestHead) throws {
    // A target in absolute form, as proxies get it, is taken apart (RFC 9112, section 3.2.2).
    guard head.uri.utf8.first == UInt8(ascii: "/") else {
      self = try HTTPRequest(head, secure: false, splitCookie: false)
      return
    }
    self.init(
      method: try Method(head.method), scheme: "http", authority: head.headers.first(name: "Host"), path: head.uri,
      headerFields: HTTPFields(head.headers, splitCookie: false))
  }
}

extension HTTPRequestHead {
  /// Whether the body comes when it is asked for (RFC 9110, section 10.1.1).
  fileprivate var expectsContinue: Bool {
    version == .http1_1 && headers.first(name: "Expect")?.lowercased() == "100-continue"
  }
}

extension HTTPFields {
  /// Whether the connection ends after the request: `close` is in a list, in any case of letters (RFC 9110, section 7.6.1).
  fileprivate var endsConnection: Bool {
    guard let options = self[.connection] else { return false }
    return options.lowercased().split(separator: ",").contains { $0.filter { $0 != " " && $0 != "\t" } == "close" }
  }
}
