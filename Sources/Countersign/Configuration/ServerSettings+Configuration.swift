import CountersignServer

import struct FoundationEssentials.Date

extension ServerSettings {
  init(_ reader: inout ConfigurationReader) {
    self.init()
    host = reader.read("server.host", .host, default: host, "Address to listen on")
    port = reader.read("server.port", .integer(0...65_535), default: port, "Port to listen on; 0 takes a free one")
    maxBody = reader.read(
      "server.max_body", .size(1 << 10...64 << 20), default: maxBody, "The largest request body that is accepted")
    maxConnections = reader.read(
      "server.max_connections", .integer(1...100_000), default: maxConnections,
      "Connections open at once; further ones wait to be accepted")
    maxConnectionsPerAddress = reader.read(
      "server.max_connections_per_address", .integer(0...100_000), default: maxConnectionsPerAddress,
      "Connections open at once from one client address; further ones are closed. Proxies in "
        + "`server.trusted_proxies` and this machine are exempt; 0 is no limit for anybody")
    maxBytesInFlight = reader.read(
      "server.max_bytes_in_flight", .size(1 << 20...4 << 30), default: maxBytesInFlight,
      "Bytes of request bodies in memory at once, over all requests")
    requestDeadline = reader.read(
      "server.request_deadline", .duration(.milliseconds(100) ... .minutes(10)), default: requestDeadline,
      "Time limit of a whole request, from its first byte to its answer")
    idleTimeout = reader.read(
      "server.idle_timeout", .duration(.milliseconds(100) ... .minutes(10)), default: idleTimeout,
      "A connection without traffic for this long is closed")
    shutdownGrace = reader.read(
      "server.shutdown_grace", .duration(.zero ... .minutes(10)), default: shutdownGrace,
      "How long requests in progress may take to finish at shutdown")
    rateLimit = reader.read(
      "server.rate_limit", .integer(0...1_000_000), default: rateLimit,
      "Requests per second of one API key; 0 is no limit")
    tls = TLS(&reader)
    admin = Admin(&reader)
    userRateLimit = reader.read(
      "server.user_rate_limit", .integer(0...1_000_000), default: userRateLimit,
      "Requests per second of one user from one client address, and ten times as many writes from all; 0 is no limit")
    addressRateLimit = reader.read(
      "server.address_rate_limit", .integer(0...1_000_000), default: addressRateLimit,
      "Requests per second from one client address, without an API key; 0 is no limit")
    newCustomersPerAddress = reader.read(
      "server.new_customers_per_address", .integer(0...1_000_000), default: newCustomersPerAddress,
      "New customers and devices from one client address in an hour, with an app's public key; 0 is no limit")
    trustedProxies = reader.list(
      "server.trusted_proxies", of: .network,
      "Reverse proxies, as addresses or networks (`10.0.0.0/8`): their `X-Forwarded-For` names the client")
    pageOrigins = Set(
      reader.list(
        "server.page_origins", of: .pageOrigin,
        "Origins of web pages that may call from a browser (`https://app.example.com`); pages of other origins "
          + "cannot read answers"
      ))

    if tls == nil, !Loopback.contains(host: host) {
      reader.warning(
        "server.host",
        "others than this machine can connect, and what they send is not encrypted; set server.tls, or put a TLS proxy "
          + "in front")
    }
  }
}

extension ValueForm<AddressRange> {
  fileprivate static var network: Self {
    Self(name: "text", AddressRange.init) {
      "\(Quotation.of($0)) is neither an address nor a network such as 10.0.0.0/8 or fd00::/8"
    }
  }
}

extension ValueForm<String> {
  /// An origin as browsers send it (RFC 6454, section 6.2).
  fileprivate static var pageOrigin: Self {
    Self(name: "text") { text in
      // Browsers leave the scheme's own port out.
      let hasUsualPort =
        text.hasPrefix("https:") && text.hasSuffix(":443") || text.hasPrefix("http:") && text.hasSuffix(":80")
      return !hasUsualPort && text.wholeMatch(of: /https?:\/\/[a-z0-9.\-\[\]:]{1,255}/) != nil ? text : nil
    } or: {
      "\(Quotation.of($0)) is no origin such as https://app.example.com: in lower case, without a path"
    }
  }
}

extension ServerSettings.TLS {
  /// - Returns: `nil` without TLS, and if anything is invalid, which is reported.
  fileprivate init?(_ reader: inout ConfigurationReader) {
    let certificateFile = reader.read(
      "server.tls.certificate_file", .file,
      "The server's certificate and its intermediates (PEM); with it the service speaks TLS. A renewed certificate "
        + "is picked up without a restart")
    let keyFile = reader.read("server.tls.key_file", .file, "The private key of that certificate (PEM, not encrypted)")
    guard let certificateFile, let keyFile else {
      for (other, name) in [(certificateFile, "server.tls.key_file"), (keyFile, "server.tls.certificate_file")]
      where other != nil {
        reader.reportMissing(name, unless: "leave server.tls out")
      }
      return nil
    }
    self.init(certificateFile: certificateFile, keyFile: keyFile)
    do throws(ServerIdentity.Unusable) {
      let identity = try ServerIdentity(self)
      if identity.isKeyWorldReadable {
        reader.warning(
          "server.tls.key_file",
          "every user of this machine may read the private key; chmod 0400 keeps it to its owner")
      }
      if let sentence = identity.lapse(at: Date()) { reader.warning("server.tls.certificate_file", sentence) }
    } catch {
      reader.problem(error.isAboutKey ? "server.tls.key_file" : "server.tls.certificate_file", error.sentence)
    }
  }
}

extension ServerSettings.Admin {
  /// - Returns: `nil` without an admin address, and if anything is invalid, which is reported.
  fileprivate init?(_ reader: inout ConfigurationReader) {
    let host = reader.read(
      "server.admin.host", .host, "Address for operators; 127.0.0.1 if only `server.admin.port` is set")
    let port = reader.read(
      "server.admin.port", .integer(0...65_535),
      "Port for operators: `/metrics` and `/readyz` are served there, in plain HTTP, and no longer on `server.port`; "
        + "0 takes a free one")
    guard let port else {
      if host != nil { reader.reportMissing("server.admin.port", unless: "leave server.admin.host out") }
      return nil
    }
    self.init(host: host ?? "127.0.0.1", port: port)
    if !Loopback.contains(host: self.host) {
      reader.warning(
        "server.admin.host",
        "others than this machine can read metrics and readiness, which are open and not encrypted; let only your "
          + "monitoring reach it")
    }
  }
}

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
