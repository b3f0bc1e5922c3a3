import HTTPTypes
import Hummingbird
import Logging
import Resilience

/// The checks that a request has to pass before anybody asks for its credential. They wait for nothing.
extension RequestFront {
  func check(_ request: Request, _ context: inout ServiceRequestContext) throws(Problem) {
    // Two readers of a request with none or more than one could disagree on whom it is for (RFC 9112, section 3.2). The first
    // Host becomes the authority; a second one stays among the fields.
    guard let authority = request.head.authority, !authority.isEmpty, !request.headers.contains(.host) else {
      throw Problem(.malformedRequest, "A request has to carry exactly one Host header.")
    }
    // A route is found whatever empty segments a path has. A proxy that closes `/metrics` would let `//metrics` and `/metrics/`
    // through. `/support/` redirects to the page.
    let path = request.uri.path
    guard path == "/" || path == "/support/" || Self.isExact(path) else { throw .nothingHere }
    if let limits = authentication?.limits { try count(request, path, limits, &context) }
    if let operatorsHost { try Self.requireOwn(authority, operatorsHost) }
  }

  /// Whether no segment is empty.
  private static func isExact(_ path: String) -> Bool {
    var before: UInt8 = 0
    for byte in path.utf8 {
      if byte == UInt8(ascii: "/"), before == byte { return false }
      before = byte
    }
    return before != UInt8(ascii: "/")
  }

  /// Answers 421 (RFC 9110, section 15.5.20) for a Host that is neither an address nor a name of the loopback or this listener.
  ///
  /// A web page can have its own name lead a browser here (DNS rebinding), and could then read what needs no key. Its requests
  /// carry that name; an address cannot be rebound.
  static func requireOwn(_ authority: String, _ name: String) throws(Problem) {
    let host = authority.prefix { $0 != ":" }.lowercased()
    guard ClientAddress(forwarded: authority[...]) != nil || host == "localhost" || host == name.lowercased() else {
      throw Problem(
        .misdirectedRequest,
        "Operators are served under an address, 'localhost' or the name in server.admin.host alone.")
    }
  }

  /// Limits the requests of a client address (`server.address_rate_limit`), also those for paths that do not exist, before
  /// authentication: guesses at credentials count. Liveness has no limit: it costs nothing, and a supervisor may ask through a
  /// proxy that names no client.
  private func count(
    _ request: Request, _ path: String, _ limits: RequestLimits, _ context: inout ServiceRequestContext
  ) throws(Problem) {
    // All clients behind a proxy that is not in `server.trusted_proxies` count as one, and on this machine as one without a limit.
    if let peer = context.peer, Self.forwarding.contains(where: request.headers.contains),
      !limits.proxies.contains(peer), isWorthALine.admit()
    {
      context.logger.warning(
        "requests arrive through an unknown proxy: if it is yours, add it to server.trusted_proxies",
        metadata: ["proxy_on_this_machine": .stringConvertible(peer.isLoopback)])
    }
    guard let address = limits.client(naming: request.headers, peer: context.peer), path != "/livez" else { return }
    try limits.address.admit(address.client)
    context.clientAddress = address
  }

  /// The headers in which a proxy names its client.
  private static let forwarding: [HTTPField.Name] = [.xForwardedFor, .forwarded]
}
