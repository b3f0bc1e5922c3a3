import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import Resilience

/// The way of every request of a listener, from its head to its answer, in one pass. Nothing in it waits but the fetch of the keys
/// that users' tokens are checked by, and the handler.
///
///     request ─▶ ID ─▶ route ─▶ checks: one Host, exact path, [ address limit ] ─▶ [ preflight ]
///       ─▶ [ authentication, rate limit ] ─▶ handler ─▶ errors as problems ─▶ log, metrics ─▶ headers ─▶ answer
package struct RequestFront: Sendable {
  let table: RouteTable
  /// `nil` where no route asks for a credential.
  var authentication: Authentication?
  /// The name or address of an operators' listener; `nil` for the public address.
  var operatorsHost: String?
  /// `nil` where no page may call.
  var crossOrigin: CrossOrigin?
  /// The shapes of paths that do not answer with `application/problem+json`.
  var dialects: [DialectErrors] = []
  let headers: CommonHeaders
  let metrics: HTTPMetrics
  let date = HTTPDate()
  let isWorthALine = Occasional(most: 1, every: .seconds(86_400))

  /// The methods of RFC 9110 and RFC 5789.
  private static let methods: [HTTPRequest.Method] = [
    .get, .head, .post, .put, .patch, .delete, .options, .trace,
  ]

  /// Every path with every method that it answers to, if only with 405.
  package var routes: [ServiceRoute] {
    table.routes.flatMap { route in Self.methods.map { ServiceRoute(path: route.path, method: $0.rawValue) } }
  }

  /// As `Reply`, with errors as problems.
  enum Answer: Sendable {
    case now(Response)
    case later(@Sendable () async -> Response)
  }

  func answer(_ request: Request, from peer: ClientAddress?, _ connectionEnd: ConnectionEnd, logger: Logger) -> Answer {
    var context = ServiceRequestContext(request, peer: peer, connectionEnd: connectionEnd, logger: logger)
    metrics.began()
    let reply: Reply
    do { reply = try respond(to: request, &context) } catch { reply = .now(problem(error, request, context)) }
    switch reply {
    case .now(var response):
      finish(&response, to: request, context, logger)
      return .now(response)
    case .later(let work):
      return .later { [context] in
        var response: Response
        do { response = try await work() } catch { response = problem(error, request, context) }
        finish(&response, to: request, context, logger)
        return response
      }
    }
  }

  private func respond(to request: Request, _ context: inout ServiceRequestContext) throws -> Reply {
    let route = try enter(request, &context)
    if let preflight = crossOrigin?.preflight(request) { return .now(preflight) }
    guard let route else { throw Problem.nothingHere }
    guard route.isAuthenticated, let authentication else {
      return try route.handler(for: request.method)(request, context)
    }
    if let caller = try authentication.knownCaller(of: request, context) {
      try authentication.limits.admit(caller, context)
      context.caller = caller
      return try route.handler(for: request.method)(request, context)
    }
    return .later { [context] in
      var context = context
      let caller = try await authentication.caller(of: request, context)
      try authentication.limits.admit(caller, context)
      context.caller = caller
      do {
        switch try route.handler(for: request.method)(request, context) {
        case .now(let response): return response
        case .later(let work): return try await work()
        }
      } catch {
        Authentication.note(error, of: request.method, context)
        throw error
      }
    }
  }

  // Not inlined: a request holds the memory of `answer` until it is answered.

  @inline(never)
  private func enter(_ request: Request, _ context: inout ServiceRequestContext) throws(Problem) -> Route? {
    let found = table.find(request.uri.path)
    if let found { (context.route, context.parameters) = (found.route.path, found.parameters) }
    try check(request, &context)
    return found?.route
  }

  @inline(never)
  private func problem(_ error: any Error, _ request: Request, _ context: ServiceRequestContext) -> Response {
    Authentication.note(error, of: request.method, context)
    let (problem, path) = (Self.problem(error, context), request.uri.path)
    guard let dialect = dialects.first(where: { $0.covers(path) }) else {
      return problem.response(requestID: context.requestID)
    }
    return dialect.response(problem, path, context.requestID)
  }

  private static func problem(_ error: any Error, _ context: ServiceRequestContext) -> Problem {
    switch error {
    case let problem as Problem: return problem
    case is SlowBody:
      return Problem(.requestTimeout, "The request's body came too slowly; nothing was recorded; try again.")
    case is HTTPParserError:
      // The body is not valid HTTP, or ended early: the caller's fault.
      return Problem(.malformedRequest, "The request's body is not valid HTTP, or it ended early.")
    default:
      // The details go to the log, once, and not to the caller.
      context.logger.error("a request failed unexpectedly", metadata: ["error_type": "\(type(of: error))"])
      return Problem(.internalError, "Something went wrong inside the service.")
    }
  }

  @inline(never)
  private func finish(
    _ response: inout Response, to request: Request, _ context: ServiceRequestContext, _ logger: Logger
  ) {
    // The peer of a HEAD would take a body for the next answer (RFC 9110, section 9.3.2).
    if request.method == .head { response.body = .bytes(ByteBuffer()) }
    crossOrigin?.mark(&response, for: request)
    note(response, to: request, context, logger)
    headers.mark(&response)
    response.headers.append(HTTPField(name: .requestID, value: context.requestID))
    response.headers.append(HTTPField(name: .date, value: date.now))
  }

  /// Logs one line per request, with route, status and time, never content, and records the same in the metrics.
  private func note(_ response: Response, to request: Request, _ context: ServiceRequestContext, _ logger: Logger) {
    let elapsed = context.arrival.duration(to: .now)
    metrics.answered(response, request.method, route: context.route, after: elapsed)
    // The route, not the path: a path may hold a user ID, and its values have no bound.
    var metadata: Logger.Metadata = [
      "request_id": .string(context.requestID),
      "method": .string(request.method.rawValue),
      "route": .string(context.route),
      "status": .stringConvertible(response.status.code),
      "milliseconds": .stringConvertible(elapsed / .milliseconds(1)),
    ]
    if let client = request.headers[.countersignClient].flatMap(Self.client) { metadata["client"] = .string(client) }
    logger.log(level: response.status.kind == .serverError ? .warning : .info, "request", metadata: metadata)
  }

  /// The library and its version, as `javascript/0.1.0`; `nil` for anything else.
  private static func client(_ text: String) -> String? {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard text.utf8.count <= 64, parts.count == 2 else { return nil }
    return parts.allSatisfy { RequestID.accepted(String($0)) != nil } ? text : nil
  }
}
