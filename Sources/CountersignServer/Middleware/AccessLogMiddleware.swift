import HTTPTypes
import Hummingbird
import Logging

extension HTTPField.Name {
  // A constant that is a valid field name.
  // swift-format-ignore: NeverForceUnwrap
  static let countersignClient = HTTPField.Name("Countersign-Client")!
}

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
    var metadata: Logger.Metadata = [
      "method": .string((context.unknownMethod ?? request.method).rawValue),
      "route": .string(context.endpointPath ?? "none"),
      "status": .stringConvertible(response.status.code),
      "milliseconds": .stringConvertible(elapsed / .milliseconds(1)),
    ]
    if let client = request.headers[.countersignClient].flatMap(Self.client) { metadata["client"] = .string(client) }
    context.logger.log(level: response.status.kind == .serverError ? .warning : .info, "request", metadata: metadata)
  }

  /// The library and its version, as `javascript/0.1.0`; `nil` for anything else.
  static func client(_ text: String) -> String? {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard text.utf8.count <= 64, parts.count == 2 else { return nil }
    return parts.allSatisfy { RequestIDMiddleware.accepted(String($0)) != nil } ? text : nil
  }
}
