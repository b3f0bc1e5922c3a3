import HTTPTypes
import Hummingbird
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import Synchronization
import TestSupport
import Testing

@testable import CountersignServer

/// The machine of a connection: part by part, without a network.
@Suite(.timeLimit(.minutes(10))) struct RequestHandlerTests {
  private static let now: Handler = { request, _ in
    Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(string: request.uri.path)))
  }
  /// Answers the number of bytes in the body.
  private static let count: Handler = { request, _ in
    var count = 0
    for try await part in request.body { count += part.readableBytes }
    return Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(string: "\(count)")))
  }
  private static let routes: [String: [HTTPRequest.Method: Handler]] = [
    "/now": [.get: now], "/items/{id}": [.get: now], "/items/first": [.post: now], "/count": [.post: count],
  ]

  /// Notes how often the connection is read.
  private final class Reads: ChannelOutboundHandler {
    typealias OutboundIn = HTTPResponsePart
    var count = 0

    func read(context: ChannelHandlerContext) {
      count += 1
      context.read()
    }
  }

  private struct Connection {
    let channel: EmbeddedChannel
    let reads = Reads()

    init() throws {
      channel = EmbeddedChannel()
      try channel.pipeline.syncOperations.addHandlers(
        reads,
        RequestHandler(
          front: RunningFront.front(routes), loop: channel.eventLoop, logger: RunningFront.logger))
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 80)).wait()
    }

    func receive(_ parts: HTTPRequestPart..., isComplete: Bool = true) {
      for part in parts { channel.pipeline.fireChannelRead(part) }
      if isComplete { channel.pipeline.fireChannelReadComplete() }
    }

    /// The status and the body of each complete answer.
    func sent() throws -> [String] {
      var answers: [String] = []
      var text = ""
      while let part = try channel.readOutbound(as: HTTPResponsePart.self) {
        switch part {
        case .head(let head): text = "\(head.status.code)"
        case .body(let body): text += " \(String(buffer: body))"
        case .end: answers.append(text)
        }
      }
      return answers
    }
  }

  private static func head(_ path: String, _ method: HTTPRequest.Method = .get, _ fields: HTTPFields = [:])
    -> HTTPRequestPart
  {
    .head(HTTPRequest(method: method, scheme: "http", authority: "a", path: path, headerFields: fields))
  }

  private static func body(_ count: Int) -> HTTPRequestPart { .body(ByteBuffer(repeating: 1, count: count)) }

  @Test func `what does not wait is answered at once, and flushed when all that came is worked on`() throws {
    let connection = try Connection()
    connection.receive(Self.head("/now"), .end(nil), Self.head("/items/7"), .end(nil), isComplete: false)
    #expect(try connection.sent() == [])
    connection.receive()
    #expect(try connection.sent() == ["200 /now", "200 /items/7"])
    connection.receive(Self.head("/count", .post), Self.body(3), Self.body(4), .end(nil))
    #expect(try connection.sent() == ["200 7"])
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
    let connection = try Connection()
    connection.receive(Self.head(path, method), .end(nil))
    #expect(try connection.sent().map { $0.prefix(answer.count) } == [answer[...]])
    _ = try? connection.channel.finish()
  }

  @Test func `a body is read as it comes, and what nobody wants of it is dropped`() throws {
    let connection = try Connection()
    connection.receive(Self.head("/count", .post), Self.body(3))
    #expect(try connection.sent() == [])
    connection.receive(Self.body(4))
    connection.channel.embeddedEventLoop.run()
    connection.receive(.end(nil), Self.head("/now", .post))
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent().map { $0.prefix(5) } == ["200 7", "405 {"])
    connection.receive(Self.body(5))
    connection.receive(.end(nil), Self.head("/now"), .end(nil))
    #expect(try connection.sent() == ["200 /now"])
    _ = try? connection.channel.finish()
  }

  @Test func `one packet does not hold up other connections`() throws {
    let connection = try Connection()
    for _ in 0..<40 { connection.receive(Self.head("/now"), .end(nil), isComplete: false) }
    connection.receive()
    #expect(try connection.sent().count == 32)
    connection.channel.embeddedEventLoop.run()
    #expect(try connection.sent().count == 8)
    _ = try? connection.channel.finish()
  }

  @Test func `a peer that takes no answers gets no more of them, and is not read on`() throws {
    let connection = try Connection()
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
  }

  @Test func `a body that breaks off is the caller's fault, and its connection ends`() throws {
    let connection = try Connection()
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
    let begun = Event()
    let seen = Mutex<[Bool]>([])
    let wait: Handler = { _, _ in
      begun.fire()
      while !Task.isCancelled { await Task.yield() }
      seen.withLock { $0.append(true) }
      return Response(status: .ok)
    }
    try await RunningFront.run(["/wait": [.get: wait]]) { port, server in
      let client = Task {
        try await RawClient.exchange(port: port, ["GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"])
      }
      await begun.wait()
      server.cancel()
      // It returns when its connections have ended.
      _ = try? await server.value
      #expect(seen.withLock { $0 } == [true])
      _ = try? await client.value
    }
  }

  @Test func `what only waits ends when the connection is asked to close`() async {
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
