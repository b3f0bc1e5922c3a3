import Glibc
import Hummingbird
import HummingbirdCore
import HummingbirdTLS
import Logging
import NIOCore
import NIOSSL
import ServiceLifecycle
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
  private let services: ServiceGroup
  private let task: Task<Void, Never>
  private let gate: Gate

  /// Returns once the socket listens: for TLS with a configuration, for plain HTTP otherwise.
  static func open(
    host: String, port: Int, tls: TLSConfiguration?, clock: SimulatedClock, logger: Logger, respond: @escaping Respond
  ) async throws -> Listener {
    let (ports, continuation) = AsyncThrowingStream<Int, any Error>.makeStream()
    var quiet = logger
    // A connection that is cut is normal here, but Hummingbird logs it as an error. Failing to listen throws.
    quiet.logLevel = .critical
    let responder = CallbackResponder<SimulatorContext> { request, context in
      try await cancelWhenGracefulShutdown { try await respond(request, context) }
    }
    let gate = Gate()
    let configuration = ApplicationConfiguration(address: .hostname(host, port: port), serverName: nil)
    let onServerRunning: @Sendable (any Channel) async -> Void = { channel in
      continuation.yield(channel.localAddress?.port ?? port)
    }
    let plain = HTTPServerBuilder.http1(
      configuration: .init(additionalChannelHandlers: [WholeClosure(gate), DateOfAnswers(clock: clock)]))
    let application = Application(
      responder: responder, server: try tls.map { try .tls(plain, tlsConfiguration: $0) } ?? plain,
      configuration: configuration, onServerRunning: onServerRunning, logger: quiet)
    let services = ServiceGroup(configuration: .init(services: [application], logger: quiet))
    let task = Task {
      do {
        try await services.run()
        continuation.finish()
      } catch { continuation.finish(throwing: error) }
    }
    do {
      for try await port in ports { return Listener(port: port, services: services, task: task, gate: gate) }
    } catch let error as IOError {
      throw StartError.cannotListen(host: host, port: port, reason: String(cString: strerror(error.errnoCode)))
    } catch {
      throw StartError.cannotListen(host: host, port: port, reason: "\(error)")
    }
    throw StartError.cannotListen(host: host, port: port, reason: "the listener ended at once")
  }

  func close(_ connections: ConnectionRegistry) async {
    gate.close()
    await services.triggerGracefulShutdown()
    connections.cutAll()
    await task.value
  }
}

/// Whether a listener takes connections.
private final class Gate: Sendable {
  private let closed = Atomic(false)

  var isClosed: Bool { closed.load(ordering: .acquiring) }
  func close() { closed.store(true, ordering: .releasing) }
}

/// Closes a connection when its client closes its half, or when the listener is being closed.
///
/// Hummingbird allows half-closed connections. A response that is never sent has to notice that its client has gone.
private final class WholeClosure: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = NIOAny

  private let gate: Gate

  init(_ gate: Gate) { self.gate = gate }

  // NIO traps for a connection that becomes active after its server has stopped:
  // https://github.com/apple/swift-nio/issues/2813
  func channelActive(context: ChannelHandlerContext) {
    if gate.isClosed { context.close(promise: nil) } else { context.fireChannelActive() }
  }

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
