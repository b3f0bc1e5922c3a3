import Hummingbird

/// Turns a caller away who asks more often than `server.rate_limit` (RFC 6585, section 4), before the body is read.
///
/// Nothing of ours is behind it: trouble of Apple's or of the ledger's is never told as 429, as apps take a 4xx for final.
struct RateLimitMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  var limiter: RateLimiter

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    if let caller = context.caller, let seconds = limiter.admit(caller.name) {
      throw Problem(.rateLimited, "This key asks more often than it may; wait and try again.", retryAfter: seconds)
    }
    return try await next(request, context)
  }
}
