/// What an operator decides about the server: its addresses, limits and TLS.
package struct ServerSettings: Hashable, Sendable {
  package let host: String
  package let port: Int
  /// Bytes of one request body.
  package let maxBody: Int
  package let maxConnections: Int
  /// Connections of one client address; zero is no limit.
  package let maxConnectionsPerAddress: Int
  /// Bytes of all request bodies in memory.
  package let maxBytesInFlight: Int
  package let requestDeadline: Duration
  package let idleTimeout: Duration
  package let shutdownGrace: Duration
  /// Requests a second of one API key; zero is no limit.
  package let rateLimit: Int
  /// Requests a second of one user; zero is no limit.
  package let userRateLimit: Int
  /// Requests a second of one client address; zero is no limit.
  package let addressRateLimit: Int
  package let trustedProxies: [AddressRange]
  /// `nil`: plain HTTP.
  package let tls: TLS?
  /// `nil`: operators are served at the address of everybody.
  package let admin: Admin?

  package init(
    host: String, port: Int, maxBody: Int, maxConnections: Int, maxConnectionsPerAddress: Int, maxBytesInFlight: Int,
    requestDeadline: Duration, idleTimeout: Duration, shutdownGrace: Duration, rateLimit: Int, userRateLimit: Int,
    addressRateLimit: Int, trustedProxies: [AddressRange], tls: TLS?, admin: Admin?
  ) {
    self.host = host
    self.port = port
    self.maxBody = maxBody
    self.maxConnections = maxConnections
    self.maxConnectionsPerAddress = maxConnectionsPerAddress
    self.maxBytesInFlight = maxBytesInFlight
    self.requestDeadline = requestDeadline
    self.idleTimeout = idleTimeout
    self.shutdownGrace = shutdownGrace
    self.rateLimit = rateLimit
    self.userRateLimit = userRateLimit
    self.addressRateLimit = addressRateLimit
    self.trustedProxies = trustedProxies
    self.tls = tls
    self.admin = admin
  }

  /// Files in PEM; both were there and belonged together when the configuration was read.
  package struct TLS: Hashable, Sendable {
    package let certificateFile: String
    package let keyFile: String

    package init(certificateFile: String, keyFile: String) {
      self.certificateFile = certificateFile
      self.keyFile = keyFile
    }
  }

  /// Where operators are served.
  package struct Admin: Hashable, Sendable {
    package let host: String
    package let port: Int

    package init(host: String, port: Int) {
      self.host = host
      self.port = port
    }
  }
}
