import HTTPTypes
import Hummingbird

/// The handler of a route that waits.
typealias Handler = @Sendable (Request, ServiceRequestContext) async throws -> Response
/// The handler of a route that may answer at once.
typealias PromptHandler = @Sendable (Request, ServiceRequestContext) throws -> Reply

/// The routes of one subject.
protocol Controller: Sendable {
  func addRoutes(to routes: Routes)
}

/// A path with its handlers.
struct Route: Sendable {
  /// The path as it is registered: `/v1/profiles/{user_id}`.
  let path: String
  /// A segment in braces is a name for any.
  let segments: [Substring]
  let handlers: [HTTPRequest.Method: PromptHandler]
  /// Whether a caller needs a credential.
  let isAuthenticated: Bool

  /// In bytes: to find the first character takes longer than to compare.
  static func isName(_ segment: Substring) -> Bool { segment.utf8.first == UInt8(ascii: "{") }

  func matches(_ path: [Substring]) -> Bool { zip(segments, path).allSatisfy { Self.isName($0) || $0 == $1 } }

  /// HEAD is GET without the body (RFC 9110, section 9.3.2).
  /// - Throws: 405 for a method that the path does not take (RFC 9110, section 15.5.6).
  func handler(for method: HTTPRequest.Method) throws(Problem) -> PromptHandler {
    if let handler = handlers[method] ?? (method == .head ? handlers[.get] : nil) { return handler }
    let allowed = (handlers.keys + (handlers[.get] == nil ? [] : [.head])).sorted { $0.rawValue < $1.rawValue }
    throw Problem(
      .methodNotAllowed, "This path takes \(allowed.map(\.rawValue).joined(separator: ", ")) only.", allow: allowed)
  }
}

/// A path as it is registered, `/v1/profiles/{user_id}`, and a method that it answers to, if only with 405.
package struct ServiceRoute: Hashable, Sendable {
  package var path: String
  package var method: String
}

/// Collects the routes of a listener before it listens.
final class Routes {
  private(set) var list: [Route] = []
  private let isAuthenticated: Bool

  init(isAuthenticated: Bool = false) { self.isAuthenticated = isAuthenticated }

  /// Registers a path for its methods.
  func serve(
    _ path: String, prompt: [HTTPRequest.Method: PromptHandler] = [:], _ handlers: [HTTPRequest.Method: Handler] = [:]
  ) {
    let waiting = handlers.mapValues { handler -> PromptHandler in
      { request, context in .later { try await handler(request, context) } }
    }
    list.append(
      Route(
        path: path, segments: path.split(separator: "/"), handlers: prompt.merging(waiting) { $1 },
        isAuthenticated: isAuthenticated))
  }
}

/// Finds the route of a path: among those with as many segments, a literal one before a name in braces.
struct RouteTable: Sendable {
  let routes: [Route]
  private let byCount: [Int: [Route]]

  init(_ routes: [Route]) {
    self.routes = routes
    // A brace is sorted behind whatever a literal segment begins with.
    byCount = Dictionary(grouping: routes.sorted { $0.path < $1.path }, by: \.segments.count)
  }

  /// The route of a path, whose empty segments do not count, with the segments in the place of its names.
  func find(_ path: String) -> (route: Route, parameters: [String: String])? {
    let segments = path.utf8.split(separator: UInt8(ascii: "/")).map(Substring.init)
    guard let route = byCount[segments.count]?.first(where: { $0.matches(segments) }) else { return nil }
    var parameters: [String: String] = [:]
    for (part, segment) in zip(route.segments, segments) where Route.isName(part) {
      parameters[String(part.dropFirst().dropLast())] = String(segment)
    }
    return (route, parameters)
  }
}
