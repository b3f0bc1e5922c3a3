import Hummingbird
import Logging

/// Turns every error into a problem, so that no path answers in another shape.
struct ProblemMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    do {
      return try await next(request, context)
    } catch let problem as Problem {
      return problem.response(requestID: context.requestID)
    } catch let error as HTTPError where error.status == .notFound {
      return Problem(.notFound, "There is nothing at this path.").response(requestID: context.requestID)
    } catch {
      // The caller learns nothing of the inside; the log does, once.
      context.logger.error("unexpected error", metadata: ["error_type": "\(type(of: error))"])
      return Problem(.internalError, "Something went wrong inside the service.")
        .response(requestID: context.requestID)
    }
  }
}
