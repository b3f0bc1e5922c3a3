import HTTPTypes
import Hummingbird

/// The routes of one subject.
protocol Controller: Sendable {
  func addRoutes(to router: some RouterMethods<ServiceRequestContext>)
}

/// The handler of a route.
typealias Handler = @Sendable (Request, ServiceRequestContext) async throws -> Response

extension RouterMethods<ServiceRequestContext> {
  /// Registers a path for its methods, and 405 for the others (RFC 9110, section 15.5.6).
  func serve(_ path: RouterPath, _ handlers: [HTTPRequest.Method: Handler]) {
    let allowed = (handlers.keys + (handlers[.get] == nil ? [] : [.head])).sorted { $0.rawValue < $1.rawValue }
    for method in KnownMethods.all {
      on(path, method: method) { request, context in
        // HEAD is GET without the body (RFC 9110, section 9.3.2).
        if method == .head, let handler = handlers[.get] {
          return try await handler(request, context)
        }
        guard let handler = handlers[method] else {
          throw Problem(
            .methodNotAllowed, "This path takes \(allowed.map(\.rawValue).joined(separator: ", ")) only.",
            allow: allowed)
        }
        return try await handler(request, context)
      }
    }
  }
}
