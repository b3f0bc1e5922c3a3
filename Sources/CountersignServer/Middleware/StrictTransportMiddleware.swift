import HTTPTypes
import Hummingbird

/// Has browsers come back by HTTPS only (RFC 6797), where the service itself speaks TLS.
struct StrictTransportMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    var response = try await next(request, context)
    response.headers[.strictTransportSecurity] = "max-age=31536000"
    return response
  }
}
