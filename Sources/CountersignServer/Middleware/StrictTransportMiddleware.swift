import HTTPTypes
import Hummingbird

/// Tells browsers to use HTTPS only (RFC 6797). For a service that speaks TLS itself.
struct StrictTransportMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    var response = try await next(request, context)
    Self.mark(&response)
    return response
  }

  static func mark(_ response: inout Response) {
    response.headers[.strictTransportSecurity] = "max-age=31536000"
  }
}
