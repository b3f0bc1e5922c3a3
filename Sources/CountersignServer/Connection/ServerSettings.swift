/// The operator's settings of the server: addresses, limits and TLS.
package struct ServerSettings: Hashable, Sendable {
  package var host = "127.0.0.1"
  package var port = 8080
  /// Bytes of one request body.
  package var maxBody = 4 << 20
  package var maxConnections = 10_000
  /// Connections of one client address; zero is no limit.
  package var maxConnectionsPerAddress = 200
  /// Origins of the pages that may call from a browser.
  package var pageOrigins: Set<String> = []
  /// Bytes of all request bodies in memory.
  package var maxBytesInFlight = 64 << 20
  package var requestDeadline: Duration = .seconds(15)
  package var idleTimeout: Duration = .seconds(10)
  package var shutdownGrace: Duration = .seconds(20)
  /// Requests a second of one API key; zero is no limit.
  package var rateLimit = 0
  /// Requests a second of one user; zero is no limit.
  package var userRateLimit = 10
  /// Requests a second of one client address; zero is no limit.
  package var addressRateLimit = 300
  /// Customers and devices that one client address may make known in an hour; zero is no limit.
  package var newCustomersPerAddress = 600
  package var trustedProxies: [AddressRange] = []
  /// `nil`: plain HTTP.
  package var tls: TLS?
  /// `nil`: operators are served at the address of everybody.
  package var admin: Admin?

  package init() {}

  /// The longest that a request waits for news. The rest of its deadline is for the answer, which may take a second on a
  /// busy machine.
  var longestWait: Duration { requestDeadline * 4 / 5 }

  /// Files in PEM; both were there and belonged together when the configuration was read.
  package struct TLS: Hashable, Sendable {
    package let certificateFile: String
    package let keyFile: String

    package init(certificateFile: String, keyFile: String) {
      self.certificateFile = certificateFile
      self.keyFile = keyFile
    }
  }

  /// The operators' own address.
  package struct Admin: Hashable, Sendable {
    package let host: String
    package let port: Int

    package init(host: String, port: Int) {
      self.host = host
      self.port = port
    }
  }
}
