import Entitlements
import Hummingbird
import Resilience

/// Turns a caller away who asks more often than `server.rate_limit` or `server.user_rate_limit` (RFC 6585, section 4),
/// before the body is read.
///
/// Trouble at Apple or in the ledger is never a 429, because apps take a 4xx for final.
struct RateLimitMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  var limits: RequestLimits

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    switch context.caller {
    case .server(let server):
      // A server has a limit of its own: all its users' requests come from one address.
      if let address = context.clientAddress { limits.perAddress.giveBack(address.client) }
      if let seconds = limits.perKey.admit(server.name) {
        throw Problem(.rateLimited, "This key asks more often than it may; wait and try again.", retryAfter: seconds)
      }
    case .user(let user):
      if let seconds = limits.perUser.admit(user.rawValue) {
        throw Problem(.rateLimited, "This user asks more often than they may; wait and try again.", retryAfter: seconds)
      }
    // The address is limited before; the user, where the request names one, by the dialect.
    case .app, nil: break
    }
    return try await next(request, context)
  }
}
