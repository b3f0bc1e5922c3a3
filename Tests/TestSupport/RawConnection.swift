import NIOCore

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// One accepted connection in the hands of a server script: bytes in, bytes out, and three ways to end it.
///
/// Belongs to the one task that runs the script.
package final class RawConnection {
  /// Counts from 1 in the order of acceptance.
  package let number: Int

  private let channel: any Channel
  private var incoming: AsyncStream<[UInt8]>.Iterator
  private var buffered: [UInt8] = []

  init(number: Int, channel: any Channel, incoming: AsyncStream<[UInt8]>) {
    self.number = number
    self.channel = channel
    self.incoming = incoming.makeAsyncIterator()
  }

  /// The next bytes, as they come; `nil` when the client has closed or reset the connection, or the handshake failed.
  package func read() async -> [UInt8]? {
    if !buffered.isEmpty {
      defer { buffered = [] }
      return buffered
    }
    return await incoming.next()
  }

  /// Reads one whole HTTP/1.1 request; `nil` when the connection ends before it is complete.
  package func readRequest() async -> TestRequest? {
    while true {
      if let (request, length) = TestRequest.parse(buffered, connection: number) {
        buffered.removeFirst(length)
        return request
      }
      guard let bytes = await incoming.next() else { return nil }
      buffered += bytes
    }
  }

  /// Returns when the client has closed or reset the connection; what it still sends is thrown away.
  package func waitForClose() async {
    while await incoming.next() != nil {}
  }

  package func write(_ bytes: [UInt8]) async throws {
    try await channel.writeAndFlush(ByteBuffer(bytes: bytes))
  }

  package func write(_ text: String) async throws { try await write(Array(text.utf8)) }

  package func write(_ answer: TestAnswer) async throws { try await write(answer.bytes) }

  /// Sends FIN without a close_notify, as a peer that dies does.
  package func cut() async {
    try? await channel.triggerUserOutboundEvent(SocketEnd.fin)
  }

  /// Sends RST (SO_LINGER 0).
  package func reset() async {
    try? await channel.triggerUserOutboundEvent(SocketEnd.rst)
  }
}

/// How to end a socket below TLS.
enum SocketEnd: Sendable {
  case fin
  case rst
}

/// Sits next to the socket, below TLS, and ends it when told to.
final class SocketEnder: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
    switch event as? SocketEnd {
    case .fin:
      context.close(mode: .all, promise: promise)
    case .rst:
      (context.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenFailure { _ in }
      context.close(mode: .all, promise: promise)
    case nil:
      context.triggerUserOutboundEvent(event, promise: promise)
    }
  }
}

/// Sits next to the script: turns the channel's reads into a stream that ends with the connection.
final class StreamFeeder: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let stream: AsyncStream<[UInt8]>.Continuation

  init(_ stream: AsyncStream<[UInt8]>.Continuation) { self.stream = stream }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    stream.yield(Array(Self.unwrapInboundIn(data).readableBytesView))
  }

  func channelInactive(context: ChannelHandlerContext) {
    stream.finish()
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    stream.finish()
    context.close(promise: nil)
  }

  // A channel that is closed before it was active is told nothing else.
  func handlerRemoved(context: ChannelHandlerContext) { stream.finish() }
}
