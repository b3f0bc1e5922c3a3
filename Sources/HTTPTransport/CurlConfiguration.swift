extension CurlTransport {
  /// All settings of the transport, with conservative defaults.
  package struct Configuration: Sendable {
    package enum Scheme: String, Hashable, Sendable {
      case https, http
    }

    /// A PEM file of the only trusted certificate authorities; `nil`: the system's bundle.
    package var caFile: String?
    /// The most concurrent transfers; with HTTP/1.1 also the most connections.
    package var maxInFlight = 64
    /// The most queued requests; one more ends with `.overloaded`. It bounds memory: how many can be served in time
    /// depends on the duration of calls, see `refusesHopeless`.
    package var maxQueued = 1024
    /// Whether a request that has to queue is refused, with `.overloaded`, once it cannot be answered before its
    /// deadline; see `QueueForecast`. For a service with callers of its own.
    package var refusesHopeless = false
    /// The limit of name look-up, TCP and TLS together. A request's own deadline may be earlier.
    package var connectTimeout = Duration.seconds(3)
    package var userAgent = "countersign"
    /// The most bytes of a response's header block, interim responses and trailers included.
    package var responseHeaderLimit = 64 * 1024
    package var allowedSchemes: Set<Scheme> = [.https]
    /// Whether connections to addresses outside the public Internet are refused, also where a name resolves to one: for
    /// URLs that could reach this machine or its network (server-side request forgery). It is the address that is
    /// connected to which counts, so that a second look-up cannot change it.
    package var refusesPrivateAddresses = false
    /// Offers HTTP/2 by ALPN, and sends up to `streamsPerConnection` concurrent requests to one host over one connection if the
    /// host supports it.
    ///
    /// HTTP/1.1 is cheaper up to `connectionsForHTTP1` requests in flight, by a third of an exchange's CPU and more.
    /// Beyond that, handshakes and the memory of connections cost more. `make bench` compares the two.
    package var http2 = true
    package static let connectionsForHTTP1 = 256
    /// libcurl works on all streams of a connection for each packet: with 512 requests in flight over one connection, a receipt
    /// took 760 µs of CPU, and 620 with this limit. Requests of a burst that find the known connections full open one each, at
    /// most `maxInFlight`; those share later ones.
    package static let streamsPerConnection = 32
    /// How long an idle connection may be reused; whole seconds.
    package var idleConnectionLifetime = Duration.seconds(60)
    /// Fixed results of the name look-up: `HOST:PORT:ADDRESS` (libcurl's CURLOPT_RESOLVE). For tests.
    package var resolve: [String] = []
    /// The name of the transport's thread in `top -H`; at most 15 bytes of it.
    package var threadName = "curl-transport"

    package init(caFile: String? = nil) { self.caFile = caFile }
  }

  /// The reason why a transport cannot be made. Each description names the remedy.
  package enum SetupError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file cannot be read, or contains no PEM certificate.
    case unusableCAFile(String)
    case noSystemCAFile
    /// The name of an invalid value of the configuration.
    case invalidConfiguration(String)
    /// The name of the libcurl function that failed.
    case libcurl(String)
    /// No thread could be started; the value is `errno`.
    case thread(Int32)
    /// No descriptor for epoll; the value is `errno`.
    case descriptor(Int32)

    package var description: String {
      switch self {
      case .unusableCAFile(let path): "\(path) cannot be read or holds no PEM certificate; name a CA bundle"
      case .noSystemCAFile: "no CA bundle in the usual places; install ca-certificates or name a CA bundle"
      case .invalidConfiguration(let name): "the value of \(name) cannot be used"
      case .libcurl(let function): "\(function) failed; libcurl is missing, without TLS, or out of memory"
      case .thread(let number): "no thread could be started (errno \(number)); raise the limit of processes"
      case .descriptor(let number): "no file descriptor (errno \(number)); raise the limit of open files"
      }
    }
  }
}

extension CurlTransport.Configuration {
  /// This configuration with the CA bundle found, if its values can be used.
  func checked() throws(CurlTransport.SetupError) -> Self {
    func require(_ holds: Bool, _ name: String) throws(CurlTransport.SetupError) {
      guard holds else { throw .invalidConfiguration(name) }
    }
    try require((1...10_000).contains(maxInFlight), "maxInFlight")
    try require((0...1_000_000).contains(maxQueued), "maxQueued")
    try require(connectTimeout > .zero && connectTimeout < .seconds(86_400), "connectTimeout")
    try require(
      idleConnectionLifetime >= .seconds(1) && idleConnectionLifetime < .seconds(86_400), "idleConnectionLifetime")
    try require(responseHeaderLimit > 0, "responseHeaderLimit")
    try require(!allowedSchemes.isEmpty, "allowedSchemes")
    try require(HeaderField.isValue(userAgent), "userAgent")
    try require(resolve.allSatisfy(HeaderField.isValue), "resolve")
    var checked = self
    checked.caFile = try CABundle.path(configured: caFile)
    return checked
  }
}

extension Duration {
  /// Whole milliseconds, rounded up, so that a timer never fires early.
  var millisecondsRoundedUp: Int {
    let (seconds, attoseconds) = components
    return Int(seconds) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
  }
}
