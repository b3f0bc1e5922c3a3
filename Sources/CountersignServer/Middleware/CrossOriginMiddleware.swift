import HTTPTypes
import Hummingbird

/// Lets pages of any origin call some paths (https://fetch.spec.whatwg.org/#http-cors-protocol), as an SDK in a browser
/// does. Whoever calls is known by a header, and never by a cookie, so the origin decides nothing.
struct CrossOriginMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  /// Whether a path is for pages.
  var covers: @Sendable (_ path: String) -> Bool

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    guard covers(request.uri.path) else { return try await next(request, context) }
    if request.method == .options, request.headers[.accessControlRequestMethod] != nil {
      return Response(
        status: .noContent,
        headers: [
          .accessControlAllowOrigin: "*", .accessControlAllowMethods: "GET, POST",
          .accessControlAllowHeaders: request.headers[.accessControlRequestHeaders] ?? "Authorization, Content-Type",
          .accessControlMaxAge: "86400",
        ])
    }
    var response = try await next(request, context)
    response.headers[.accessControlAllowOrigin] = "*"
    return response
  }
}
