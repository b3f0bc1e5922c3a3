import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOHTTPTypesHTTP1
import TestSupport
import Testing

import struct HummingbirdCore.Request

@testable import CountersignServer

/// The machine of a connection: part by part, without a network.
@Suite(.timeLimit(.minutes(10))) struct RequestHandlerTests {
  private let connection: Connection

  init() throws { connection = try Connection() }

  private static let now: Handler = { request, _ in
    Response(status: .ok, body: .bytes(ByteBuffer(string: request.uri.path)))
  }
  /// Answers the number of bytes in the body.
  private static let count: Handler = { request, _ in
    var count = 0
    for try await part in request.body { count += part.readableBytes }
    return Response(status: .ok, body: .bytes(ByteBuffer(string: "\(count)")))
  }
  private static let large = ByteBuffer(repeating: UInt8(ascii: "a"), count: 20_000)
  /// Answers some requests at once.
  private static let prompt: [String: PromptHandler] = [
    "/memory/{id}": { _, context in
      switch context.parameters["id"] {
      case "known": .now(Response(status: .ok, body: .bytes(ByteBuffer(string: "known"))))
      case "large": .now(Response(status: .ok, body: .bytes(large)))
      case "refused": throw Problem(.forbidden, "No.")
      case "stream":
        .later {
          Response(
            status: .ok,
            body: .stream { writer in
              for text in ["one", "", "three"] { try await writer.write(ByteBuffer(string: text)) }
            })
        }
      default: .later { Response(status: .noContent) }
      }
    }
  ]
  private static let routes: [String: [HTTPRequest.Method: Handler]] = [
    "/now": [.get: now], "/items/{id}": [.get: now], "/items/first": [.post: now], "/count": [.post: count],
  ]

  /// Notes how often the connection is read, and whether all is flushed when it is closed.
  private final class Reads: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    var count = 0
    var (unflushed, lost) = (0, 0)

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
      unflushed += 1
      context.write(data, promise: promise)
    }

    func flush(context: ChannelHandlerContext) {
      unflushed = 0
      context.flush()
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
      lost += unflushed
      context.close(mode: mode, promise: promise)
    }

    func read(context: ChannelHandlerContext) {
      count += 1
      context.read()
    }
  }

  private struct Connection {
    let channel: EmbeddedChannel
    let reads = Reads()
    let handler: RequestHandler

    init(_ routes: [String: [HTTPRequest.Method: Handler]] = routes, patience: TimeAmount = BodyPace.usualPatience)
      throws
    {
      channel = EmbeddedChannel()
      handler = RequestHandler(
        front: RunningFront.front(routes, prompt: prompt),
        guardian: ConnectionGuard(limits: .init(idle: .hours(1), request: .hours(1), patience: patience)),
        loop: channel.eventLoop, logger: RunningFront.logger)
      try channel.pipeline.syncOperations.addHandlers(reads, handler)
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 80)).wait()
    }

    func receive(_ parts: HTTPServerRequestPart..., isComplete: Bool = true) {
      for part in parts { channel.pipeline.fireChannelRead(part) }
      if isComplete { channel.pipeline.fireChannelReadComplete() }
    }

    /// The status and the body of each answer, one write each.
    func sent() throws -> [String] {
      var answers: [String] = []
      while let bytes = try channel.readOutbound(as: ByteBuffer.self) {
        let text = String(buffer: bytes)
        let body = text.firstRange(of: "\r\n\r\n").map { text[$0.upperBound...] } ?? ""
        answers.append("\(text.split(separator: " ")[1])\(body.isEmpty ? "" : " ")\(body)")
      }
      return answers
    }
  }

  private static func head(
    _ path: String, _ method: HTTPRequest.Method = .get, _ fields: HTTPFields = [:], version: HTTPVersion = .http1_1
  ) -> HTTPServerRequestPart {
    let headers = HTTPHeaders([("Host", "a")] + fields.map { ($0.name.rawName, $0.value) })
    return .head(HTTPRequestHead(version: version, method: HTTPMethod(method), uri: path, headers: headers))
  }

  private static func body(_ count: Int) -> HTTPServerRequestPart { .body(ByteBuffer(repeating: 1, count: count)) }

  @Test func `a request that does not wait is answered at once, and flushed when all that came is worked on`() throws {
    connection.receive(Self.head("/now"), .end(nil), Self.head("/items/7"), .end(nil), isComplete: false)
    #expect(try connection.sent() == [])
    connection.receive()
    #expect(try connection.sent() == ["200 /now", "200 /items/7"])
    connection.receive(Self.head("/count", .post), Self.body(3), Self.body(4), .end(nil))
    #expect(try connection.sent() == ["200 7"])
    _ = try? connection.channel.finish()
  }

  @Test func `an answer in memory is given without a task, in its turn`() throws {
    connection.receive(Self.head("/memory/known"), .end(nil), Self.head("/memory/refused"), .end(nil))
    #expect(try connection.sent().map { $0.prefix(9) } == ["200 known", "403 {\"cod"])
    // Behind a request that waits for its body it waits, too.
    connection.receive(Self.head("/count", .post), Self.body(3))
    #expect(connection.handler.task != nil)
    connection.receive(.end(nil), Self.head("/memory/known"), .end(nil), Self.head("/memory/none"), .end(nil))
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent() == ["200 3", "200 known", "204"])
    #expect(connection.handler.task == nil)
    _ = try? connection.channel.finish()
  }

  @Test func `a large body follows its head, and one of unknown length comes in chunks`() throws {
    connection.receive(Self.head("/memory/large"), .end(nil))
    let head = try #require(try connection.channel.readOutbound(as: ByteBuffer.self))
    #expect(String(buffer: head).contains("Content-Length: 20000\r\n"))
    #expect(try connection.channel.readOutbound(as: ByteBuffer.self) == Self.large)
    connection.receive(Self.head("/memory/stream"), .end(nil))
    var text = ""
    while let bytes = try connection.channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: bytes) }
    #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n"))
    #expect(text.hasSuffix("\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"))
    // Neither for the headers alone, nor for an answer that has no body.
    for (path, method) in [("/memory/large", HTTPRequest.Method.head), ("/memory/none", .get)] {
      connection.receive(Self.head(path, method), .end(nil))
      let answer = String(buffer: try #require(try connection.channel.readOutbound(as: ByteBuffer.self)))
      #expect(answer.hasSuffix("\r\n\r\n"))
      #expect(answer.contains("Content-Length: 20000") == (method == .head))
      #expect(!answer.contains("Transfer-Encoding"))
    }
    _ = try? connection.channel.finish()
  }

  @Test(arguments: [
    ("/nothing", HTTPRequest.Method.get, "404"), ("/now", .post, "405"), ("/items/first", .get, "405"),
    ("/items/first", .post, "200 /items/first"), ("/items/second", .get, "200 /items/second"),
    ("/now", .head, "200"), ("/items", .get, "404"), ("/items/7/more", .get, "404"),
  ])
  func `a route is found by its segments, literal ones first`(
    path: String, method: HTTPRequest.Method, answer: String
  ) throws {
    connection.receive(Self.head(path, method), .end(nil))
    #expect(try connection.sent().map { $0.prefix(answer.count) } == [answer[...]])
    _ = try? connection.channel.finish()
  }

  @Test func `a body is read as it comes, and what nobody wants of it is dropped`() throws {
    connection.receive(Self.head("/count", .post), Self.body(3))
    #expect(try connection.sent() == [])
    connection.receive(Self.body(4))
    connection.channel.embeddedEventLoop.run()
    connection.receive(.end(nil), Self.head("/now", .post), Self.body(5), .end(nil), Self.head("/now"), .end(nil))
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent().map { $0.prefix(5) } == ["200 7", "405 {", "200 /"])
    _ = try? connection.channel.finish()
  }

  @Test func `an answer before the body came is the last of its connection`() throws {
    connection.receive(Self.head("/now", .post))
    let answer = String(buffer: try #require(try connection.channel.readOutbound(as: ByteBuffer.self)))
    #expect(answer.hasPrefix("HTTP/1.1 405 ") && answer.contains("\r\nConnection: close\r\n"))
    connection.receive(Self.body(5), .end(nil), Self.head("/now"), .end(nil))
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent() == [])
    _ = try? connection.channel.finish()
  }

  @Test func `a body that is held back is asked for when it is read, once`() throws {
    let expects: HTTPFields = [.expect: "100-Continue"]
    connection.receive(Self.head("/count", .post, expects))
    #expect(try connection.sent() == ["100"])
    connection.receive(Self.body(3))
    connection.channel.embeddedEventLoop.run()
    connection.receive(Self.body(4), .end(nil))
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent() == ["200 7"])
    // Not where some of it has come, nor of a version that does not know it.
    connection.receive(Self.head("/count", .post, expects), Self.body(3))
    connection.receive(.end(nil))
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent() == ["200 3"])
    connection.receive(Self.head("/count", .post, expects, version: .http1_0))
    connection.receive(Self.body(2), .end(nil))
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent() == ["200 2"])
    _ = try? connection.channel.finish()
    // Nor of what its head refuses.
    let refused = try Connection()
    refused.receive(Self.head("/now", .post, expects))
    #expect(try refused.sent().map { $0.prefix(3) } == ["405"])
    _ = try? refused.channel.finish()
  }

  @Test func `a body that is held back is not too slow before it is asked for`() throws {
    let asked = Event()
    let later: Handler = { request, context in
      await asked.wait()
      return try await Self.count(request, context)
    }
    let connection = try Connection(["/later": [.post: later]], patience: .nanoseconds(0))
    connection.receive(Self.head("/later", .post, [.expect: "100-continue"]))
    connection.channel.read()
    connection.channel.embeddedEventLoop.advanceTime(to: .now())
    #expect(try connection.sent() == [])
    asked.fire()
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent() == ["100"])
    connection.channel.embeddedEventLoop.advanceTime(to: .now())
    #expect(try connection.sent().map { $0.prefix(3) } == ["408"])
    _ = try? connection.channel.finish()
  }

  @Test func `one packet does not hold up other connections`() throws {
    for _ in 0..<40 { connection.receive(Self.head("/now"), .end(nil), isComplete: false) }
    connection.receive()
    #expect(try connection.sent().count == 32)
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent().count == 8)
    _ = try? connection.channel.finish()
  }

  @Test func `a peer that takes no answers gets no more of them, and is not read on`() throws {
    connection.channel.isWritable = false
    for _ in 0..<4 { connection.receive(Self.head("/now"), .end(nil)) }
    #expect(try connection.sent() == [])
    let before = connection.reads.count
    connection.channel.read()
    #expect(connection.reads.count == before + 1)
    connection.receive(Self.head("/now"), .end(nil))
    connection.channel.read()
    #expect(connection.reads.count == before + 1)
    connection.channel.isWritable = true
    connection.channel.pipeline.fireChannelWritabilityChanged()
    #expect(try connection.sent().count == 5)
    #expect(connection.reads.count > before + 1)
    _ = try? connection.channel.finish()
  }

  @Test func `a connection ends after its last answer`() throws {
    let last = try Connection()
    last.receive(Self.head("/now", .get, [.connection: "close"]), .end(nil), Self.head("/now"), .end(nil))
    #expect(try last.sent() == ["200 /now"])
    _ = try? last.channel.finish()

    // Asked to close, as when the service ends: at once, or after the answer.
    let idle = try Connection()
    idle.channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
    #expect(!idle.channel.isActive)
    let busy = try Connection()
    busy.receive(Self.head("/count", .post), Self.body(2))
    busy.channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
    #expect(busy.channel.isActive)
    busy.receive(.end(nil))
    busy.channel.embeddedEventLoop.run()
    #expect(try busy.sent() == ["200 2"])
    #expect(!busy.channel.isActive)
    // What came before it was asked is answered.
    let pipelined = try Connection()
    pipelined.receive(Self.head("/count", .post), Self.body(2))
    pipelined.receive(.end(nil), Self.head("/now"), .end(nil), isComplete: false)
    pipelined.channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
    pipelined.receive()
    pipelined.channel.embeddedEventLoop.run()
    #expect(try pipelined.sent() == ["200 2", "200 /now"])
    #expect(!pipelined.channel.isActive && pipelined.reads.lost == 0)
  }

  @Test func `a request for another protocol is answered, and is the last of its connection`() throws {
    let upgrade: HTTPFields = [.connection: "Upgrade, HTTP2-Settings", .upgrade: "h2c"]
    for (method, fields) in [(.get, upgrade), (.connect, [:])] as [(HTTPRequest.Method, HTTPFields)] {
      let connection = try Connection()
      connection.receive(Self.head("/now", method, fields), .end(nil), Self.head("/now"), .end(nil))
      let answer = try #require(try connection.channel.readOutbound(as: ByteBuffer.self).map(String.init(buffer:)))
      #expect(answer.lowercased().contains("\r\nconnection: close\r\n"), "\(answer)")
      #expect(try connection.sent() == [])
      _ = try? connection.channel.finish()
    }
  }

  @Test func `after a request for another protocol little of what comes is kept`() throws {
    let channel = EmbeddedChannel()
    try channel.pipeline.syncOperations.addHandler(ServiceChannel.makeDecoder())
    let head = "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: any\r\n\r\n"
    try channel.writeInbound(ByteBuffer(string: head))
    let part = ByteBuffer(repeating: 1, count: 8 * 1024)
    #expect(throws: ByteToMessageDecoderError.PayloadTooLargeError.self) {
      for _ in 0...8 { try channel.writeInbound(part) }
    }
    _ = try? channel.finish()
  }

  @Test func `a request of HTTP 1.0 is the last of its connection, and its answer is not in chunks`() throws {
    for fields in [[:], [.connection: "keep-alive"]] as [HTTPFields] {
      let connection = try Connection()
      connection.receive(
        Self.head("/now", .get, fields, version: .http1_0), .end(nil), Self.head("/now"), .end(nil))
      #expect(try connection.sent() == ["200 /now"])
      _ = try? connection.channel.finish()
    }
    let streamed = try Connection()
    streamed.receive(Self.head("/memory/stream", version: .http1_0), .end(nil), Self.head("/now"), .end(nil))
    var text = ""
    while let bytes = try streamed.channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: bytes) }
    #expect(text.hasSuffix("\r\n\r\nonethree") && !text.contains("Transfer-Encoding"))
    _ = try? streamed.channel.finish()
  }

  @Test func `a body that breaks off is the caller's fault, and its connection ends`() throws {
    connection.receive(Self.head("/count", .post), Self.body(2))
    connection.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent().map { $0.prefix(3) } == ["400"])
    let slow = try Connection()
    slow.receive(Self.head("/count", .post), Self.body(2))
    slow.channel.pipeline.fireErrorCaught(SlowBody())
    slow.channel.embeddedEventLoop.run()
    #expect(try slow.sent().map { $0.prefix(3) } == ["408"])
    for connection in [connection, slow] { _ = try? connection.channel.finish() }
  }

  @Test func `a request has a task of its own, which ends with the server`() async throws {
    let (begun, ended) = (Event(), Event())
    let wait: Handler = { _, _ in
      begun.fire()
      while !Task.isCancelled { await Task.yield() }
      ended.fire()
      return Response(status: .ok)
    }
    try await RunningFront.run(["/wait": [.get: wait]]) { port, server in
      let client = Task {
        try await RawClient.exchange(port: port, ["GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"])
      }
      await begun.wait()
      server.cancel()
      // It returns when its connections have ended; the task is cancelled with its own, and needs a turn to see it.
      _ = try? await server.value
      await ended.wait()
      _ = try? await client.value
    }
  }

  @Test func `work that only waits ends when the connection is asked to close`() async {
    let end = ConnectionEnd()
    let begun = Event()
    let waiting = Task {
      await end.cancelling {
        begun.fire()
        while !Task.isCancelled { await Task.yield() }
      }
      return !Task.isCancelled
    }
    await begun.wait()
    end.come()
    #expect(await waiting.value)
    #expect(end.isNear)
    await end.cancelling { while !Task.isCancelled { await Task.yield() } }
  }
}
