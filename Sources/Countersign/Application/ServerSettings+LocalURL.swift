import CountersignServer

extension ServerSettings {
  /// The address of `/livez` and `/readyz` for a program on this machine: `server.admin`, else `server`. `nil` where the
  /// service takes a free port.
  var localURL: String? {
    let (host, port) = admin.map { ($0.host, $0.port) } ?? (host, port)
    guard port > 0 else { return nil }
    return localOrigin(scheme: admin == nil && tls != nil ? "https" : "http", host: host, port: port)
  }
}

/// The origin by which this machine reaches a service at an address, also where that is every address.
func localOrigin(scheme: String, host: String, port: Int) -> String {
  let reached = ["0.0.0.0": "127.0.0.1", "::": "::1"][host] ?? host
  return "\(scheme)://\(reached.contains(":") ? "[\(reached)]" : reached):\(port)"
}
