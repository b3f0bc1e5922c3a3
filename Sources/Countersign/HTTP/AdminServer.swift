import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import ServiceLifecycle

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// The operators' own address: readiness and metrics, apart from where everybody connects.
///
/// A few connections are enough for it, and they are its own: those of the public address being used up does not keep the
/// monitoring out.
struct AdminServer: Service {
  static let maxConnections = 64

  var responder: RouterResponder<ServiceRequestContext>
  var http1: HTTP1Channel.Configuration
  var admin: ServiceConfiguration.Server.Admin
  var onListening: @Sendable (SocketAddress) async -> Void
  var logger: Logger

  func run() async throws {
    let application = Application(
      responder: responder,
      server: .http1(configuration: http1),
      configuration: ApplicationConfiguration(
        address: .hostname(admin.host, port: admin.port), serverName: nil,
        availableConnectionsDelegate: MaximumAvailableConnections(Self.maxConnections)),
      onServerRunning: { channel in
        if let address = channel.localAddress { await onListening(address) }
      },
      logger: logger)
    do {
      try await application.run()
    } catch let error as IOError {
      throw ListeningError(key: "server.admin.port", host: admin.host, port: admin.port, errno: error.errnoCode)
    }
  }
}

/// An address cannot be listened on.
struct ListeningError: Error, Hashable, CustomStringConvertible {
  /// Which key of the configuration has the port.
  var key: String
  var host: String
  var port: Int
  var errno: CInt

  var description: String {
    switch errno {
    case EADDRINUSE: "\(key): something listens on \(host):\(port) already; stop it, or set another port."
    case EACCES: "\(key): this user may not listen on \(host):\(port); set a port above 1023."
    default: "\(key): cannot listen on \(host):\(port): \(String(cString: strerror(errno)))."
    }
  }
}
