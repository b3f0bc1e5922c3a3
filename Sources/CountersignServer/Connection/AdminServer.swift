import Glibc
package import Hummingbird
import HummingbirdCore
package import Logging
package import NIOCore
import ServiceLifecycle

/// The operators' listener: readiness and metrics, apart from the public address.
///
/// It has a few connections of its own, so that monitoring gets in when the public address is full.
package struct AdminServer: Service {
  package static let maxConnections = 64

  private let responder: RouterResponder<ServiceRequestContext>
  private let http1: HTTP1Channel.Configuration
  private let admin: ServerSettings.Admin
  private let onListening: @Sendable (SocketAddress) async -> Void
  private let logger: Logger

  package init(
    responder: RouterResponder<ServiceRequestContext>, settings: ServerSettings, admin: ServerSettings.Admin,
    onListening: @escaping @Sendable (SocketAddress) async -> Void, logger: Logger
  ) {
    self.responder = responder
    http1 = settings.http1()
    self.admin = admin
    self.onListening = onListening
    self.logger = logger
  }

  package func run() async throws {
    let application = Application(
      responder: TaskPerRequest(responder, prepare: { KnownMethods.prepare(&$0, &$1) }),
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

/// A failure to listen on an address.
package struct ListeningError: Error, Hashable, CustomStringConvertible {
  /// The configuration key of the port.
  package var key: String
  package var host: String
  package var port: Int
  package var errno: CInt

  package init(key: String, host: String, port: Int, errno: CInt) {
    self.key = key
    self.host = host
    self.port = port
    self.errno = errno
  }

  package var description: String {
    switch errno {
    case EADDRINUSE: "\(key): something listens on \(host):\(port) already; stop it, or set another port."
    case EACCES: "\(key): this user may not listen on \(host):\(port); set a port above 1023."
    default: "\(key): cannot listen on \(host):\(port): \(String(cString: strerror(errno)))."
    }
  }
}
