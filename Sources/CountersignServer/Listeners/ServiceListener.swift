import Glibc
import HummingbirdCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import ServiceLifecycle

package import Logging
package import NIOCore

/// A listener and its connections: HTTP/1.1, in TLS where there is a certificate.
package struct ServiceListener: Service, CustomStringConvertible {
  /// The connections of the operators' own listener, so that monitoring gets in when the public address is full.
  package static let operatorsConnections = 64

  private let channel: ServiceChannel
  /// The section of the configuration that names the address: `server`, or `server.admin`.
  private let section: String
  private let host: String
  private let port: Int
  private let maxConnections: Int
  private let onListening: @Sendable (SocketAddress) async -> Void
  private let logger: Logger

  package var description: String { "ServiceListener" }

  /// - Parameter admin: the operators' address; `nil` for the public one.
  /// - Throws: where TLS cannot be set up.
  package init(
    _ front: RequestFront, _ settings: ServerSettings, admin: ServerSettings.Admin? = nil,
    identities: ServerIdentities? = nil, patience: TimeAmount = BodyPace.usualPatience,
    onListening: @escaping @Sendable (SocketAddress) async -> Void, logger: Logger
  ) throws {
    channel = ServiceChannel(
      front: front,
      limits: ConnectionGuard.Limits(
        idle: TimeAmount(settings.idleTimeout), request: TimeAmount(settings.requestDeadline), patience: patience),
      counts: admin == nil ? ConnectionCounts(settings, logger: logger) : nil,
      tls: try identities.map { try NIOSSLContext(configuration: $0.tlsConfiguration) }, logger: logger)
    section = admin == nil ? "server" : "server.admin"
    (host, port) = admin.map { ($0.host, $0.port) } ?? (settings.host, settings.port)
    maxConnections = admin == nil ? settings.maxConnections : Self.operatorsConnections
    self.onListening = onListening
    self.logger = logger
    // The first connections come to several threads at once. Where two of them made the decoder's type at the same moment, the
    // process ended in Swift's runtime (6.3): `swift_checkMetadataState` of nothing, in one of some 300 starts under load.
    _ = ServiceChannel.makeDecoder()
  }

  /// Connections that are accepted at each turn of the event loop. NIO's own four would take many seconds to accept many
  /// clients where every turn is full of work. They come in before they are counted: few where few may be held.
  static func acceptedAtOnce(of maxConnections: Int) -> Int { min(256, max(1, maxConnections / 32)) }

  /// Connections are accepted on the thread of an event loop. NIO hands them on in parts: on Swift's own threads each part would
  /// wait its turn behind Apple's answers, and a client that connects behind many others for all of them.
  package func run() async throws {
    let server = channel.server(
      configuration: ServerConfiguration(
        address: .hostname(host, port: port),
        availableConnectionsDelegate: MaximumAvailableConnections(maxConnections)),
      onServerRunning: { [maxConnections, onListening] channel in
        let most = Self.acceptedAtOnce(of: maxConnections)
        try? await channel.setOption(.maxMessagesPerRead, value: UInt(most)).get()
        if let address = channel.localAddress { await onListening(address) }
      },
      eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger)
    do {
      try await withTaskExecutorPreference(LoopExecutor(MultiThreadedEventLoopGroup.singleton.any())) {
        try await server.run()
      }
    } catch let error as IOError {
      throw ListeningError(section: section, host: host, port: port, errno: error.errnoCode)
    } catch is SocketAddressError.UnknownHost {
      throw ListeningError(section: section, host: host, port: port, errno: nil)
    }
  }
}

/// A connection of a listener.
struct ServiceChannel: ServerChildChannel {
  struct Connection: ServerChildChannelValue {
    let channel: any Channel
    let handler: NIOLoopBound<RequestHandler>
  }

  /// The most bytes that are read at once: most receipts come in one read.
  private static let readSize = 8 * 1024

  let front: RequestFront
  let limits: ConnectionGuard.Limits
  /// `nil` for a listener that does not count.
  var counts: ConnectionCounts?
  /// `nil`: plain HTTP.
  var tls: NIOSSLContext?
  let logger: Logger

  /// Connections are bounded in every direction by `ConnectionGuard`, whose deadline for the first request begins with the
  /// connection, so that a handshake counts against it; headers by the decoder.
  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Connection> {
    channel.eventLoop.makeCompletedFuture {
      let pipeline = channel.pipeline.syncOperations
      // A connection keeps its read buffers, also while its request waits: NIO's own are up to four of 64 KB.
      try channel.syncOptions?.setOption(
        .recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: Self.readSize))
      if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
      let handler = RequestHandler(
        front: front, guardian: ConnectionGuard(limits: limits, counts: counts), loop: channel.eventLoop,
        logger: self.logger)
      try pipeline.addHandlers(Self.makeDecoder(), handler)
      return Connection(channel: channel, handler: NIOLoopBound(handler, eventLoop: channel.eventLoop))
    }
  }

  /// The most bytes that the decoder keeps.
  static let mostUnread = 64 * 1024

  // Not inlined: a decoder that nobody uses would be optimized away, and its type with it.
  @inline(never)
  static func makeDecoder() -> ByteToMessageHandler<HTTPRequestDecoder> {
    var headers = NIOHTTPDecoderLimitConfiguration()
    (headers.maxHeaderFieldSize, headers.maxHeaderListSize, headers.maxHeaderFieldCount) = (16 * 1024, 16 * 1024, 64)
    // It keeps the rest of a header, and after a request for another protocol everything that comes, unread.
    return ByteToMessageHandler(
      HTTPRequestDecoder(limitConfiguration: headers), maximumBufferSize: mostUnread)
  }

  /// Returns when the connection is closed and its last request has ended.
  func handle(value: Connection, logger: Logger) async {
    await withTaskCancellationHandler {
      let task = try? await value.channel.closeFuture.map { value.handler.value.task }.get()
      await task?.value
    } onCancel: {
      value.channel.eventLoop.execute { value.handler.value.cancel() }
    }
  }
}

/// A failure to listen on an address.
package struct ListeningError: Error, Hashable, CustomStringConvertible {
  /// The section of the configuration that names the address: `server`, or `server.admin`.
  let section: String
  let host: String
  let port: Int
  /// `nil` where the host does not resolve.
  let errno: CInt?

  package var description: String {
    guard let errno else {
      return "\(section).host: \(host) does not resolve; write an IPv6 address without brackets."
    }
    return switch errno {
    case EADDRINUSE: "\(section).port: something listens on \(host):\(port) already; stop it, or set another port."
    case EACCES: "\(section).port: this user may not listen on \(host):\(port); set a port above 1023."
    default: "\(section).port: cannot listen on \(host):\(port): \(String(cString: strerror(errno)))."
    }
  }
}
