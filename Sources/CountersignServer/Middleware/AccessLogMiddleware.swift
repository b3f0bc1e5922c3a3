import Hummingbird
import Logging

/// Logs one line per request: route, status and time, never content.
struct AccessLogMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let start = ContinuousClock.now
    let response = try await next(request, context)
    let elapsed = start.duration(to: .now)
    // The route, not the path: a path may hold a user ID, and its values have no bound.
    context.logger.log(
      level: response.status.kind == .serverError ? .warning : .info, "request",
      metadata: [
        "method": .string(request.method.rawValue), "route": .string(context.endpointPath ?? "none"),
        "status": .stringConvertible(response.status.code),
        "milliseconds": .stringConvertible(elapsed / .milliseconds(1)),
      ])
    return response
  }
}
