import Hummingbird
import HummingbirdCore
import Logging
import NIOHTTP1

/// Turns every error into a problem, so that no path answers in another shape than its own.
struct ProblemMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  /// The shapes of paths that do not answer with `application/problem+json`.
  var dialects: [DialectErrors] = []

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let response = await answer(request, context, next)
    // The peer of a HEAD would take a body for the next answer (RFC 9110, section 9.3.2).
    return request.method == .head ? response.createHeadResponse() : response
  }

  private func answer(
    _ request: Request, _ context: Context, _ next: (Request, Context) async throws -> Response
  ) async -> Response {
    do { return try await next(request, context) } catch {
      let (problem, path) = (Self.problem(error, context), request.uri.path)
      guard let dialect = dialects.first(where: { $0.covers(path) }) else {
        return problem.response(requestID: context.requestID)
      }
      return dialect.response(problem, path, context.requestID)
    }
  }

  private static func problem(_ error: any Error, _ context: Context) -> Problem {
    switch error {
    case let problem as Problem: return problem
    case let error as HTTPError where error.status == .notFound:
      return Problem(.notFound, "There is nothing at this path.")
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
}
