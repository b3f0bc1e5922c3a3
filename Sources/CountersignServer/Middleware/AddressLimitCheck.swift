import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Resilience

/// Limits the requests of a client address (`server.address_rate_limit`), whatever they ask for, before authentication: guesses at
/// credentials count.
struct AddressLimitCheck: RequestCheck {
  /// Liveness has no limit: it costs nothing, and a supervisor may ask through a proxy that names no client.
  private static let exception = "/livez"

  var limits: RequestLimits

  /// The headers in which a proxy names its client.
  private let forwarding = [RequestLimits.forwardedFor, HTTPField.Name("Forwarded")].compactMap(\.self)
  private let isWorthALine = Occasional(most: 1, every: .seconds(86_400))

  func check(_ request: Request, _ context: inout ServiceRequestContext) throws(Problem) {
    noteUnnamedProxy(request, context)
    guard let address = limits.client(naming: request.headers, peer: context.peer), request.uri.path != Self.exception
    else { return }
    try limits.address.admit(address.client)
    context.clientAddress = address
  }

  /// Warns about a proxy that is not in `server.trusted_proxies`: all clients behind it count as one, and on this machine as one
  /// without a limit.
  private func noteUnnamedProxy(_ request: Request, _ context: ServiceRequestContext) {
    guard let peer = context.peer, !limits.proxies.contains(peer),
      forwarding.contains(where: { request.headers[$0] != nil }), isWorthALine.admit()
    else { return }
    context.logger.warning(
      "requests arrive through an unknown proxy: if it is yours, add it to server.trusted_proxies",
      metadata: ["proxy_on_this_machine": "\(peer.isLoopback)"])
  }
}
