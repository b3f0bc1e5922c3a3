package import Hummingbird

/// Responds to each request in a task of its own.
///
/// A task keeps the memory of every async function that it was in until it ends, and a connection is one task: each that
/// had carried a receipt kept 54 KB. What a request takes is freed with its own task.
package struct TaskPerRequest<Base: HTTPResponder>: HTTPResponder where Base.Context: Sendable {
  var base: Base

  package init(_ base: Base) {
    self.base = base
  }

  package func respond(to request: Request, context: Base.Context) async throws -> Response {
    async let response = base.respond(to: request, context: context)
    return try await response
  }
}
