import Hummingbird
import Logging

/// Logs one line per request, with route, status and time, never content, and records the same in the metrics.
struct AccessLogMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  var metrics: HTTPMetrics

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let start = ContinuousClock.now
    metrics.began()
    // Nothing throws: every error has become a problem.
    let response = try await next(request, context)
    note(response, to: request, context, since: start)
    return response
  }

  func note(
    _ response: Response, to request: Request, _ context: Context, since start: ContinuousClock.Instant
  ) {
    let elapsed = start.duration(to: .now)
    metrics.answered(response, request.method, route: context.endpointPath, after: elapsed)
    // The route, not the path: a path may hold a user ID, and its values have no bound.
    context.logger.log(
      level: response.status.kind == .serverError ? .warning : .info, "request",
      metadata: [
        "method": .string((context.unknownMethod ?? request.method).rawValue),
        "route": .string(context.endpointPath ?? "none"),
        "status": .stringConvertible(response.status.code),
        "milliseconds": .stringConvertible(elapsed / .milliseconds(1)),
      ])
  }
}
