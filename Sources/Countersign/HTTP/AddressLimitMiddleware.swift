import HTTPTypes
import Hummingbird
import NIOCore

/// Turns a client address away that asks more often than `server.address_rate_limit`, before anything is known of the
/// caller: guesses at credentials count, whatever comes of them.
struct AddressLimitMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  var limits: RequestLimits

  private let forwardedFor = HTTPField.Name("X-Forwarded-For")

  init(limits: RequestLimits) { self.limits = limits }

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let forwarded = forwardedFor.map { request.headers[values: $0] } ?? []
    guard let address = limits.proxies.client(peer: context.peer, forwarded: forwarded) else {
      return try await next(request, context)
    }
    if let seconds = limits.perAddress.admit(address.client) {
      throw Problem(
        .rateLimited, "Requests come from this address more often than they may; wait and try again.",
        retryAfter: seconds)
    }
    var context = context
    context.clientAddress = address
    return try await next(request, context)
  }
}

/// How often who may ask; one limiter for each kind of whom.
struct RequestLimits: Sendable {
  var perKey: RateLimiter
  var perUser: RateLimiter
  var perAddress: RateLimiter
  var proxies: TrustedProxies

  init(_ server: ServiceConfiguration.Server) {
    perKey = RateLimiter(rate: server.rateLimit)
    perUser = RateLimiter(rate: server.userRateLimit)
    perAddress = RateLimiter(rate: server.addressRateLimit)
    proxies = TrustedProxies(ranges: server.trustedProxies)
  }
}
