import Glibc
import Hummingbird
import HummingbirdCore
import HummingbirdTLS
import Logging
import NIOCore
import NIOSSL
import Synchronization

/// A request's context with its connection, for troubles that break the connection.
struct SimulatorContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  let channel: any Channel

  init(source: ApplicationRequestContextSource) {
    coreContext = CoreRequestContextStorage(source: source)
    channel = source.channel
  }
}

/// One listening socket and the task that serves it.
struct Listener: Sendable {
  typealias Respond = @Sendable (Request, SimulatorContext) async throws -> Response

  let port: Int
  private let task: Task<Void, Never>

  /// Returns once the socket listens: for TLS with a configuration, for plain HTTP otherwise.
  static func open(
    host: String, port: Int, tls: TLSConfiguration?, clock: SimulatedClock, logger: Logger, respond: @escaping Respond
  ) async throws -> Listener {
    let (ports, continuation) = AsyncThrowingStream<Int, any Error>.makeStream()
    var quiet = logger
    // Cancellation is the normal way to stop a listener, but Hummingbird logs it as an error. Failing to listen throws.
    quiet.logLevel = .critical
    let responder = CallbackResponder<SimulatorContext> { try await respond($0, $1) }
    let configuration = ApplicationConfiguration(address: .hostname(host, port: port), serverName: nil)
    let onServerRunning: @Sendable (any Channel) async -> Void = { channel in
      continuation.yield(channel.localAddress?.port ?? port)
    }
    let plain = HTTPServerBuilder.http1(
      configuration: .init(additionalChannelHandlers: [WholeClosure(), DateOfAnswers(clock: clock)]))
    let application = Application(
      responder: responder, server: try tls.map { try .tls(plain, tlsConfiguration: $0) } ?? plain,
      configuration: configuration, onServerRunning: onServerRunning, logger: quiet)
    let task = Task {
      do {
        try await application.run()
        continuation.finish()
      } catch { continuation.finish(throwing: error) }
    }
    do {
      for try await port in ports { return Listener(port: port, task: task) }
    } catch let error as IOError {
      throw StartError.cannotListen(host: host, port: port, reason: String(cString: strerror(error.errnoCode)))
    } catch {
      throw StartError.cannotListen(host: host, port: port, reason: "\(error)")
    }
    throw StartError.cannotListen(host: host, port: port, reason: "the listener ended at once")
  }

  func close(_ connections: ConnectionRegistry) async {
    task.cancel()
    connections.cutAll()
    await task.value
  }
}

/// Closes a connection when its client closes its half.
///
/// Hummingbird allows half-closed connections. A response that is never sent has to notice that its client has gone.
private final class WholeClosure: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = NIOAny

  func handlerAdded(context: ChannelHandlerContext) {
    // If the option cannot be set, the connection stays as Hummingbird made it.
    try? context.channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: false)
  }
}

/// Open connections that carried a request, to be closed when a simulator stops.
///
/// An idle connection would otherwise keep its handler waiting for the client to close it.
final class ConnectionRegistry: Sendable {
  private struct State {
    var channels: [ObjectIdentifier: any Channel] = [:]
    var isClosed = false
  }

  private let state = Mutex(State())

  func add(_ channel: any Channel) {
    let id = ObjectIdentifier(channel)
    let (isNew, isClosed) = state.withLock { state in
      (state.channels.updateValue(channel, forKey: id) == nil, state.isClosed)
    }
    if isClosed { channel.cut(withReset: false) }
    guard isNew else { return }
    channel.closeFuture.whenComplete { [self] _ in
      state.withLock { state in _ = state.channels.removeValue(forKey: id) }
    }
  }

  func cutAll() {
    let channels = state.withLock { state in
      state.isClosed = true
      return Array(state.channels.values)
    }
    for channel in channels { channel.cut(withReset: false) }
  }
}

extension Channel {
  /// Closes the socket without TLS's `close_notify`, which would wait for the peer's.
  ///
  /// `withReset` first sets the linger time to zero, so that the kernel sends RST in place of FIN.
  func cut(withReset: Bool) {
    eventLoop.execute {
      if withReset, let options = self as? any SocketOptionProvider {
        // Runs synchronously, as this is the channel's own event loop; errors on a closed channel do not matter.
        _ = options.setSoLinger(linger(l_onoff: 1, l_linger: 0))
      }
      if let secure = try? self.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self) {
        // Closes outwards from the TLS handler, which leaves the handler itself out.
        secure.close(mode: .all, promise: nil)
      } else {
        self.close(mode: .all, promise: nil)
      }
    }
  }
}
